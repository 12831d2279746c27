//! The functions that OVER alone has, as aggregates over the rows before a row.

use std::sync::Arc;

use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{
    AggregateUDF, Expr, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
    expr::{WindowFunction, WindowFunctionParams},
    lit,
    planner::{ExprPlanner, PlannerResult, RawWindowExpr},
};
use thalweg_core::Error;

use super::otherwise;
use crate::windowing::ours;

/// Plans calls of window functions.
#[derive(Debug)]
pub(crate) struct OverCalls {
    /// The aggregates that they are made of.
    pub count: Arc<AggregateUDF>,
    pub first_value: Arc<AggregateUDF>,
    pub last_value: Arc<AggregateUDF>,
    pub nth_value: Arc<AggregateUDF>,
}

impl ExprPlanner for OverCalls {
    fn plan_window(&self, call: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        let WindowFunctionDefinition::WindowUDF(function) = &call.func_def else {
            return Ok(PlannerResult::Original(call));
        };
        let name = function.name().to_string();
        let refused = |error: Error| Err(ours(error));
        if call.order_by.is_empty() {
            return refused(no_order());
        }
        if (call.filter.is_some() || call.distinct) && !name.ends_with("_value") {
            return refused(
                Error::query(format!("{name} looks at all rows: FILTER and DISTINCT belong to aggregates"))
                    .with_hint("leave it out, or filter in a subquery in FROM"),
            );
        }
        let same = |function: &Arc<AggregateUDF>, call: RawWindowExpr| aggregate(function, call.args.clone(), call);
        let planned = match (name.as_str(), call.args.as_slice()) {
            ("first_value", _) => same(&self.first_value, call),
            ("last_value", _) => same(&self.last_value, call),
            ("nth_value", _) => same(&self.nth_value, call),
            ("row_number", []) => aggregate(&self.count, vec![lit(1_i64)], framed(call, rows(None))),
            // All rows of an earlier time stand before this one.
            ("rank", []) => aggregate(&self.count, vec![lit(1_i64)], framed(call, earlier())) + lit(1_i64),
            ("dense_rank", []) => {
                let time = call.order_by[0].expr.clone();
                let call = RawWindowExpr { distinct: true, ..framed(call, WindowFrame::new(Some(false))) };
                aggregate(&self.count, vec![time], call)
            }
            ("lag", [_] | [_, _] | [_, _, _]) => {
                let (value, otherwise) = (call.args[0].clone(), call.args.get(2).cloned());
                match call.args.get(1).map_or(Some(1), number) {
                    // Of so many rows and the row itself, the first; if there are not so many before it, there is none.
                    Some(back) => {
                        let nth = i64::try_from(back).unwrap_or(i64::MAX).saturating_add(1).saturating_neg();
                        let found =
                            |call| aggregate(&self.nth_value, vec![value, lit(nth)], framed(call, rows(Some(back))));
                        match otherwise {
                            None => found(call),
                            // What is there may be null: only where there is no such row the other value stands.
                            Some(otherwise) => {
                                let count =
                                    aggregate(&self.count, vec![lit(1_i64)], framed(call.clone(), rows(Some(back))));
                                let back = i64::try_from(back).unwrap_or(i64::MAX);
                                otherwise::choice(count.gt(lit(back)), found(call), otherwise)
                            }
                        }
                    }
                    None => {
                        return refused(
                            Error::query("lag looks a number of rows back that is written in the query, from 0 on")
                                .with_hint("write lag(x, 2)"),
                        );
                    }
                }
            }
            ("lag", _) => {
                return refused(
                    Error::query(
                        "lag takes a value, perhaps how many rows to look back, and what stands before the first row",
                    )
                    .with_hint("write lag(x, 2, 0)"),
                );
            }
            ("lead", _) => {
                return refused(
                    Error::query("lead is not there: it would have to wait for rows of any time").with_hint(
                        "look ahead in time: first_value(x) OVER (… RANGE BETWEEN INTERVAL '0.000001' SECOND FOLLOWING \
                     AND INTERVAL '1' MINUTE FOLLOWING)",
                    ),
                );
            }
            (other, _) => {
                return refused(
                    Error::query(format!("{other} is not there yet"))
                        .with_hint("the functions of OVER are lag, row_number, rank, dense_rank and all aggregates"),
                );
            }
        };
        Ok(PlannerResult::Planned(planned))
    }
}

/// What is said of a window without an order.
pub(super) fn no_order() -> Error {
    Error::query("OVER has no ORDER BY: rows around a row are those of times around its own")
        .with_hint("order by the event time: OVER (PARTITION BY … ORDER BY ts)")
}

fn aggregate(function: &Arc<AggregateUDF>, args: Vec<Expr>, call: RawWindowExpr) -> Expr {
    let RawWindowExpr { partition_by, order_by, window_frame, filter, null_treatment, distinct, .. } = call;
    let params = WindowFunctionParams { args, partition_by, order_by, window_frame, filter, null_treatment, distinct };
    let fun = WindowFunctionDefinition::AggregateUDF(Arc::clone(function));
    Expr::WindowFunction(Box::new(WindowFunction { fun, params }))
}

fn framed(call: RawWindowExpr, window_frame: WindowFrame) -> RawWindowExpr {
    RawWindowExpr { window_frame, ..call }
}

fn rows(back: Option<u64>) -> WindowFrame {
    let start = WindowFrameBound::Preceding(ScalarValue::UInt64(back));
    WindowFrame::new_bounds(WindowFrameUnits::Rows, start, WindowFrameBound::CurrentRow)
}

fn earlier() -> WindowFrame {
    let start = WindowFrameBound::Preceding(ScalarValue::UInt64(None));
    let end = WindowFrameBound::Preceding(ScalarValue::Utf8(Some("0.000001 SECOND".to_string())));
    WindowFrame::new_bounds(WindowFrameUnits::Range, start, end)
}

fn number(expression: &Expr) -> Option<u64> {
    match expression {
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => u64::try_from(*number).ok(),
        Expr::Literal(ScalarValue::UInt64(Some(number)), _) => Some(*number),
        _ => None,
    }
}
