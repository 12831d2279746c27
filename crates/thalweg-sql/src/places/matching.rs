//! Whether an expression of the plan is one of the text.
//!
//! On its way into the plan an expression changes: types are settled with casts, constants are computed, names of subqueries'
//! columns are replaced by what they stand for, sides of comparisons are swapped. Each such difference has a cost; the place
//! with the lowest one is meant.

use std::{borrow::Cow, ops::ControlFlow};

use sqlparser::ast::{BinaryOperator, Expr, Function, UnaryOperator, Value, ValueWithSpan, Visit, Visitor};

use super::aliases::Aliases;
use crate::{forms, types};

/// How many names may stand for one another before nobody looks further.
const DEPTH: u32 = 8;

/// An expression that is looked for.
pub(super) struct Matching<'a> {
    pub wanted: &'a Expr,
    pub aliases: &'a Aliases<'a>,
}

impl Matching<'_> {
    /// How much the expression found differs from the one wanted; `None` if it is another one.
    pub(super) fn cost(&self, found: &Expr) -> Option<u32> {
        match (self.wanted, found) {
            (_, Expr::Nested(_)) => None, // What is in it comes by itself.
            (Expr::Cast { data_type: wanted, expr, .. }, Expr::Cast { data_type, expr: inner, .. }) => {
                let kind = |of| types::arrow_type(of, "UTC").ok();
                let is_kind = kind(wanted) == kind(data_type);
                Some(self.same(expr, inner, 0)? + if is_kind { 0 } else { 20 })
            }
            // `DATE '2020-02-30'`
            (Expr::Cast { expr, .. }, Expr::TypedString(text)) => match &**expr {
                Expr::Value(value) => is_value(value, &text.value).then_some(0),
                _ => None,
            },
            (_, Expr::Cast { .. }) => None,
            // A cast that nobody wrote.
            (Expr::Cast { expr, .. }, found) => Some(self.same(expr, found, 0)? + 10),
            (wanted, found) => self.same(wanted, found, 0),
        }
    }

    fn same(&self, wanted: &Expr, found: &Expr, depth: u32) -> Option<u32> {
        let (wanted, found) = (bare(wanted), bare(found));
        let meant = meant(found);
        let found = meant.as_ref().unwrap_or(found);
        let other = match (wanted, found) {
            (Expr::Value(a), Expr::Value(b)) if is_pattern(a, b) => return Some(1),
            (Expr::Value(a), Expr::Value(b)) => return is_value(a, b).then_some(0),
            (a, b) if is_constant(a) && is_constant(b) && is_literal(a) => {
                return Some(if a.to_string() == b.to_string() { 0 } else { 1 });
            }
            (a, b) => match (column(a), column(b)) {
                (Some(a), Some(b)) if a == b => return Some(0),
                // What several expressions have in common is computed once, under a name of DataFusion's.
                (Some(a), _) if a.starts_with("__common_expr") => return Some(2),
                // What a constant is worth, which no constant can be written as.
                (Some("NaN" | "inf"), None) if is_constant(b) => return Some(1),
                (_, Some(name)) if depth < DEPTH => {
                    let meanings = self.aliases.of(name).iter();
                    let costs = meanings.filter_map(|meaning| self.same(wanted, meaning, depth + 1));
                    return costs.min().map(|cost| cost + 1);
                }
                (None, None) => self.swapped(a, b, depth),
                _ => return None,
            },
        };
        let plain = match head(wanted) == head(found) {
            true => self.all(&parts(wanted), &parts(&without_window(found)), depth),
            false => None,
        };
        plain.into_iter().chain(other).min()
    }

    fn all(&self, wanted: &[Expr], found: &[Expr], depth: u32) -> Option<u32> {
        if wanted.len() != found.len() {
            return None;
        }
        wanted.iter().zip(found).map(|(wanted, found)| self.same(wanted, found, depth)).sum()
    }

    /// `5 < v` is `v > 5`.
    fn swapped(&self, wanted: &Expr, found: &Expr, depth: u32) -> Option<u32> {
        use BinaryOperator::*;
        let (Expr::BinaryOp { left, op, right }, Expr::BinaryOp { left: a, op: turned, right: b }) = (wanted, found)
        else {
            return None;
        };
        let is_turned = matches!(
            (op, turned),
            (Lt, Gt)
                | (Gt, Lt)
                | (LtEq, GtEq)
                | (GtEq, LtEq)
                | (Eq, Eq)
                | (NotEq, NotEq)
                | (Plus, Plus)
                | (Multiply, Multiply)
        );
        is_turned.then_some(())?;
        Some(self.same(left, b, depth)? + self.same(right, a, depth)? + 1)
    }
}

