//! `(a, b) = (c, d)` is `a = c AND b = d`, so that a join finds its keys, and null means what it means there.

use sqlparser::ast::{BinaryOperator, Expr, Spanned, UnaryOperator};
use thalweg_core::{Error, Result};

use crate::script;

/// A comparison of tuples, as one of what is in them.
///
/// Errors: `Error::Query` with the place, if they have not the same number of values.
pub(super) fn compared(expression: &Expr) -> Result<Option<Expr>> {
    match expression {
        Expr::BinaryOp { left, op, right } => match (&**left, &**right) {
            (Expr::Tuple(left), Expr::Tuple(right)) => comparison(left, op, right, expression),
            _ => Ok(None),
        },
        Expr::InList { expr, list, negated } => {
            let Expr::Tuple(values) = &**expr else { return Ok(None) };
            let mut any: Option<Expr> = None;
            for others in list {
                let Expr::Tuple(others) = others else { return Ok(None) };
                let Some(equal) = comparison(values, &BinaryOperator::Eq, others, expression)? else { return Ok(None) };
                any = Some(match any {
                    Some(any) => joined(any, BinaryOperator::Or, equal),
                    None => equal,
                });
            }
            Ok(any.map(|any| if *negated { not(any) } else { nested(any) }))
        }
        _ => Ok(None),
    }
}

fn comparison(left: &[Expr], op: &BinaryOperator, right: &[Expr], whole: &Expr) -> Result<Option<Expr>> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    if !matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
        return Ok(None);
    }
    if left.len() != right.len() {
        return Err(Error::query(format!("{} values are compared with {}", left.len(), right.len()))
            .with_hint("write as many on both sides: (a, b) = (c, d)")
            .at(script::span(whole.span())));
    }
    let compare =
        |one: &Expr, op: &BinaryOperator, other: &Expr| joined(nested(one.clone()), op.clone(), nested(other.clone()));
    let pairs = || left.iter().zip(right);
    Ok(match op {
        Eq => pairs().map(|(one, other)| compare(one, &Eq, other)).reduce(and).map(nested),
        NotEq => pairs().map(|(one, other)| compare(one, &Eq, other)).reduce(and).map(not),
        // The first that differ decide.
        _ => {
            let strict = if matches!(op, Lt | LtEq) { Lt } else { Gt };
            let mut pairs = pairs().rev();
            let last = pairs.next().map(|(one, other)| compare(one, op, other));
            let before = |rest: Expr, (one, other): (&Expr, &Expr)| {
                let equal = and(compare(one, &Eq, other), rest);
                nested(joined(compare(one, &strict, other), BinaryOperator::Or, nested(equal)))
            };
            last.map(|last| pairs.fold(last, before)).map(nested)
        }
    })
}

fn and(one: Expr, other: Expr) -> Expr {
    joined(one, BinaryOperator::And, other)
}

fn joined(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn not(expression: Expr) -> Expr {
    nested(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(expression)) })
}

/// In parentheses, unless it needs none.
fn nested(expression: Expr) -> Expr {
    match expression {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) | Expr::Nested(_) => expression,
        other => Expr::Nested(Box::new(other)),
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::{dialect::GenericDialect, parser::Parser};

    use super::*;

    fn written(text: &str) -> Result<Option<String>> {
        let expression = Parser::new(&GenericDialect {}).try_with_sql(text).unwrap().parse_expr().unwrap();
        Ok(compared(&expression)?.map(|new| new.to_string()))
    }

    #[test]
    fn what_is_in_tuples_is_compared() {
        for (text, expected) in [
            ("(a, b) = (c, d + 1)", "(a = c AND b = (d + 1))"),
            ("(a, b) <> (c, d)", "(NOT (a = c AND b = d))"),
            ("(a, b, c) < (x, y, z)", "(a < x OR (a = x AND (b < y OR (b = y AND c < z))))"),
            ("(a, b) >= (x, y)", "(a > x OR (a = x AND b >= y))"),
            ("(a, b) IN ((1, 2), (3, 4))", "((a = 1 AND b = 2) OR (a = 3 AND b = 4))"),
            ("(a, b) NOT IN ((1, 2))", "(NOT (a = 1 AND b = 2))"),
        ] {
            assert_eq!(written(text).unwrap().as_deref(), Some(expected), "{text}");
        }
        for text in ["(a, b) + (c, d)", "a = (c, d)", "(a, b) IN (c, (1, 2))", "a IN (1, 2)"] {
            assert_eq!(written(text).unwrap(), None, "{text}");
        }
        assert_eq!(written("(a, b) = (c, d, e)").unwrap_err().to_string(), "2 values are compared with 3");
    }
}
