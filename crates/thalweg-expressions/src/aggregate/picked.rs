//! Aggregates that are the value of one row: the first, the last, or one so far from them.

use arrow_array::{ArrayRef, UInt32Array};
use arrow_select::take::take;
use datafusion_common::ScalarValue;
use datafusion_expr::{
    Expr,
    expr::{AggregateFunctionParams, NullTreatment},
};
use thalweg_core::{
    Result,
    aggregate::{Pick, Windows},
};

/// Which row a function takes its value of, where rows come in its order.
#[derive(Clone, Copy, Debug)]
pub struct Picked {
    /// Which one.
    pub pick: Pick,
    /// Whether rows with a null do not count.
    pub skips_nulls: bool,
}

/// Which row a function takes its value of, if that is what it does.
pub fn picked(name: &str, params: &AggregateFunctionParams) -> Option<Picked> {
    let pick = match (name, params.args.as_slice()) {
        ("first_value", [_]) => Pick::First(0),
        ("last_value", [_]) => Pick::Last(0),
        ("nth_value", [_, Expr::Literal(ScalarValue::Int64(Some(number)), _)]) => {
            let before = usize::try_from(number.unsigned_abs().checked_sub(1)?).ok()?;
            if *number > 0 { Pick::First(before) } else { Pick::Last(before) }
        }
        _ => return None,
    };
    Some(Picked { pick, skips_nulls: params.null_treatment == Some(NullTreatment::IgnoreNulls) })
}

impl Picked {
    /// The value for each window: rows that count are numbered once, so that none between a window's ends is looked at.
    ///
    /// Errors: those of Arrow's `take`.
    pub fn results(&self, windows: &Windows<'_>) -> Result<ArrayRef> {
        let column = windows.arguments[0].as_ref();
        let counts = |row: usize| windows.is_counted(row) && !(self.skips_nulls && column.is_null(row));
        let rows = windows.own.unwrap_or(column.len());
        // How many of those that count are before each row, and where they are.
        let (mut before, mut counted) = (Vec::with_capacity(rows + 1), Vec::new());
        before.push(0);
        for row in 0..rows {
            counted.extend(counts(row).then_some(row as u32));
            before.push(counted.len());
        }
        let row = |(number, window): (usize, &std::ops::Range<usize>)| {
            let end = window.end.max(window.start);
            let hole = windows.lacks.get(number).cloned().unwrap_or(end..end);
            let own = windows.own.map(|first| first + number).filter(|own| counts(*own));
            let (start, behind) = (before[window.start], before[hole.end]);
            let first = before[hole.start] - start;
            let others = first + usize::from(own.is_some());
            let count = others + before[end] - behind;
            let place = match self.pick {
                Pick::First(place) => Some(place),
                Pick::Last(place) => count.checked_sub(place.saturating_add(1)),
            };
            let place = place.filter(|place| *place < count)?;
            Some(match place {
                place if place < first => counted[start + place],
                place if place < others => own? as u32,
                place => counted[behind + place - others],
            })
        };
        let rows: UInt32Array = windows.windows.iter().enumerate().map(row).collect();
        Ok(take(column, &rows, None)?)
    }
}
