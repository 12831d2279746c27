//! Aggregates that are the value of one row: the first, the last, or one so far from them.

use std::{collections::VecDeque, ops::Range};

use arrow_array::{
    Array, ArrayRef, BooleanArray, UInt32Array,
    builder::{ArrayBuilder, UInt64Builder},
};
use arrow_select::take::take;
use datafusion_common::ScalarValue;
use datafusion_expr::{
    Expr,
    expr::{AggregateFunctionParams, NullTreatment},
};
use thalweg_core::{
    Result,
    aggregate::{Follower, Pick, Windows, builder, is_counted},
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
    /// Whether a row counts.
    fn counts(&self, arguments: &[ArrayRef], filter: Option<&BooleanArray>, row: usize) -> bool {
        is_counted(filter, row) && !(self.skips_nulls && arguments[0].is_null(row))
    }

    /// The value for each window.
    ///
    /// Errors: those of Arrow's `take`.
    pub fn results(&self, windows: &Windows<'_>) -> Result<ArrayRef> {
        let column = windows.arguments[0].as_ref();
        let rows = windows.own.unwrap_or(column.len());
        let mut counted = Counted::new(*self);
        counted.places.extend((0..rows).filter(|row| self.counts(windows.arguments, windows.filter, *row)));
        let rows = (0..windows.windows.len()).map(|number| {
            let own = windows.own.map(|first| first + number);
            let own = own.filter(|own| self.counts(windows.arguments, windows.filter, *own));
            counted.row(windows, number, own).map(|row| row as u32)
        });
        Ok(take(column, &rows.collect::<UInt32Array>(), None)?)
    }
}

/// The rows that count: none of those between them is looked at.
pub struct Counted {
    picked: Picked,
    /// Their places among all, in order, with those that are gone.
    places: VecDeque<usize>,
    gone: usize,
}

impl Counted {
    /// Without rows.
    pub fn new(picked: Picked) -> Self {
        Self { picked, places: VecDeque::new(), gone: 0 }
    }

    /// Which row a window has its value of, if there is one; `own` is the one that it alone sees, if it counts.
    fn row(&self, windows: &Windows<'_>, number: usize, own: Option<usize>) -> Option<usize> {
        let Range { start, end } = windows.windows[number];
        let end = end.max(start);
        let hole = windows.lacks.get(number).cloned().unwrap_or(end..end);
        let before = |row: usize| self.places.partition_point(|place| *place < row + self.gone);
        let (start, behind) = (before(start), before(hole.end));
        let first = before(hole.start) - start;
        let others = first + usize::from(own.is_some());
        let count = others + before(end) - behind;
        let place = match self.picked.pick {
            Pick::First(place) => Some(place),
            Pick::Last(place) => count.checked_sub(place.saturating_add(1)),
        };
        let row = |place: usize| self.places[place] - self.gone;
        place.filter(|place| *place < count).and_then(|place| match place {
            place if place < first => Some(row(start + place)),
            place if place < others => own,
            place => Some(row(behind + place - others)),
        })
    }
}

impl Follower for Counted {
    fn insert(&mut self, arguments: &[ArrayRef], filter: Option<&BooleanArray>, places: &[usize]) -> Result<()> {
        let Some(first) = places.first() else { return Ok(()) };
        // Those behind the first one that comes are told how many come before them.
        let behind = self.places.partition_point(|place| *place < first + self.gone);
        let mut behind = self.places.split_off(behind).into_iter().peekable();
        for (number, place) in places.iter().enumerate() {
            while let Some(row) = behind.next_if(|row| *row < place + self.gone) {
                self.places.push_back(row + number);
            }
            if self.picked.counts(arguments, filter, number) {
                self.places.push_back(place + number + self.gone);
            }
        }
        self.places.extend(behind.map(|row| row + places.len()));
        Ok(())
    }

    fn drop_first(&mut self, rows: usize) {
        self.gone += rows;
        self.places.drain(..self.places.partition_point(|place| *place < self.gone));
        if self.places.capacity() > 4 * self.places.len().max(64) {
            self.places.shrink_to(2 * self.places.len());
        }
    }

    fn results(&mut self, windows: &Windows<'_>, found: &mut dyn ArrayBuilder) -> Result<()> {
        let found: &mut UInt64Builder = builder(found)?;
        for number in 0..windows.windows.len() {
            let counts = || self.picked.counts(windows.arguments, windows.filter, number);
            let own = windows.own.filter(|_| counts()).map(|first| first + number);
            found.append_option(self.row(windows, number, own).map(|row| row as u64));
        }
        Ok(())
    }

    fn moves(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<usize>()
    }
}
