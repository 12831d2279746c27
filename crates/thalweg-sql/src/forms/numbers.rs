//! Numbers as they are written: whole ones are BIGINT, or DECIMAL where that has not enough digits; those with a point are
//! DECIMAL, and those with an exponent DOUBLE.

use sqlparser::ast::{CastKind, DataType, ExactNumberInfo, Expr, UnaryOperator, Value, ValueWithSpan};
use sqlparser::tokenizer::Span;
use thalweg_core::{Error, Result, decimal::MOST_DIGITS};

use crate::script;

/// What a number is written as for DataFusion's planner, if otherwise.
pub(super) fn literal(expression: &Expr) -> Result<Option<Expr>> {
    match expression {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), span }) => {
            let number = |digits: String| Expr::Value(Value::Number(digits, false).with_span(*span));
            let plain = digits.replace('_', "");
            if plain.contains(['e', 'E']) {
                let text = Expr::Value(Value::SingleQuotedString(plain).with_span(*span));
                return Ok(Some(cast(text, DataType::Double(ExactNumberInfo::None))));
            }
            let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
            if whole.trim_start_matches('0').len() + fraction.len() > usize::from(MOST_DIGITS) {
                let message = format!("number {plain} has more than {MOST_DIGITS} digits");
                let hint = "DECIMAL has no more; write an exponent for a DOUBLE, as in 1.5e0";
                return Err(Error::query(message).with_hint(hint).at(script::span(*span)));
            }
            let is_beyond = !plain.contains('.') && plain.parse::<i64>().is_err();
            Ok(is_beyond.then(|| number(format!("{plain}."))))
        }
        Expr::Value(ValueWithSpan { value: Value::HexStringLiteral(digits), span }) if is_number(span, digits) => {
            let Ok(value) = u128::from_str_radix(&digits.replace('_', ""), 16) else {
                let error = Error::query(format!("number 0x{digits} has more than {MOST_DIGITS} digits"));
                return Err(error.with_hint("write bytes as X'00ff'").at(script::span(*span)));
            };
            let number = Expr::Value(Value::Number(value.to_string(), false).with_span(*span));
            Ok(Some(literal(&number)?.unwrap_or(number)))
        }
        // The smallest BIGINT is the negative of no BIGINT.
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), span }) = &**expr else { return Ok(None) };
            let Some(whole) = digits.strip_suffix('.').filter(|whole| format!("-{whole}").parse::<i64>().is_ok())
            else {
                return Ok(None);
            };
            let whole = Expr::Value(Value::Number(whole.to_string(), false).with_span(*span));
            Ok(Some(Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(whole) }))
        }
        _ => Ok(None),
    }
}

/// Whether hexadecimal digits were written as `0x1F`, not as `X'1F'`: the parser tells them apart only by their places.
fn is_number(span: &Span, digits: &str) -> bool {
    let (start, end) = (span.start, span.end);
    start.line > 0 && start.line == end.line && end.column - start.column == digits.len() as u64 + 2
}

fn cast(value: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(value), data_type, array: false, format: None }
}
