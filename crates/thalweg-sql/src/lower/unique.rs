//! Which columns tell the rows of a query apart.

use datafusion_common::Column;
use datafusion_expr::{Expr, LogicalPlan};

use crate::planner::Readable;

/// Columns that no two rows have alike, by what the table's declaration promises.
pub(super) fn unique(plan: &LogicalPlan) -> Option<Vec<Column>> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let key = &scan.source.downcast_ref::<Readable>()?.key;
            let found = key.iter().map(|name| scan.projected_schema.iter().find(|(_, field)| field.name() == name));
            let found = found.map(|found| found.map(Column::from)).collect::<Option<Vec<_>>>();
            found.filter(|key| !key.is_empty())
        }
        LogicalPlan::Filter(filter) => unique(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => {
            let below = alias.input.schema();
            let renamed = |column: Column| {
                let number = below.maybe_index_of_column(&column)?;
                Some(Column::from(alias.schema.qualified_field(number)))
            };
            unique(&alias.input)?.into_iter().map(renamed).collect()
        }
        LogicalPlan::Projection(projection) => {
            let renamed = |column: Column| {
                let is_it = |part: &Expr| part.clone().unalias_nested().data == Expr::Column(column.clone());
                let number = projection.expr.iter().position(is_it)?;
                Some(Column::from(projection.schema.qualified_field(number)))
            };
            unique(&projection.input)?.into_iter().map(renamed).collect()
        }
        _ => None,
    }
}
