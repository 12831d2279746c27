//! Which part of an expression failed, and on which value: only looked for once something has failed.

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::{
    CastOptions, cast_with_options,
    display::{ArrayFormatter, FormatOptions},
};
use arrow_schema::DataType;
use datafusion_common::{
    Column, DFSchema, DataFusionError,
    tree_node::{Transformed, TreeNode, TreeNodeRecursion},
};
use datafusion_expr::{Expr, ExprSchemable, Operator, expr::BinaryExpr};
use thalweg_core::{Error, error::Fault, types::sql_name};

use crate::{compile::physical, error::from_datafusion};

/// The error of an expression that failed on these rows, in our words.
pub fn explain(expression: &Expr, schema: &DFSchema, rows: &RecordBatch, error: &DataFusionError) -> Error {
    let found = from_datafusion(error);
    if found.fault() != Fault::Data {
        return found;
    }
    let culprit = culprit(expression, schema, rows);
    let place = readable(culprit);
    if found.message() == "division by zero" {
        return Error::data(format!("division by zero in {place}"))
            .with_hint("NULLIF(divisor, 0) gives null where the divisor is zero");
    }
    // Arrow says "overflow happened on: 1 + 2", DataFusion says "Int64Array overflow on abs(1)".
    let overflow = found.message().split_once("overflow happened on: ").or(found.message().split_once(" overflow on "));
    if let Some((_, operation)) = overflow {
        let kind = culprit.get_type(schema).map_or("value".into(), |kind| sql_name(&kind).to_lowercase());
        let operation = match culprit {
            Expr::Negative(_) => format!("-({})", operation.trim_start_matches("0 - ")),
            _ => operation.to_string(),
        };
        return Error::data(format!("{kind} out of range: {operation} in {place}"))
            .with_hint("cast an operand to a wider type");
    }
    if let Expr::Cast(cast) = culprit
        && let Some(value) = uncastable(&cast.expr, cast.field.data_type(), schema, rows)
    {
        return Error::data(format!("{value} in {place} is not a value of type {}", sql_name(cast.field.data_type())))
            .with_hint("TRY_CAST gives null where a value does not fit");
    }
    Error::data(format!("{} in {place}", found.message()))
}

/// The expression as a person would write it: DataFusion writes a number among arguments as `Int64(1)`.
fn readable(expression: &Expr) -> String {
    let plain = expression.clone().transform(|part| {
        Ok(match &part {
            Expr::Literal(value, _) if !value.is_null() => {
                let is_text = matches!(value.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
                let text = if is_text { format!("'{value}'") } else { value.to_string() };
                Transformed::yes(Expr::Column(Column::new_unqualified(text)))
            }
            _ => Transformed::no(part),
        })
    });
    plain.map_or_else(|_| expression.human_display().to_string(), |plain| plain.data.human_display().to_string())
}

/// The smallest part of the expression that fails on these rows.
fn culprit<'a>(expression: &'a Expr, schema: &DFSchema, rows: &RecordBatch) -> &'a Expr {
    if is_lazy(expression) {
        return expression; // Its parts may fail on rows for which they were never asked.
    }
    let mut failing = None;
    let visited = expression.apply_children(|part| {
        if value(part, schema, rows).is_some() {
            return Ok(TreeNodeRecursion::Continue);
        }
        failing = Some(part);
        Ok(TreeNodeRecursion::Stop)
    });
    match failing {
        Some(part) if visited.is_ok() => culprit(part, schema, rows),
        _ => expression,
    }
}

fn is_lazy(expression: &Expr) -> bool {
    let is_logical = |op: &Operator| matches!(op, Operator::And | Operator::Or);
    match expression {
        Expr::Case(_) | Expr::ScalarFunction(_) => true,
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_logical(op),
        _ => false,
    }
}

fn value(expression: &Expr, schema: &DFSchema, rows: &RecordBatch) -> Option<ArrayRef> {
    physical(expression, schema).ok()?.evaluate(rows).ok()?.into_array(rows.num_rows()).ok()
}

/// The first value that the cast fails on, as text.
fn uncastable(expression: &Expr, kind: &DataType, schema: &DFSchema, rows: &RecordBatch) -> Option<String> {
    let values = value(expression, schema, rows)?;
    let options = CastOptions { safe: true, format_options: FormatOptions::default() };
    let cast = cast_with_options(&values, kind, &options).ok()?;
    let row = (0..values.len()).find(|row| values.is_valid(*row) && cast.is_null(*row))?;
    let text = ArrayFormatter::try_new(&values, &FormatOptions::default()).ok()?.value(row).to_string();
    let is_text = matches!(values.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    Some(if is_text { format!("\"{text}\"") } else { text })
}
