//! Which part of an expression failed, and on which value: only looked for once something has failed.

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, cast::AsArray};
use arrow_cast::{
    CastOptions, can_cast_types, cast_with_options,
    display::{ArrayFormatter, FormatOptions},
};
use arrow_schema::DataType;
use arrow_select::filter::filter_record_batch;
use datafusion_common::{
    DFSchema, DataFusionError,
    tree_node::{TreeNode, TreeNodeRecursion},
};
use datafusion_expr::{Expr, ExprSchemable, Operator, expr::BinaryExpr};
use thalweg_core::{
    Error,
    error::{Fault, Subject},
    types::sql_name,
};
use thalweg_plan::written;

use crate::{compile::physical, error::from_datafusion};

/// The error of an expression that failed on these rows, in our words.
pub fn explain(expression: &Expr, schema: &DFSchema, rows: &RecordBatch, error: &DataFusionError) -> Error {
    let found = from_datafusion(error);
    if found.fault() != Fault::Data {
        return found;
    }
    let (culprit, rows) = culprit(expression, schema, rows);
    let rows = &rows;
    let place = written(culprit);
    // What fails without any row is the query's fault.
    let fault = if culprit.any_column_refs() { Fault::Data } else { Fault::Query };
    let failed = |message: String| Error::new(fault, message).about(Subject::Expression(place.clone()));
    if found.message() == "division by zero" {
        let hint = "NULLIF(divisor, 0) gives null where the divisor is zero";
        return failed(format!("division by zero in {place}")).with_hint(hint);
    }
    // Arrow says "overflow happened on: 1 + 2", DataFusion says "Int64Array overflow on abs(1)".
    let overflow = found.message().split_once("overflow happened on: ").or(found.message().split_once(" overflow on "));
    if let Some((_, operation)) = overflow {
        let kind = culprit.get_type(schema).map_or("value".into(), |kind| sql_name(&kind).to_lowercase());
        let operation = match culprit {
            Expr::Negative(_) => format!("-({})", operation.trim_start_matches("0 - ")),
            _ => operation.to_string(),
        };
        let operation = if operation == place { String::new() } else { format!(": {operation}") };
        return failed(format!("{kind} out of range{operation} in {place}"))
            .with_hint("cast an operand to a wider type");
    }
    if let Expr::Cast(cast) = culprit
        && let Some(value) = uncastable(&cast.expr, cast.field.data_type(), schema, rows)
    {
        let kind = sql_name(cast.field.data_type());
        let among = if matches!(*cast.expr, Expr::Literal(..)) { String::new() } else { format!(" in {place}") };
        return Error::new(fault, format!("{value}{among} is not a value of type {kind}"))
            .with_hint("TRY_CAST gives null where a value does not fit")
            .about(Subject::Expression(format!("CAST({place} AS {kind})")));
    }
    failed(format!("{} in {place}", found.message()))
}

/// The error of an expression that cannot be compiled, in our words.
pub fn refusal(expression: &Expr, schema: &DFSchema, error: &DataFusionError) -> Error {
    let mut refused = None;
    let visited = expression.apply(|part| {
        if let Expr::Cast(cast) = part
            && let Ok(from) = cast.expr.get_type(schema)
            && !can_cast_types(&from, cast.field.data_type())
        {
            refused = Some((written(&cast.expr), from, cast.field.data_type().clone()));
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    match refused.filter(|_| visited.is_ok()) {
        Some((part, from, to)) => {
            let (from, to) = (sql_name(&from), sql_name(&to));
            Error::query(format!("{part} is {from}, which cannot be cast to {to}"))
                .about(Subject::Expression(format!("CAST({part} AS {to})")))
        }
        None => {
            let part = uncompiled(expression, schema).unwrap_or(expression);
            from_datafusion(error).about(Subject::Expression(written(part)))
        }
    }
}

/// The smallest part that cannot be compiled by itself.
fn uncompiled<'a>(expression: &'a Expr, schema: &DFSchema) -> Option<&'a Expr> {
    physical(expression, schema).err()?;
    let mut inner = None;
    let visited = expression.apply_children(|part| {
        inner = uncompiled(part, schema);
        Ok(if inner.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    visited.ok()?;
    inner.or(Some(expression))
}

/// The smallest part of the expression that fails on these rows, and the rows for which it was asked.
fn culprit<'a>(expression: &'a Expr, schema: &DFSchema, rows: &RecordBatch) -> (&'a Expr, RecordBatch) {
    match failing(expression, schema, rows) {
        Some((part, rows)) => culprit(part, schema, &rows),
        None => (expression, rows.clone()),
    }
}

/// The first direct part that fails by itself, on the rows for which it is asked.
fn failing<'a>(expression: &'a Expr, schema: &DFSchema, rows: &RecordBatch) -> Option<(&'a Expr, RecordBatch)> {
    let fails = |part: &'a Expr, rows: RecordBatch| {
        let is_failing = rows.num_rows() > 0 && value(part, schema, &rows).is_none();
        is_failing.then_some((part, rows))
    };
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            fails(left, rows.clone()).or_else(|| {
                let open = open_rows(left, *op == Operator::And, schema, rows)?;
                fails(right, open)
            })
        }
        Expr::Case(case) => {
            if let Some(operand) = &case.expr {
                // Which branch is taken follows from comparisons that nobody wrote.
                return fails(operand, rows.clone());
            }
            let mut rest = rows.clone();
            for (when, then) in &case.when_then_expr {
                let found = fails(when, rest.clone());
                let found = match found {
                    None => fails(then, true_rows(when, true, schema, &rest)?),
                    some => some,
                };
                if found.is_some() {
                    return found;
                }
                rest = true_rows(when, false, schema, &rest)?;
            }
            fails(case.else_expr.as_ref()?, rest)
        }
        Expr::ScalarFunction(call) if call.func.short_circuits() => None,
        _ => {
            let mut found = None;
            let visited = expression.apply_children(|part| {
                found = fails(part, rows.clone());
                Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            });
            visited.ok()?;
            found
        }
    }
}

/// The rows for which a condition is true, or those for which it is not.
fn true_rows(condition: &Expr, wanted: bool, schema: &DFSchema, rows: &RecordBatch) -> Option<RecordBatch> {
    let values = value(condition, schema, rows)?;
    let values = values.as_boolean_opt()?;
    let mask = (0..rows.num_rows()).map(|row| Some((values.is_valid(row) && values.value(row)) == wanted));
    filter_record_batch(rows, &BooleanArray::from_iter(mask)).ok()
}

/// The rows for which the left side of AND or OR leaves the answer open.
fn open_rows(left: &Expr, is_and: bool, schema: &DFSchema, rows: &RecordBatch) -> Option<RecordBatch> {
    let values = value(left, schema, rows)?;
    let values = values.as_boolean_opt()?;
    let mask = (0..rows.num_rows()).map(|row| Some(values.is_null(row) || values.value(row) == is_and));
    filter_record_batch(rows, &BooleanArray::from_iter(mask)).ok()
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
