//! What `lag` gives where there is no row so far back: its third argument, as a value of the type of the first.
//!
//! While calls are planned nobody knows of types. Until all is planned, a call of a function that nobody can write stands for the
//! choice.

use std::sync::Arc;

use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion_common::{
    DFSchema, Result, ScalarValue, internal_err,
    tree_node::{Transformed, TreeNode},
};
use datafusion_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, expr::ScalarFunction, expr_rewriter::NamePreserver, type_coercion::other, utils::merge_schema, when,
};
use thalweg_core::Error;

use super::foreign;
use crate::{types, windowing::ours};

const NAME: &str = "lag otherwise";

/// Stands for what was found, if it is there, and otherwise for something else.
pub(super) fn choice(is_there: Expr, found: Expr, otherwise: Expr) -> Expr {
    let function = ScalarUDF::from(Choice { signature: Signature::any(3, Volatility::Immutable) });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![is_there, found, otherwise]))
}

/// The node with CASE in the place of choices.
///
/// Errors: `Error::Query` for values of other types than those that are found.
pub(super) fn settled(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let is_choice = |part: &Expr| Ok(matches!(part, Expr::ScalarFunction(call) if call.func.name() == NAME));
    if !node.expressions().iter().any(|expression| expression.exists(is_choice).unwrap_or(false)) {
        return Ok(Transformed::no(node));
    }
    let input = merge_schema(&node.inputs());
    let names = NamePreserver::new(&node);
    let settled = node.map_expressions(|expression| {
        let name = names.save(&expression);
        let settled = expression.transform_up(|part| match part {
            Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == NAME => {
                case(args, &input).map(Transformed::yes)
            }
            part => Ok(Transformed::no(part)),
        })?;
        Ok(settled.update_data(|expression| name.restore(expression)))
    })?;
    settled.map_data(LogicalPlan::recompute_schema)
}

/// The second type, with room for all values of the first one if that is one of integers.
fn wide_enough(wanted: &DataType, given: &DataType) -> DataType {
    let digits = match wanted {
        DataType::Int8 | DataType::UInt8 => 3,
        DataType::Int16 | DataType::UInt16 => 5,
        DataType::Int32 | DataType::UInt32 => 10,
        DataType::Int64 => 19,
        DataType::UInt64 => 20,
        _ => 0,
    };
    match given {
        DataType::Decimal128(precision, scale) if digits > 0 => {
            let wide = (digits + u8::try_from(*scale).unwrap_or(0)).max(*precision);
            if wide > DECIMAL128_MAX_PRECISION { DataType::Float64 } else { DataType::Decimal128(wide, *scale) }
        }
        given => given.clone(),
    }
}

fn case(args: Vec<Expr>, input: &DFSchema) -> Result<Expr> {
    let Ok([is_there, found, otherwise]) = <[Expr; 3]>::try_from(args) else {
        return internal_err!("{NAME} has three arguments");
    };
    let otherwise = foreign::of_base(otherwise)?;
    let (wanted, given) = (found.get_type(input)?, otherwise.get_type(input)?);
    let is_null = wanted.is_null() || given.is_null() || constant(&otherwise).is_some_and(|value| value.is_null());
    if !is_null && !fits(&otherwise, &given, &wanted) {
        let text = thalweg_plan::written(&otherwise);
        let both = types::flink_name(&wide_enough(&wanted, &given));
        let (wanted, given) = (types::flink_name(&wanted), types::flink_name(&given));
        let message = format!("lag gives {wanted}, and {text}, which stands where there is no row, is {given}");
        let here = match constant(&otherwise) {
            Some(_) => format!("write a value of type {wanted}"),
            None => format!("cast it: CAST({text} AS {wanted})"),
        };
        let hint = format!("{here}, or cast the first argument: lag(CAST(x AS {both}), …)");
        return Err(ours(Error::query(message).with_hint(hint)));
    }
    let otherwise = if wanted.is_null() || wanted == given {
        otherwise
    } else {
        Expr::Cast(Cast::new(Box::new(otherwise), wanted))
    };
    when(is_there, found).otherwise(otherwise)
}

/// Whether values of one type are values of another, or one that is written in the query is.
fn fits(value: &Expr, given: &DataType, wanted: &DataType) -> bool {
    // What both are turned into is what is wanted.
    let common = other::get_coerce_type_for_case_expression(std::slice::from_ref(given), Some(wanted));
    common.as_ref() == Some(wanted) || constant(value).is_some_and(|value| is_value(&value, given, wanted))
}

fn constant(value: &Expr) -> Option<ScalarValue> {
    match value {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Negative(inner) => constant(inner)?.arithmetic_negate().ok(),
        _ => None,
    }
}

/// Whether a text says such a value, or a number is one.
fn is_value(value: &ScalarValue, given: &DataType, wanted: &DataType) -> bool {
    let Ok(cast) = value.cast_to(wanted) else { return false };
    match given {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        given if given.is_numeric() && wanted.is_numeric() => cast.cast_to(given).is_ok_and(|back| back == *value),
        _ => false,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Choice {
    signature: Signature,
}

impl ScalarUDFImpl for Choice {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        match kinds {
            [_, found, _] => Ok(found.clone()),
            _ => internal_err!("{NAME} has three arguments"),
        }
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("a choice is made by CASE once all is planned")
    }
}
