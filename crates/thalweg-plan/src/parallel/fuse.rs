//! Neighbours that partition alike are fused: an aggregate needs no exchange where the rows of each of its groups are at one
//! instance already.
//!
//! They are, if the values by which an earlier aggregate's rows were divided pass unchanged and are among its keys: rows that are
//! equal in all keys are equal in some of them. So the earlier one may be divided by fewer of its keys, if all of these pass.
//!
//! ```text
//! Aggregate by k, w ─ Filter ─ Aggregate by k     one exchange, by k; both keep their groups where k is
//! ```
//!
//! Source: the idea is StreamCloud's, that rows travel only where it is indispensable (Gulisano et al., §III-B); the paper cuts
//! before each aggregate.

use datafusion_common::DFSchema;
use datafusion_expr::Expr;

use super::cut::is_divided_by_keys;
use crate::{
    Node, NodeId, Plan,
    node::{Aggregate, Windowing},
};

/// An aggregate whose groups are divided among the instances of its subquery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed {
    /// The aggregate.
    pub node: NodeId,
    /// Its keys that groups are divided by; those of fused aggregates have the same values, one by one.
    pub by: Vec<usize>,
}

/// The aggregates of a subquery of these nodes, with another one behind them, if that needs no exchange.
pub fn fused(plan: &Plan, id: NodeId, nodes: &[NodeId], keyed: &[Keyed]) -> Option<Vec<Keyed>> {
    let first = keyed.first()?;
    let Node::Aggregate(aggregate) = &plan.node(id).node else { return None };
    if !is_divided_by_keys(aggregate) {
        return None;
    }
    let found = first.by.iter().map(|key| key_of(plan, id, aggregate, &columns(plan, nodes, *key)?));
    let found: Vec<Option<usize>> = found.collect();
    let stay = |by: &[usize]| by.iter().zip(&found).filter_map(|(key, found)| found.map(|_| *key)).collect();
    let mut keyed: Vec<_> = keyed.iter().map(|keyed| Keyed { node: keyed.node, by: stay(&keyed.by) }).collect();
    keyed.push(Keyed { node: id, by: found.iter().flatten().copied().collect() });
    found.iter().any(Option::is_some).then_some(keyed)
}

/// The columns behind a chain of nodes that have the values of a key of the aggregate with which it begins.
fn columns(plan: &Plan, nodes: &[NodeId], key: usize) -> Option<Vec<usize>> {
    let (first, behind) = nodes.split_first()?;
    let Node::Aggregate(aggregate) = &plan.node(*first).node else { return None };
    let mut columns = vec![first_key(aggregate) + key];
    for id in behind {
        let input = input(plan, *id);
        let passes = |(_, expression): &(usize, &Expr)| column(expression, input).is_some_and(|c| columns.contains(&c));
        columns = match &plan.node(*id).node {
            // A window puts its columns behind those of its input.
            Node::Filter(_) | Node::Window(_) => columns,
            Node::Map(map) => map.expressions.iter().enumerate().filter(passes).map(|(at, _)| at).collect(),
            Node::Aggregate(aggregate) => {
                let keys = aggregate.keys.iter().enumerate().filter(passes);
                keys.map(|(at, _)| first_key(aggregate) + at).collect()
            }
            _ => return None,
        };
    }
    Some(columns)
}

/// The key of an aggregate that is one of these columns.
fn key_of(plan: &Plan, id: NodeId, aggregate: &Aggregate, columns: &[usize]) -> Option<usize> {
    let is_one = |key: &Expr| column(key, input(plan, id)).is_some_and(|column| columns.contains(&column));
    aggregate.keys.iter().position(is_one)
}

/// The column that an expression is, as it is: a cast may make one value of two.
fn column(expression: &Expr, input: &DFSchema) -> Option<usize> {
    match expression {
        Expr::Alias(alias) => column(&alias.expr, input),
        Expr::Column(column) => input.maybe_index_of_column(column),
        _ => None,
    }
}

fn input(plan: &Plan, id: NodeId) -> &DFSchema {
    &plan.node(plan.node(id).inputs[0]).schema.columns
}

/// Where the keys stand in what an aggregate gives: behind the window's bounds.
pub(super) fn first_key(aggregate: &Aggregate) -> usize {
    if aggregate.windowing == Windowing::Whole { 0 } else { 3 }
}
