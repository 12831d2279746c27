//! The join below an aggregate, where nothing but columns that are computed and windows stand in between.

use datafusion_common::{
    Column, JoinType, TableReference,
    tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
};
use datafusion_expr::{Expr, LogicalPlan, logical_plan};

use super::stream::WindowColumn;
use crate::{last::LastNode, windowing::WindowNode};

/// The join whose rows are aggregated, perhaps in windows.
pub(super) struct Joined<'a> {
    pub join: &'a logical_plan::Join,
    pub window: Option<InWindows<'a>>,
}

/// The windows in which pairs are aggregated, and their time over the columns of the join.
pub(super) struct InWindows<'a> {
    pub node: &'a WindowNode,
    pub time: Expr,
}

/// Whose the columns of windows are.
pub(super) fn the_window() -> TableReference {
    TableReference::bare("the window")
}

/// Whether a column is one of theirs.
pub(super) fn is_of_window(column: &Column) -> bool {
    column.relation.as_ref() == Some(&the_window())
}

/// The join whose rows are aggregated, and these expressions over its columns and those of [`the_window`]; none if what is computed in between
/// is another thing each time.
pub(super) fn joined<'a>(
    input: &'a LogicalPlan,
    mut expressions: Vec<&mut Expr>,
) -> datafusion_common::Result<Option<Joined<'a>>> {
    let (below, computed): (&LogicalPlan, Vec<Expr>) = match input {
        LogicalPlan::Join(join) => {
            let is_kind = matches!(join.join_type, JoinType::Inner | JoinType::Left | JoinType::Right);
            let is_one = is_kind && LastNode::of(&join.right).is_none();
            return Ok(is_one.then_some(Joined { join, window: None }));
        }
        LogicalPlan::Projection(projection) if !projection.expr.iter().any(Expr::is_volatile) => {
            let computed = projection.expr.iter().map(|part| part.clone().unalias_nested().data);
            (&projection.input, computed.collect())
        }
        LogicalPlan::SubqueryAlias(alias) => {
            (&alias.input, alias.input.schema().columns().into_iter().map(Expr::Column).collect())
        }
        LogicalPlan::Extension(extension) => match extension.node.as_any().downcast_ref::<WindowNode>() {
            // Where they begin is for all rows to say.
            Some(node) if !node.from_first_row => {
                let own = WindowColumn::ALL.map(|column| Column::new(Some(the_window()), column.name()));
                let computed = node.input.schema().columns().into_iter().chain(own).map(Expr::Column);
                over_below(input, &computed.collect::<Vec<_>>(), &mut expressions)?;
                let mut time = node.time.clone();
                let all = expressions.into_iter().chain([&mut time]).collect();
                let below = joined(&node.input, all)?.filter(|below| below.window.is_none());
                return Ok(below.map(|below| Joined { window: Some(InWindows { node, time }), ..below }));
            }
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    over_below(input, &computed, &mut expressions)?;
    joined(below, expressions)
}

/// Puts what is computed for each column of a node in place of the column.
fn over_below(node: &LogicalPlan, computed: &[Expr], expressions: &mut [&mut Expr]) -> datafusion_common::Result<()> {
    for expression in expressions {
        let over_below = std::mem::take(*expression).transform(|part| match &part {
            Expr::Column(column) => Ok(match node.schema().maybe_index_of_column(column) {
                Some(number) => Transformed::new(computed[number].clone(), true, TreeNodeRecursion::Jump),
                None => Transformed::no(part),
            }),
            _ => Ok(Transformed::no(part)),
        });
        **expression = over_below.data()?;
    }
    Ok(())
}
