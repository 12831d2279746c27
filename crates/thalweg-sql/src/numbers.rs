//! Operands of several types: which are cast to which, which are refused, and how many digits a quotient of decimals has.

use arrow_schema::DataType;
use datafusion_common::{DFSchema, Result, config::ConfigOptions, internal_err, plan_err, tree_node::Transformed};
use datafusion_expr::{
    Cast, Expr, ExprSchemable, Operator, expr_rewriter::FunctionRewrite,
    type_coercion::other::get_coerce_type_for_case_expression,
};
use thalweg_core::{Error, decimal::MOST_DIGITS};

use crate::{together::Together, types, windowing::ours};

/// Functions that give one of their arguments, or compare them.
const IS_ONE_OF_THEM: [&str; 6] = ["coalesce", "greatest", "least", "nullif", "nvl", "nvl2"];

/// Settles the types of operands, before DataFusion coerces what is left.
#[derive(Debug)]
pub(crate) struct Numbers;

impl FunctionRewrite for Numbers {
    fn name(&self) -> &str {
        "numbers"
    }

    fn rewrite(&self, mut expression: Expr, schema: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        alike(&expression, schema)?;
        let changed = match &mut expression {
            Expr::BinaryExpr(binary) if is_arithmetic(binary.op) || is_comparison(binary.op) => {
                let is_quotient = binary.op == Operator::Divide;
                // Long chains grow to the left, where asking for types takes long.
                let right = binary.right.get_type(schema).ok();
                let may_mix =
                    right.is_some_and(|kind| kind.is_floating() || kind.is_decimal() || is_day_or_time(&kind));
                may_mix && together(&mut [&mut *binary.left, &mut *binary.right], schema)
                    || is_quotient && widened(&mut binary.left, &binary.right, schema)
            }
            Expr::Between(between) => {
                together(&mut [&mut *between.expr, &mut *between.low, &mut *between.high], schema)
            }
            Expr::InList(list) => {
                together(&mut std::iter::once(&mut *list.expr).chain(&mut list.list).collect::<Vec<_>>(), schema)
            }
            Expr::Case(case) => {
                let mut results: Vec<&mut Expr> = Vec::new();
                let mut compared: Vec<&mut Expr> = case.expr.iter_mut().map(|operand| &mut **operand).collect();
                let has_operand = !compared.is_empty();
                for (when, then) in &mut case.when_then_expr {
                    if has_operand {
                        compared.push(when);
                    }
                    results.push(then);
                }
                results.extend(case.else_expr.iter_mut().map(|otherwise| &mut **otherwise));
                together(&mut compared, schema) | together(&mut results, schema) | floats(&mut results, schema)
            }
            Expr::ScalarFunction(call) => {
                let is_one_of_them = IS_ONE_OF_THEM.contains(&call.name());
                let mut arguments: Vec<_> = call.args.iter_mut().collect();
                // Others, such as concat, take dates and times as they are.
                let may_meet = is_one_of_them || arguments.iter().all(|argument| !is_date(argument, schema));
                may_meet && together(&mut arguments, schema)
            }
            _ => false,
        };
        Ok(if changed { Transformed::yes(expression) } else { Transformed::no(expression) })
    }
}

/// Refuses what DataFusion casts in silence: numbers to times, as days or microseconds since 1970, and numbers to conditions.
fn alike(expression: &Expr, schema: &DFSchema) -> Result<()> {
    match expression {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
            // Long chains are of AND and OR: here each side is asked once.
            let kinds = (binary.left.get_type(schema), binary.right.get_type(schema));
            if let (Ok(left), Ok(right)) = kinds
                && are_apart(&left, &right)
            {
                return plan_err!(
                    "Cannot infer common argument type for comparison operation {left} {} {right}",
                    binary.op
                );
            }
            Ok(())
        }
        Expr::Between(between) => match apart([&*between.expr, &*between.low, &*between.high], schema, are_apart) {
            Some((first, other)) => {
                internal_err!("Failed to coerce types {first} and {other} in BETWEEN expression")
            }
            None => Ok(()),
        },
        Expr::InList(list) => match apart(std::iter::once(&*list.expr).chain(&list.list), schema, are_apart) {
            Some((first, _)) => {
                let kinds = list.list.iter().filter_map(|value| value.get_type(schema).ok());
                let kinds = kinds.map(|kind| kind.to_string()).collect::<Vec<_>>().join(", ");
                plan_err!("there are no compatible types to compare {first} with [{kinds}]")
            }
            None => Ok(()),
        },
        Expr::Case(case) => {
            let conditions = case.when_then_expr.iter().map(|(when, _)| &**when);
            match &case.expr {
                Some(operand) => compared(std::iter::once(&**operand).chain(conditions), schema)?,
                None => {
                    let mut kinds = conditions.filter_map(|when| when.get_type(schema).ok());
                    if let Some(kind) = kinds.find(|kind| !matches!(kind, DataType::Boolean | DataType::Null)) {
                        let message =
                            format!("the condition of CASE is {}, expected BOOLEAN", types::flink_name(&kind));
                        return Err(ours(Error::query(message).with_hint("compare it with something: x > 0")));
                    }
                }
            }
            let results = case.when_then_expr.iter().map(|(_, then)| &**then);
            one_type("CASE", results.chain(case.else_expr.as_deref()), schema, are_apart)
        }
        Expr::ScalarFunction(call) => {
            let name = call.name();
            match name {
                "coalesce" | "nvl" | "greatest" | "least" => one_type(name, &call.args, schema, |a, b| {
                    are_apart(a, b) || a.is_string() && b.is_numeric() || a.is_numeric() && b.is_string()
                }),
                "nvl2" => one_type(name, call.args.iter().skip(1), schema, are_apart),
                "nullif" => one_type(name, &call.args, schema, are_apart),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn compared<'a>(parts: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Result<()> {
    match apart(parts, schema, are_apart) {
        Some((first, other)) => {
            plan_err!("Cannot infer common argument type for comparison operation {first} = {other}")
        }
        None => Ok(()),
    }
}

fn one_type<'a>(
    what: &str,
    parts: impl IntoIterator<Item = &'a Expr>,
    schema: &DFSchema,
    differ: fn(&DataType, &DataType) -> bool,
) -> Result<()> {
    let Some((first, other)) = apart(parts, schema, differ) else { return Ok(()) };
    let (first, other) = (types::flink_name(&first), types::flink_name(&other));
    let error = Error::query(format!("{what} is of {first} and {other}, which are not one type"));
    Err(ours(error.with_hint("cast one to the other's type")))
}

/// The types of two parts that have none together.
fn apart<'a>(
    parts: impl IntoIterator<Item = &'a Expr>,
    schema: &DFSchema,
    differ: fn(&DataType, &DataType) -> bool,
) -> Option<(DataType, DataType)> {
    let kinds: Vec<_> = parts.into_iter().filter_map(|part| part.get_type(schema).ok()).collect();
    let first = kinds.iter().find(|kind| **kind != DataType::Null)?;
    let other = kinds.iter().find(|kind| differ(first, kind))?;
    Some((first.clone(), other.clone()))
}

