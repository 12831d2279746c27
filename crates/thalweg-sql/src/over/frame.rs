//! From where to where a frame reaches.

use std::cmp::Ordering;

use arrow_schema::{DataType, IntervalUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::{Expr, WindowFrame, WindowFrameBound, WindowFrameUnits};
use sqlparser::ast::{self, WindowSpec};
use thalweg_core::{Error, Interval, Result};
use thalweg_plan::node::FrameBounds;

use super::Clauses;
use crate::{
    diagnose::IN_DAYS,
    windowing::{NotFixed, TOO_LONG, micros},
};

/// The bounds of a window as DataFusion reads them: `INTERVAL 5 SECOND` is `INTERVAL '5' SECOND`, and without parentheses.
pub(super) fn plain(spec: &mut WindowSpec) {
    use ast::WindowFrameBound::{Following, Preceding};
    let Some(frame) = &mut spec.window_frame else { return };
    for bound in [Some(&mut frame.start_bound), frame.end_bound.as_mut()].into_iter().flatten() {
        let (Preceding(Some(span)) | Following(Some(span))) = bound else { continue };
        while let ast::Expr::Nested(inner) = &mut **span {
            *span = std::mem::replace(inner, Box::new(ast::Expr::value(ast::Value::Null)));
        }
        if let ast::Expr::Interval(interval) = &mut **span
            && let ast::Expr::Value(value) = &mut *interval.value
            && let ast::Value::Number(digits, _) = &value.value
        {
            value.value = ast::Value::SingleQuotedString(digits.clone());
        }
    }
}

/// Which rows around a row a call looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub bounds: Bounds,
    /// The last so many of these only.
    pub most: Option<usize>,
    pub excludes_row: bool,
    pub excludes_time: bool,
    pub excludes_base: bool,
}

/// From where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Bounds {
    /// By event time, in microseconds behind the row's; `None` is without end.
    Range { from: Option<i64>, to: i64 },
    /// By number, from so many rows before the row to so many before it; `None` is without end.
    Rows { from: Option<usize>, to: usize },
}

impl From<Bounds> for FrameBounds {
    fn from(bounds: Bounds) -> Self {
        match bounds {
            Bounds::Range { from, to } => Self::Range { from: from.map(Interval), to: Interval(to) },
            Bounds::Rows { from, to } => Self::Rows { from, to },
        }
    }
}

impl Shape {
    /// The frame of a window with these clauses.
    ///
    /// Errors: `Error::Query` for frames that no row has, and for those that would wait for the end of a stream.
    pub fn new(frame: &WindowFrame, clauses: Option<&Clauses>) -> Result<Self> {
        let none = Clauses::default();
        let clauses = clauses.unwrap_or(&none);
        Ok(Self {
            bounds: bounds(frame)?,
            most: clauses.most,
            excludes_row: clauses.excludes_row,
            excludes_time: clauses.excludes_time,
            excludes_base: clauses.excludes_base,
        })
    }
}

/// What to do about a frame that ends before it begins.
const TURNED: &str = "the bound that is earlier stands first; OPEN leaves out the rows at the bound itself";

fn bounds(frame: &WindowFrame) -> Result<Bounds> {
    use WindowFrameBound::{CurrentRow, Following, Preceding};
    let is_last = |bound: &WindowFrameBound| matches!(bound, Following(end) if end.is_null());
    if is_last(&frame.end_bound) || is_last(&frame.start_bound) {
        return Err(Error::query("a frame up to the last row would have to wait for the end of the stream")
            .with_hint("say how far it reaches: RANGE BETWEEN … AND INTERVAL '1' SECOND FOLLOWING"));
    }
    match frame.units {
        WindowFrameUnits::Groups => Err(Error::query("GROUPS is not there").with_hint("write RANGE or ROWS")),
        WindowFrameUnits::Rows => {
            // How many rows before the row.
            let distance = |bound: &WindowFrameBound| match bound {
                CurrentRow | Following(ScalarValue::UInt64(Some(0))) => Some(Some(0)),
                Preceding(ScalarValue::UInt64(rows)) => {
                    Some(rows.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX)))
                }
                _ => None,
            };
            let (Some(from), Some(Some(to))) = (distance(&frame.start_bound), distance(&frame.end_bound)) else {
                return Err(Error::query(
                    "frames of ROWS look back: they begin and end at the current row or before it",
                )
                .with_hint(
                    "write ROWS BETWEEN 9 PRECEDING AND CURRENT ROW, or AND 1 PRECEDING; or bounds in time: RANGE \
                         BETWEEN INTERVAL '1' MINUTE PRECEDING AND INTERVAL '1' SECOND FOLLOWING",
                ));
            };
            if let Some(from) = from.filter(|from| *from < to) {
                let shown = |rows: usize| match rows {
                    0 => "the row itself".to_string(),
                    1 => "1 row before the row".to_string(),
                    _ => format!("{rows} rows before the row"),
                };
                let message = format!("the frame ends before it begins: from {} to {}", shown(from), shown(to));
                return Err(Error::query(message).with_hint(TURNED));
            }
            Ok(Bounds::Rows { from, to })
        }
        WindowFrameUnits::Range => {
            let (from, to) = (distance(&frame.start_bound)?, distance(&frame.end_bound)?);
            let to = to.ok_or_else(|| Error::query("a frame does not end before its first row"))?;
            if let Some(from) = from.filter(|from| *from > to) {
                let message = format!("the frame ends before it begins: from {} to {}", place(from), place(to));
                return Err(Error::query(message).with_hint(TURNED));
            }
            Ok(Bounds::Range { from, to })
        }
    }
}

