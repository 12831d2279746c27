//! Neighbours that partition alike are fused: a node that divides keys needs no exchange where the rows of each of its keys are at one
//! instance already.
//!
//! They are, if the values by which an earlier node's rows were divided pass unchanged and are among its keys: rows that are
//! equal in all keys are equal in some of them. So an earlier aggregate may be divided by fewer of its keys, if all of these pass; it
//! leaves few rows. A join and aggregates over the rows around each row are divided by all of theirs.
//!
//! ```text
//! Aggregate by k, w ─ Filter ─ Aggregate by k     one exchange, by k; both keep their groups where k is
//! IntervalJoin on a.k = b.k ─ Aggregate by b.k    one exchange for each input, by k
//! ```
//!
//! Source: the idea is StreamCloud's, that rows travel only where it is indispensable (Gulisano et al., §III-B); the paper cuts
//! before each aggregate.

use datafusion_common::DFSchema;
use datafusion_expr::{Expr, ExprSchemable};

use super::cut::{self, is_divided_by_keys};
use crate::{
    Node, NodeId, Plan,
    node::{Aggregate, JoinKind, Over, Windowing},
};

/// A node whose keys are divided among the instances of its subquery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed {
    /// The node.
    pub node: NodeId,
    /// Its keys that its state is divided by; those of fused nodes have the same values, one by one.
    pub by: Vec<usize>,
}

/// The nodes with keys of a subquery of these nodes, with another one behind them, if that needs no exchange.
pub fn fused(plan: &Plan, id: NodeId, nodes: &[NodeId], keyed: &[Keyed]) -> Option<Vec<Keyed>> {
    let first = keyed.first()?;
    let node = &plan.node(id).node;
    let is_divisible = match node {
        Node::Aggregate(aggregate) => is_divided_by_keys(aggregate),
        Node::Over(_) => true,
        _ => false,
    };
    let keys = cut::keys(plan.node(id), 0).filter(|_| is_divisible)?;
    let found = first.by.iter().map(|key| {
        let columns = columns(plan, nodes, first.node, *key)?;
        let is_one = |key: &&Expr| column(key, input(plan, id)).is_some_and(|column| columns.contains(&column));
        keys.iter().position(is_one)
    });
    let found: Vec<Option<usize>> = found.collect();
    let may_narrow = matches!(plan.node(first.node).node, Node::Aggregate(_));
    if !may_narrow && found.contains(&None) {
        return None;
    }
    let stay = |by: &[usize]| by.iter().zip(&found).filter_map(|(key, found)| found.map(|_| *key)).collect();
    let mut keyed: Vec<_> = keyed.iter().map(|keyed| Keyed { node: keyed.node, by: stay(&keyed.by) }).collect();
    keyed.push(Keyed { node: id, by: found.iter().flatten().copied().collect() });
    found.iter().any(Option::is_some).then_some(keyed)
}

/// The columns behind a chain of nodes that have the values of a key of the first of them with keys.
fn columns(plan: &Plan, nodes: &[NodeId], first: NodeId, key: usize) -> Option<Vec<usize>> {
    let mut columns = given(plan, first, key);
    let behind = nodes.iter().skip_while(|id| **id != first).skip(1);
    for id in behind {
        let input = input(plan, *id);
        let passes = |(_, expression): &(usize, &Expr)| column(expression, input).is_some_and(|c| columns.contains(&c));
        columns = match &plan.node(*id).node {
            // A window puts its columns behind those of its input.
            Node::Filter(_) | Node::Window(_) => columns,
            Node::Over(over) => passed(over, &columns),
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

/// The columns of what a node gives that have the values of one of its keys in each row.
fn given(plan: &Plan, id: NodeId, key: usize) -> Vec<usize> {
    let sides = plan.node(id).first_of_sides();
    let input = |side: usize| &plan.node(sides[side]).schema.columns;
    match &plan.node(id).node {
        Node::Aggregate(aggregate) => vec![first_key(aggregate) + key],
        Node::Over(over) => passed(over, column(&over.keys[key], input(0)).as_slice()),
        Node::IntervalJoin(join) => {
            let (left, right) = &join.keys[key];
            let is_alike = match (left.get_type(input(0)), right.get_type(input(1))) {
                (Ok(left), Ok(right)) => left == right,
                _ => false,
            };
            let left = column(left, input(0));
            let right = column(right, input(1)).map(|column| input(0).fields().len() + column);
            // What has no partner has nulls for its columns, wherever it is.
            let [left, right] = match join.kind {
                JoinKind::Inner if is_alike => [left, right],
                JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti => [left, None],
                JoinKind::Right => [None, right],
                JoinKind::Full => [None, None],
            };
            left.into_iter().chain(right).collect()
        }
        _ => Vec::new(),
    }
}

/// Where these columns of its first input stand in what aggregates over the rows around each row give.
fn passed(over: &Over, columns: &[usize]) -> Vec<usize> {
    over.passes.iter().enumerate().filter(|(_, column)| columns.contains(column)).map(|(at, _)| at).collect()
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
