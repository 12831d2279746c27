//! Aggregates over the rows around a row that nobody reads are not computed, and columns that nobody reads go no further.

use std::{collections::BTreeSet, sync::Arc};

use datafusion_common::{
    Column, Result,
    tree_node::{Transformed, TreeNode},
};
use datafusion_expr::{Expr, Extension, LogicalPlan};
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

use super::node::over;

/// Leaves out what nobody above reads. It is followed by the rule that does so for DataFusion's nodes.
#[derive(Debug)]
pub(crate) struct PruneOver;

impl OptimizerRule for PruneOver {
    fn name(&self) -> &str {
        "prune_over"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        pruned(plan, None)
    }
}

/// The columns of a node that are read; `None` is all.
type Read = Option<BTreeSet<Column>>;

fn pruned(plan: LogicalPlan, read: Read) -> Result<Transformed<LogicalPlan>> {
    let (plan, changed) = match (over(&plan), &read) {
        (Some(node), Some(read)) => match node.pruned(read)? {
            // Nobody reads what it computes.
            Some(node) if node.calls.is_empty() => {
                let base = node.inputs.first().cloned().unwrap_or(plan);
                return Ok(Transformed::yes(pruned(base, Some(read.clone()))?.data));
            }
            Some(node) => (LogicalPlan::Extension(Extension { node: Arc::new(node) }), true),
            None => (plan, false),
        },
        _ => (plan, false),
    };
    let below = below(&plan, read);
    let children = plan.map_children(|child| pruned(child, below.clone()))?;
    Ok(Transformed { transformed: children.transformed || changed, ..children })
}

/// What a node reads of its input, if so much of its own columns is read.
fn below(plan: &LogicalPlan, read: Read) -> Read {
    let of = |expressions: &mut dyn Iterator<Item = &Expr>| {
        expressions.flat_map(|expression| expression.column_refs().into_iter().cloned()).collect::<BTreeSet<_>>()
    };
    match plan {
        LogicalPlan::Projection(projection) => Some(of(&mut projection.expr.iter())),
        LogicalPlan::Aggregate(aggregate) => Some(of(&mut aggregate.group_expr.iter().chain(&aggregate.aggr_expr))),
        LogicalPlan::Filter(filter) => {
            let mut read = read?;
            read.extend(of(&mut std::iter::once(&filter.predicate)));
            Some(read)
        }
        LogicalPlan::Sort(sort) => {
            let mut read = read?;
            read.extend(of(&mut sort.expr.iter().map(|key| &key.expr)));
            Some(read)
        }
        LogicalPlan::Limit(_) => read,
        LogicalPlan::SubqueryAlias(alias) => {
            let indices = read?.into_iter().map(|column| alias.schema.maybe_index_of_column(&column));
            let columns = alias.input.schema().columns();
            indices.map(|index| index.and_then(|index| columns.get(index).cloned())).collect()
        }
        _ => {
            let node = over(plan).filter(|node| node.inputs.len() == 1)?;
            let base = node.inputs.first()?.schema();
            let mut all: BTreeSet<Column> = read?.into_iter().filter(|column| base.has_column(column)).collect();
            all.extend(of(&mut node.keys.iter().chain([&node.time]).chain(node.calls.iter().map(|c| &c.function))));
            Some(all)
        }
    }
}