/// What one of OpenMLDB's aggregates means.
fn meant(found: &Expr) -> Option<Expr> {
    match found {
        Expr::Function(call) => forms::feature(call).ok().flatten(),
        _ => None,
    }
}

/// A call without OVER: the plan knows of keys and order only once.
fn without_window(expression: &Expr) -> Cow<'_, Expr> {
    match expression {
        Expr::Function(call) if call.over.is_some() => {
            Cow::Owned(Expr::Function(Function { over: None, ..call.clone() }))
        }
        other => Cow::Borrowed(other),
    }
}

/// The expression without casts and parentheses.
fn bare(expression: &Expr) -> &Expr {
    match expression {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => bare(inner),
        other => other,
    }
}

/// The name of a column, without its table.
fn column(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Identifier(name) => Some(&name.value),
        Expr::CompoundIdentifier(names) => names.last().map(|name| name.value.as_str()),
        _ => None,
    }
}

/// One value, with or without a sign.
fn is_literal(expression: &Expr) -> bool {
    match expression {
        Expr::Value(_) | Expr::TypedString(_) | Expr::Interval(_) => true,
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => matches!(bare(expr), Expr::Value(_)),
        _ => false,
    }
}

/// A pattern of times with the letters of strftime, and one with those that Flink knows.
fn is_pattern(wanted: &ValueWithSpan, found: &ValueWithSpan) -> bool {
    match (&wanted.value, &found.value) {
        (Value::SingleQuotedString(wanted), Value::SingleQuotedString(found)) => {
            wanted.contains('%')
                && !found.contains('%')
                && ["yy", "MM", "dd", "HH", "mm", "ss"].iter().any(|p| found.contains(p))
        }
        _ => false,
    }
}

fn is_value(a: &ValueWithSpan, b: &ValueWithSpan) -> bool {
    match (&a.value, &b.value) {
        (Value::Number(a, _), Value::Number(b, _)) => {
            a == b || a.parse::<f64>().is_ok_and(|a| b.parse::<f64>().is_ok_and(|b| a == b))
        }
        (a, b) => a == b,
    }
}

/// Whether no column is named.
fn is_constant(expression: &Expr) -> bool {
    let names = |part: &Expr| if column(part).is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    sqlparser::ast::visit_expressions(expression, names).is_continue()
}

/// What an expression does with its parts.
fn head(expression: &Expr) -> String {
    let negated = |is: bool, word: &str| if is { format!("not {word}") } else { word.to_string() };
    match expression {
        Expr::BinaryOp { op, .. } => op.to_string().replace("<>", "!="),
        Expr::UnaryOp { op, .. } => format!("unary {op}"),
        Expr::Function(call) => function(&call.name.to_string().to_lowercase()).to_string(),
        Expr::Ceil { .. } => "ceil".into(),
        Expr::Floor { .. } => "floor".into(),
        Expr::Extract { .. } => "date_part".into(),
        Expr::Substring { .. } => "substr".into(),
        Expr::Trim { .. } => "btrim".into(),
        Expr::Position { .. } => "strpos".into(),
        Expr::Between { negated: is, .. } => negated(*is, "between"),
        Expr::InList { negated: is, .. } => negated(*is, "in"),
        Expr::Like { negated: is, .. } => negated(*is, "like"),
        Expr::ILike { negated: is, .. } => negated(*is, "ilike"),
        Expr::SimilarTo { negated: is, .. } => negated(*is, "similar"),
        other => {
            let text = format!("{other:?}");
            text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default().to_string()
        }
    }
}

/// The first of a function's names.
fn function(name: &str) -> &str {
    const NAMES: [&[&str]; 8] = [
        &["ceil", "ceiling"],
        &["character_length", "char_length", "length", "len"],
        &["substr", "substring"],
        &["power", "pow"],
        &["btrim", "trim"],
        &["strpos", "position", "instr"],
        &["avg", "mean"],
        &["trunc", "truncate"],
    ];
    NAMES.iter().find(|names| names.contains(&name)).map_or(name, |names| names[0])
}

/// The direct parts of an expression.
pub(crate) fn parts(expression: &Expr) -> Vec<Expr> {
    let mut parts = Parts { depth: 0, found: Vec::new() };
    let _: ControlFlow<()> = expression.visit(&mut parts);
    if let Expr::Extract { field, .. } = expression {
        parts.found.insert(0, Expr::value(Value::SingleQuotedString(field.to_string())));
    }
    parts.found
}

struct Parts {
    depth: usize,
    found: Vec<Expr>,
}

impl Visitor for Parts {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if self.depth == 1 {
            self.found.push(expression.clone());
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}