/// Whether one is a number and the other a time, or one a day and the other a time of day.
pub(crate) fn are_apart(one: &DataType, other: &DataType) -> bool {
    let are = |one: &DataType, other: &DataType| {
        one.is_numeric() && other.is_temporal() || matches!((one, other), (DataType::Date32, DataType::Time64(_)))
    };
    are(one, other) || are(other, one)
}

fn is_date(expression: &Expr, schema: &DFSchema) -> bool {
    matches!(expression.get_type(schema), Ok(DataType::Date32))
}

fn is_day_or_time(kind: &DataType) -> bool {
    matches!(kind, DataType::Date32 | DataType::Timestamp(..))
}

/// Casts those of the operands that give way to others among them.
fn together(operands: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let kinds: Vec<_> = operands.iter().map(|operand| operand.get_type(schema).ok()).collect();
    let Some(together) = Together::of(kinds.iter().flatten()) else { return false };
    for (operand, kind) in operands.iter_mut().zip(kinds) {
        if kind.is_some_and(|kind| together.changes(&kind)) {
            **operand = together.cast((**operand).clone());
        }
    }
    true
}

/// Makes floats of all results of CASE if there is one among them: whoever asks for its type is told that of the first.
fn floats(results: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let kinds: Option<Vec<_>> = results.iter().map(|result| result.get_type(schema).ok()).collect();
    let Some(kinds) = kinds.filter(|kinds| kinds.iter().any(DataType::is_floating)) else { return false };
    let Some(float) = get_coerce_type_for_case_expression(&kinds, None).filter(DataType::is_floating) else {
        return false;
    };
    let mut has_changed = false;
    for (result, kind) in results.iter_mut().zip(kinds) {
        if kind.is_numeric() && kind != float {
            **result = Expr::Cast(Cast::new(Box::new((**result).clone()), float.clone()));
            has_changed = true;
        }
    }
    has_changed
}

/// Gives the dividend so many digits that the quotient has as many as in Flink: at least 6, and none that the divisor could
/// shift away. Arrow gives it 4 more than the dividend has.
fn widened(left: &mut Expr, right: &Expr, schema: &DFSchema) -> bool {
    let digits = |part: &Expr| match part.get_type(schema).ok()? {
        DataType::Decimal128(precision, scale) => Some((i32::from(precision), i32::from(scale), true)),
        DataType::Int8 => Some((3, 0, false)),
        DataType::Int16 => Some((5, 0, false)),
        DataType::Int32 => Some((10, 0, false)),
        DataType::Int64 => Some((19, 0, false)),
        _ => None,
    };
    let Some((p2, s2, is_other)) = digits(right) else { return false };
    let Some((p1, s1, is_decimal)) = digits(left) else { return false };
    let most = i32::from(MOST_DIGITS);
    let scale = 6.max(s1 + p2 + 1);
    let whole = p1 - s1 + s2;
    let scale = if whole + scale > most { scale.min((most - whole).max(6)) } else { scale };
    // The dividend itself keeps all its digits.
    let own = (scale - 4).min(most - (p1 - s1));
    if !(is_decimal || is_other) || own <= s1 {
        return false;
    }
    let (Ok(precision), Ok(own)) = (u8::try_from(p1 - s1 + own), i8::try_from(own)) else { return false };
    *left = Expr::Cast(Cast::new(Box::new(left.clone()), DataType::Decimal128(precision, own)));
    true
}

fn is_arithmetic(operator: Operator) -> bool {
    use Operator::*;
    matches!(operator, Plus | Minus | Multiply | Divide | Modulo)
}

pub(crate) fn is_comparison(operator: Operator) -> bool {
    use Operator::*;
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}
