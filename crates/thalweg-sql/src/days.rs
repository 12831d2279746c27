//! A day of an interval is 24 hours beside an instant and beside the difference of two times, as in Flink, and as bounds of joins and windows
//! count it. DataFusion adds a day of the zone's clock to an instant, and finds 36 hours less than a day.

use arrow_schema::DataType;
use datafusion_common::{DFSchema, Result, ScalarValue, config::ConfigOptions, tree_node::Transformed};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Operator, expr_rewriter::FunctionRewrite};

use crate::numbers::is_comparison;

/// How many nanoseconds a day has.
const DAY: i64 = 86_400_000_000_000;

/// Writes constant intervals with days as hours, where these are what a day means.
#[derive(Debug)]
pub(crate) struct Days;

impl FunctionRewrite for Days {
    fn name(&self) -> &str {
        "days"
    }

    fn rewrite(&self, mut expression: Expr, schema: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        let is_instant = |part: &Expr| matches!(part.get_type(schema), Ok(DataType::Timestamp(_, Some(_))));
        let is_difference = |part: &Expr| is_difference(part, schema);
        let is_counted_in_hours = |part: &Expr| is_instant(part) || is_difference(part);
        let changed = match &mut expression {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                Operator::Plus | Operator::Minus if has_days(right) => is_counted_in_hours(left) && in_hours(right),
                Operator::Plus | Operator::Minus if has_days(left) => is_counted_in_hours(right) && in_hours(left),
                op if is_comparison(*op) && has_days(right) => is_difference(left) && in_hours(right),
                op if is_comparison(*op) && has_days(left) => is_difference(right) && in_hours(left),
                _ => false,
            },
            Expr::Between(between) => {
                compared(&mut [&mut *between.expr, &mut *between.low, &mut *between.high], is_difference)
            }
            Expr::InList(list) => {
                compared(&mut std::iter::once(&mut *list.expr).chain(&mut list.list).collect::<Vec<_>>(), is_difference)
            }
            _ => false,
        };
        Ok(if changed { Transformed::yes(expression) } else { Transformed::no(expression) })
    }
}

/// Whether it is the difference of two times, perhaps with intervals added.
fn is_difference(part: &Expr, schema: &DFSchema) -> bool {
    match part {
        Expr::Negative(inner) => is_difference(inner, schema),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right })
            if matches!(part.get_type(schema), Ok(DataType::Interval(_))) =>
        {
            is_difference(left, schema) || is_difference(right, schema)
        }
        part => matches!(part.get_type(schema), Ok(DataType::Duration(_))),
    }
}

/// Those with days among several that are compared, if one is the difference of two times; whether some were.
fn compared(parts: &mut [&mut Expr], is_difference: impl Fn(&Expr) -> bool) -> bool {
    let have_days = parts.iter().any(|part| has_days(part));
    if !have_days || !parts.iter().any(|part| !has_days(part) && is_difference(part)) {
        return false;
    }
    parts.iter_mut().filter(|part| has_days(part)).fold(false, |changed, part| in_hours(part) | changed)
}

/// Whether it is made of constant intervals alone, of which one has days and none has months. Types are asked for only where it is, since that
/// takes long in long chains.
fn has_days(part: &Expr) -> bool {
    fn days(part: &Expr) -> Option<bool> {
        match part {
            Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(span)), _) if span.months == 0 => Some(span.days != 0),
            Expr::Negative(inner) => days(inner),
            Expr::Alias(alias) => days(&alias.expr),
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) => {
                let right = days(right)?;
                Some(days(left)? | right)
            }
            _ => None,
        }
    }
    days(part) == Some(true)
}

/// Writes the days of constant intervals as hours; whether it could. What is longer than 292 years stays as it is.
fn in_hours(part: &mut Expr) -> bool {
    match part {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(span)), _) => {
            let of_days = i64::from(span.days).checked_mul(DAY);
            let Some(all) = of_days.and_then(|of_days| of_days.checked_add(span.nanoseconds)) else { return false };
            (span.days, span.nanoseconds) = (0, all);
            true
        }
        Expr::Negative(inner) => in_hours(inner),
        Expr::Alias(alias) => in_hours(&mut alias.expr),
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => in_hours(left) | in_hours(right),
        _ => false,
    }
}
