//! Settles the types of a plan's columns and expressions, before DataFusion coerces what is left.
//!
//! From the inputs up, so that each node sees the types that its inputs have in the end: DataFusion gives a union the types of its
//! first input, and nodes above it keep them.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use datafusion_common::{
    DFSchema, Result, ScalarValue,
    config::ConfigOptions,
    plan_err,
    tree_node::{Transformed, TransformedResult, TreeNode},
};
use datafusion_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder,
    expr_rewriter::{FunctionRewrite, NamePreserver},
    logical_plan::{Union, Values},
    type_coercion::binary::type_union_resolution,
    utils::merge_schema,
};
use datafusion_optimizer::analyzer::type_coercion::coerce_union_schema;

use crate::{numbers::are_apart, together::Together};

/// The plan whose expressions are rewritten, and whose unions and VALUES have one type in each column.
pub(crate) fn settle(
    plan: LogicalPlan,
    rewrites: &[&dyn FunctionRewrite],
    options: &ConfigOptions,
) -> Result<LogicalPlan> {
    let settled = plan.transform_up_with_subqueries(|node| {
        let node = match node {
            LogicalPlan::Union(inputs) => union(inputs)?,
            LogicalPlan::Values(rows) => expressions(values(rows)?, rewrites, options)?,
            other => expressions(other, rewrites, options)?.recompute_schema()?,
        };
        Ok(Transformed::yes(node))
    });
    settled.data()
}

fn expressions(node: LogicalPlan, rewrites: &[&dyn FunctionRewrite], options: &ConfigOptions) -> Result<LogicalPlan> {
    let schema = merge_schema(&node.inputs());
    let names = NamePreserver::new(&node);
    let rewritten = node.map_expressions(|expression| {
        let name = names.save(&expression);
        let rewritten = expression.transform_up(|part| {
            let mut part = Transformed::no(part);
            for rewrite in rewrites {
                part = part.transform_data(|part| rewrite.rewrite(part, &schema, options))?;
            }
            Ok(part)
        })?;
        Ok(rewritten.update_data(|expression| name.restore(expression)))
    });
    rewritten.data()
}

fn union(union: Union) -> Result<LogicalPlan> {
    let columns = union.schema.fields().len();
    let mut changes = Vec::new();
    for i in 0..columns {
        let kinds = union.inputs.iter().map(|input| input.schema().field(i).data_type());
        if let Some(first) = kinds.clone().find(|kind| **kind != DataType::Null)
            && let Some(other) = kinds.clone().find(|kind| are_apart(first, kind))
        {
            let column = union.schema.field(i).name();
            return plan_err!("inputs were of type {first}, but got incompatible type {other} on column '{column}'");
        }
        changes.push(Together::of(kinds));
    }
    let inputs = union.inputs.into_iter().map(|input| cast(input, &changes)).collect::<Result<Vec<_>>>()?;
    let schema = Arc::new(coerce_union_schema(&inputs)?);
    Ok(LogicalPlan::Union(Union { inputs, schema }))
}

fn cast(input: Arc<LogicalPlan>, changes: &[Option<Together>]) -> Result<Arc<LogicalPlan>> {
    let kinds = input.schema().fields().iter().map(|field| field.data_type());
    let changes: Vec<_> =
        kinds.zip(changes).map(|(kind, change)| change.as_ref().filter(|change| change.changes(kind))).collect();
    if changes.iter().all(Option::is_none) {
        return Ok(input);
    }
    let columns = input.schema().columns().into_iter().zip(changes).map(|(column, change)| match change {
        Some(change) => {
            let name = column.name.clone();
            change.cast(Expr::Column(column)).alias(name)
        }
        None => Expr::Column(column),
    });
    let columns = columns.collect::<Vec<_>>();
    LogicalPlanBuilder::from(Arc::unwrap_or_clone(input)).project(columns)?.build().map(Arc::new)
}

/// VALUES, in which DataFusion has cast floats to decimals, and instants to times in UTC.
fn values(mut values: Values) -> Result<LogicalPlan> {
    let mut has_changed = false;
    for (i, field) in values.schema.fields().iter().enumerate() {
        // Nobody can write a cast to nanoseconds.
        let is_suspect =
            field.data_type().is_decimal() || matches!(field.data_type(), DataType::Timestamp(TimeUnit::Nanosecond, _));
        if !is_suspect {
            continue;
        }
        let before: Vec<_> = values.values.iter().map(|row| without_cast(&row[i], field.data_type())).collect();
        let kinds: Vec<_> = before.iter().filter_map(|value| value.get_type(&DFSchema::empty()).ok()).collect();
        // Where the types do not lead to that of the column, somebody has written the casts.
        if together_in_datafusion(&kinds).as_ref() != Some(field.data_type()) {
            continue;
        }
        let Some(together) = Together::of(kinds.iter()) else { continue };
        for (row, value) in values.values.iter_mut().zip(before) {
            let kind = value.get_type(&DFSchema::empty())?;
            row[i] = if together.changes(&kind) { together.cast(value) } else { value };
        }
        has_changed = true;
    }
    if !has_changed {
        return Ok(LogicalPlan::Values(values));
    }
    LogicalPlanBuilder::values(values.values)?.build()
}

fn together_in_datafusion(kinds: &[DataType]) -> Option<DataType> {
    let mut kinds = kinds.iter().filter(|kind| **kind != DataType::Null);
    let first = kinds.next()?.clone();
    kinds.try_fold(first, |all, kind| type_union_resolution(&[all, kind.clone()]))
}

fn without_cast(value: &Expr, to: &DataType) -> Expr {
    match value {
        Expr::Cast(cast) if cast.field.data_type() == to => (*cast.expr).clone(),
        Expr::Literal(constant, _) if constant.is_null() => Expr::Literal(ScalarValue::Null, None),
        other => other.clone(),
    }
}
