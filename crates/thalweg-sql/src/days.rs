//! A day of an interval is 24 hours beside an instant and beside the difference of two times, as in Flink, and as bounds of joins and windows
//! count it. DataFusion adds a day of the zone's clock to an instant, and finds 36 hours less than a day.

use std::sync::{Arc, LazyLock};

use arrow_array::{
    cast::AsArray,
    types::{IntervalMonthDayNano, IntervalMonthDayNanoType},
};
use arrow_schema::{DataType, IntervalUnit};
use datafusion_common::{DFSchema, Result, ScalarValue, config::ConfigOptions, tree_node::Transformed};
use datafusion_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, expr::ScalarFunction, expr_rewriter::FunctionRewrite,
};

use crate::numbers::is_comparison;

/// How many nanoseconds a day has.
const DAY: i64 = 86_400_000_000_000;

/// Has the days of intervals count as hours, where that is what a day means.
#[derive(Debug)]
pub(crate) struct Days;

impl FunctionRewrite for Days {
    fn name(&self) -> &str {
        "days"
    }

    fn rewrite(&self, mut expression: Expr, schema: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        let changed = match &mut expression {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) => {
                // Long chains grow to the left, where asking for types takes long.
                match right.get_type(schema) {
                    Ok(DataType::Interval(_)) if !is_difference(right, schema) => {
                        (is_instant(left, schema) || is_difference(left, schema)) && in_hours(right)
                    }
                    Ok(DataType::Interval(_) | DataType::Duration(_) | DataType::Timestamp(_, Some(_))) => {
                        is_interval(left, schema) && !is_difference(left, schema) && in_hours(left)
                    }
                    _ => false,
                }
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
                compared([&mut **left, &mut **right], schema)
            }
            Expr::Between(between) => compared([&mut *between.expr, &mut *between.low, &mut *between.high], schema),
            Expr::InList(list) => compared(std::iter::once(&mut *list.expr).chain(&mut list.list), schema),
            _ => false,
        };
        Ok(if changed { Transformed::yes(expression) } else { Transformed::no(expression) })
    }
}

/// The intervals among several that are compared, if one is the difference of two times; whether there are some.
fn compared<'a>(parts: impl IntoIterator<Item = &'a mut Expr>, schema: &DFSchema) -> bool {
    let mut parts: Vec<&mut Expr> = parts.into_iter().collect();
    let are_differences: Vec<bool> = parts.iter().map(|part| is_difference(part, schema)).collect();
    if !are_differences.contains(&true) {
        return false;
    }
    let others = parts.iter_mut().zip(are_differences).filter(|(_, is_difference)| !is_difference);
    others.fold(false, |changed, (part, _)| is_interval(part, schema) && in_hours(part) || changed)
}

fn is_instant(part: &Expr, schema: &DFSchema) -> bool {
    matches!(part.get_type(schema), Ok(DataType::Timestamp(_, Some(_))))
}

fn is_interval(part: &Expr, schema: &DFSchema) -> bool {
    matches!(part.get_type(schema), Ok(DataType::Interval(_)))
}

/// Whether it is the difference of two times, perhaps with intervals added.
fn is_difference(part: &Expr, schema: &DFSchema) -> bool {
    match part {
        Expr::Negative(inner) => is_difference(inner, schema),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right })
            if is_interval(part, schema) =>
        {
            is_difference(left, schema) || is_difference(right, schema)
        }
        part => matches!(part.get_type(schema), Ok(DataType::Duration(_))),
    }
}

/// Has the days of an interval count as hours; whether that changes anything.
fn in_hours(part: &mut Expr) -> bool {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(InHours::new())));
    if let Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(span)), _) = part {
        return std::mem::replace(span, with_hours(*span)) != *span;
    }
    let all = vec![std::mem::take(part)];
    *part = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&FUNCTION), all));
    true
}

/// The same interval with hours for days; what is longer than 292 years stays as it is.
fn with_hours(span: IntervalMonthDayNano) -> IntervalMonthDayNano {
    let of_days = i64::from(span.days).checked_mul(DAY);
    match of_days.and_then(|of_days| of_days.checked_add(span.nanoseconds)) {
        Some(nanoseconds) => IntervalMonthDayNano { days: 0, nanoseconds, ..span },
        None => span,
    }
}

/// An interval with hours for days, where it is no constant.
#[derive(Debug, PartialEq, Eq, Hash)]
struct InHours {
    signature: Signature,
}

impl InHours {
    fn new() -> Self {
        let interval = DataType::Interval(IntervalUnit::MonthDayNano);
        Self { signature: Signature::exact(vec![interval], Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for InHours {
    fn name(&self) -> &str {
        "days_in_hours"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let spans = ColumnarValue::values_to_arrays(&call.args)?;
        let spans = spans[0].as_primitive::<IntervalMonthDayNanoType>();
        Ok(ColumnarValue::Array(Arc::new(spans.unary::<_, IntervalMonthDayNanoType>(with_hours))))
    }
}