/// Where a bound lies that is so many microseconds behind the row. Next to whole milliseconds is where `OPEN` puts it.
fn place(distance: i64) -> String {
    let whole =
        [distance, distance.saturating_sub(1), distance.saturating_add(1)].into_iter().find(|at| at % 1000 == 0);
    let whole = whole.unwrap_or(distance);
    let (far, side) = (Interval(whole.saturating_abs()), if whole < 0 { "before" } else { "behind" });
    match (whole, distance.saturating_abs().cmp(&whole.saturating_abs())) {
        (0, Ordering::Equal) => "the row's own time".to_string(),
        (0, _) => format!("just {} the row", if distance < 0 { "before" } else { "behind" }),
        (_, Ordering::Equal) => format!("{far} {side} the row"),
        (_, Ordering::Less) => format!("just less than {far} {side} the row"),
        (_, Ordering::Greater) => format!("just more than {far} {side} the row"),
    }
}

/// How far behind the row's time, in microseconds; `None` is without end.
fn distance(bound: &WindowFrameBound) -> Result<Option<i64>> {
    match bound {
        WindowFrameBound::CurrentRow => Ok(Some(0)),
        WindowFrameBound::Preceding(span) if span.is_null() => Ok(None),
        WindowFrameBound::Preceding(span) => Ok(Some(-fixed(span)?)),
        WindowFrameBound::Following(span) => Ok(Some(fixed(span)?)),
    }
}

/// A span of time, in microseconds.
fn fixed(span: &ScalarValue) -> Result<i64> {
    const HINT: &str = "write RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW";
    let ScalarValue::Utf8(Some(text)) = span else { return Err(Error::bug(format!("a frame reaches {span}"))) };
    let refused = |message: String| Error::query(message).with_hint(HINT);
    let no_interval = || refused(format!("the frame reaches {text}, expected an interval"));
    if text.trim().parse::<f64>().is_ok() {
        return Err(no_interval());
    }
    let interval = ScalarValue::try_from_string(text.clone(), &DataType::Interval(IntervalUnit::MonthDayNano));
    let interval = interval.map_err(|error| match error.to_string() {
        error if error.contains("verflow") => Error::query(format!(
            "the frame reaches {text}: what is written in hours, minutes and seconds is no longer than 292 years"
        ))
        .with_hint(IN_DAYS),
        error if error.contains("Unable to represent") => {
            refused(format!("the frame reaches {text}: that is {TOO_LONG}"))
        }
        _ => no_interval(),
    })?;
    let fixed = micros(&Expr::Literal(interval, None)).map_err(|reason| match reason {
        NotFixed::Months => Error::query(format!("the frame reaches {text}: months and years differ in length"))
            .with_hint("write how many days are meant: INTERVAL '30' DAY"),
        NotFixed::TooFine => refused(format!("the frame reaches {text}: time is counted in whole microseconds")),
        NotFixed::TooLong => refused(format!("the frame reaches {text}: that is {TOO_LONG}")),
        NotFixed::NoInterval => no_interval(),
    })?;
    if fixed < 0 {
        return Err(refused(format!("the frame reaches {text}, which is less than nothing")));
    }
    Ok(fixed)
}
