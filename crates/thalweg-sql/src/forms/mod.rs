//! Forms that Flink, ANSI and PostgreSQL have and DataFusion's planner has not, as forms that it has.
//!
//! * [`numbers`]: `0.1` is DECIMAL, `1e3` is DOUBLE
//! * [`intervals`]: `INTERVAL '1:30' HOUR TO MINUTE`
//! * [`calls`]: `IF(c, a, b)`, `YEAR(ts)`, `TIMESTAMPADD(HOUR, 1, ts)`
//! * [`patterns`]: `yyyy-MM-dd` becomes `%Y-%m-%d`

mod calls;
mod intervals;
mod numbers;
mod patterns;

use std::ops::ControlFlow;

pub(crate) use calls::names;
use sqlparser::ast::{Expr, VisitMut, VisitorMut};
use thalweg_core::{Error, Result};

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

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Error> {
        let rewritten = match expression {
            Expr::Value(_) | Expr::UnaryOp { .. } => numbers::literal(expression),
            Expr::Interval(interval) => intervals::interval(interval),
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
