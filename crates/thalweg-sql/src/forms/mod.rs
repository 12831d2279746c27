//! Forms that Flink, ANSI and PostgreSQL have and DataFusion's planner has not, as forms that it has.
//!
//! * [`numbers`]: `0.1` is DECIMAL, `1e3` is DOUBLE, `0x1F` is 31
//! * [`intervals`]: `INTERVAL '1:30' HOUR TO MINUTE`
//! * [`calls`]: `IF(c, a, b)`, `YEAR(ts)`, `TIMESTAMPADD(HOUR, 1, ts)`
//! * [`features`]: `sum_where(x, c)`, `distinct_count(x)`, `topn_frequency(x, 3)`
//! * [`of_left_rows`]: `a SEMI JOIN b` is LEFT SEMI JOIN
//! * [`likes`]: `LIKE '10!%' ESCAPE '!'`
//! * [`tuples`]: `(a, b) = (c, d)` is `a = c AND b = d`
//! * [`patterns`]: `yyyy-MM-dd` becomes `%Y-%m-%d`

mod calls;
mod features;
mod intervals;
mod likes;
mod numbers;
mod patterns;
mod tuples;

use std::ops::ControlFlow;

pub(crate) use calls::names;
pub(crate) use features::{aggregates, feature};
pub(crate) use patterns::strftime;
use sqlparser::ast::{
    BinaryOperator, Expr, JoinOperator, Select, Spanned, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};
use thalweg_core::{Error, Result};

use crate::script;

/// Rewrites what stands in a query or expression.
///
/// Errors: `Error::Query` with the place, for forms that say nothing.
pub(crate) fn rewrite(written: &mut impl VisitMut) -> Result<()> {
    match written.visit(&mut Rewriter) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        select.from.iter_mut().for_each(of_left_rows);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            of_left_rows(table_with_joins);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Error> {
        let rewritten = match expression {
            Expr::Value(_) | Expr::UnaryOp { .. } => numbers::literal(expression),
            Expr::Interval(interval) => intervals::interval(interval),
            Expr::Like { .. } | Expr::ILike { .. } => likes::like(expression),
            Expr::BinaryOp { op: BinaryOperator::BitwiseXor, left, .. } => Err(Error::query("^ is not there")
                .with_hint("write power(a, b) for a power, and (a | b) - (a & b) for the bits that differ")
                .at(script::span(left.span()))),
            Expr::BinaryOp { .. } | Expr::InList { .. } => tuples::compared(expression),
            Expr::Function(call) if feature(call).transpose().is_some() => feature(call),
            Expr::Function(_) | Expr::Ceil { .. } | Expr::Floor { .. } => calls::call(expression),
            _ => Ok(None),
        };
        match rewritten {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(new)) => {
                *expression = new;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// `a SEMI JOIN b` and `a ANTI JOIN b` choose rows of `a`.
fn of_left_rows(tables: &mut TableWithJoins) {
    use JoinOperator::{Anti, LeftAnti, LeftSemi, Semi};
    for join in &mut tables.joins {
        join.join_operator = match &join.join_operator {
            Semi(on) => LeftSemi(on.clone()),
            Anti(on) => LeftAnti(on.clone()),
            _ => continue,
        };
    }
}
