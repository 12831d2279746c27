//! Rows for which an argument cannot be computed: that is an error once somebody sees them, as it would be of a pair.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, cast::AsArray, types::Int64Type};
use thalweg_core::{
    Batch, Error, Result, Selection, Snapshot,
    error::{Fault, Subject},
    snapshot::Reader,
};

use super::super::{entry::Entry, frame::Frame, lines::Lines};
use crate::aggregate::{Call, values::Values};

/// Such rows by their keys: when each is, and the error.
#[derive(Default)]
pub struct Faults {
    rows: HashMap<u32, Vec<(i64, Error)>>,
    /// Whether some came since that was last asked.
    are_new: bool,
}

impl Faults {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether some came since this was last asked.
    pub fn take_new(&mut self) -> bool {
        std::mem::take(&mut self.are_new)
    }

    /// One more.
    pub fn put(&mut self, key: u32, time: i64, error: Error) {
        self.rows.entry(key).or_default().push((time, error));
        self.are_new = true;
    }

    /// Whether none of these rows sees one in these frames.
    ///
    /// Errors: that of a row that is seen.
    pub fn check<'a>(
        &self,
        bases: impl IntoIterator<Item = Entry>,
        frames: impl Iterator<Item = &'a Frame> + Clone,
    ) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        for base in bases {
            let of_key = self.rows.get(&base.key).into_iter().flatten();
            let is_seen = |time: i64| {
                frames.clone().any(|frame| {
                    let (from, to) = frame.sees_between(base.time);
                    (from..=to).contains(&time)
                })
            };
            if let Some((_, error)) = of_key.into_iter().find(|(time, _)| is_seen(*time)) {
                return Err(error.clone());
            }
        }
        Ok(())
    }

    /// Forgets those that nobody sees who has results from this time on; rows are seen by those so far behind them, without an end for ever.
    pub fn expire(&mut self, final_before: i64, reach: Option<i64>) {
        let Some(reach) = reach.filter(|_| !self.is_empty()) else { return };
        self.rows.retain(|_, rows| {
            rows.retain(|(time, _)| time.saturating_add(reach) >= final_before);
            !rows.is_empty()
        });
    }

    /// Forgets those of keys for which this is true.
    pub fn forget(&mut self, is_gone: impl Fn(u32) -> bool) {
        self.rows.retain(|key, _| !is_gone(*key));
    }

    /// The keys that have some.
    pub fn keys(&self) -> impl Iterator<Item = u32> {
        self.rows.keys().copied()
    }

    /// Keys have other numbers now.
    pub fn renumber(&mut self, moved: &[u32]) {
        self.rows = std::mem::take(&mut self.rows).into_iter().map(|(key, rows)| (moved[key as usize], rows)).collect();
    }

    /// How many bytes of memory they take, about.
    pub fn bytes(&self) -> usize {
        let of = |(_, error): &(i64, Error)| size_of::<(i64, Error)>() + error.message().len() + 128;
        self.rows.values().flatten().map(of).sum()
    }

    /// Writes those of the keys for which this is true.
    ///
    /// Errors: `Error::Bug` if their keys are not there any more.
    pub fn save(&self, is_wanted: impl Fn(u32) -> bool, lines: &Lines, snapshot: &mut Snapshot) -> Result<()> {
        let all = || self.rows.iter().filter(|(key, _)| is_wanted(**key));
        let rows: Vec<(u32, &(i64, Error))> =
            all().flat_map(|(key, rows)| rows.iter().map(move |row| (*key, row))).collect();
        snapshot.number(rows.len() as i64);
        if rows.is_empty() {
            return Ok(());
        }
        let texts = |of: fn(&Error) -> Option<&str>| {
            Arc::new(rows.iter().map(|(_, (_, error))| of(error)).collect::<StringArray>()) as ArrayRef
        };
        let about = |error: &Error| match error.subject() {
            Some(Subject::Expression(expression)) => Some(expression.to_string()),
            _ => None,
        };
        let about: StringArray = rows.iter().map(|(_, (_, error))| about(error)).collect();
        let mut columns = lines.columns(rows.iter().map(|(key, _)| *key).collect())?;
        columns.push(Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, (time, _))| *time))));
        columns.extend([texts(|error| Some(error.message())), texts(Error::hint), Arc::new(about)]);
        let named = columns.into_iter().enumerate().map(|(number, column)| (number.to_string(), column, true));
        snapshot.rows(RecordBatch::try_from_iter_with_nullable(named)?);
        Ok(())
    }

    /// Takes in what [`Faults::save`] wrote.
    ///
    /// Errors: `Error::Environment` if it is something else.
    pub fn load(&mut self, snapshot: &mut Reader<'_>, key_columns: usize, lines: &mut Lines) -> Result<()> {
        if snapshot.number()? == 0 {
            return Ok(());
        }
        let (rows, foreign) = (snapshot.rows()?, || Error::environment("the rows of a window cannot be read"));
        let keys = rows.columns().get(..key_columns).ok_or_else(foreign)?;
        let keys = lines.encoder().encode(keys, rows.num_rows())?;
        let numbers = lines.number(&keys, rows.num_rows());
        let [times, messages, hints, abouts] = rows.columns().get(key_columns..).ok_or_else(foreign)? else {
            return Err(foreign());
        };
        let times = times.as_primitive_opt::<Int64Type>().ok_or_else(foreign)?;
        let text = |column: &ArrayRef, row: usize| {
            let column = column.as_string_opt::<i32>().ok_or_else(foreign)?;
            Ok::<_, Error>(column.is_valid(row).then(|| column.value(row).to_string()))
        };
        for (row, key) in numbers.into_iter().enumerate() {
            let mut error = Error::data(text(messages, row)?.unwrap_or_default());
            if let Some(hint) = text(hints, row)? {
                error = error.with_hint(hint);
            }
            if let Some(about) = text(abouts, row)? {
                error = error.about(Subject::Expression(about));
            }
            self.put(key, times.value(row), error);
        }
        Ok(())
    }
}

/// The rows of a batch for which all arguments can be computed, and the others, each with its error.
///
/// Errors: those that are no row's fault.
pub fn set_aside(batch: Batch, calls: &[Call]) -> Result<(Batch, Vec<(u32, Error)>)> {
    let rows: Vec<u32> = batch.rows().map(|row| row as u32).collect();
    let mut faults = Vec::new();
    find(&batch, calls, &rows, &mut faults)?;
    let mut gone = faults.iter().map(|(row, _)| *row).peekable();
    let stay = rows.into_iter().filter(|row| gone.next_if_eq(row).is_none()).collect();
    Ok((batch.with_selection(Selection::new(stay)), faults))
}

/// Finds those among some rows, in their order.
fn find(batch: &Batch, calls: &[Call], rows: &[u32], faults: &mut Vec<(u32, Error)>) -> Result<()> {
    let some = batch.clone().with_selection(Selection::new(rows.to_vec()));
    match (Values::new(&[], calls, &some), rows) {
        (Ok(_), _) => Ok(()),
        (Err(error), _) if !matches!(error.fault(), Fault::Data | Fault::Query) => Err(error),
        (Err(error), [row]) => {
            faults.push((*row, error));
            Ok(())
        }
        (Err(_), rows) => {
            let (first, second) = rows.split_at(rows.len() / 2);
            find(batch, calls, first, faults)?;
            find(batch, calls, second, faults)
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_core::Interval;
    use thalweg_plan::node::FrameBounds;

    use super::{super::super::entry::At, *};

    #[test]
    fn what_is_wrong_with_a_row_matters_to_those_that_see_it_and_is_forgotten_with_it() {
        let bounds = FrameBounds::Range { from: Some(Interval(-10)), to: Interval(2) };
        let frame = Frame { bounds, most: None, excludes_row: true, excludes_time: false, excludes_base: true };
        let at = At { batch: 0, row: 0 };
        let sees = |faults: &Faults, key: u32, time: i64| {
            faults.check([Entry { time, position: 0, key, rank: 0, at }], [&frame].into_iter()).is_err()
        };
        let mut faults = Faults::default();
        faults.put(3, 100, Error::data("division by zero"));
        faults.put(4, 200, Error::data("division by zero"));
        assert!(faults.take_new() && !faults.take_new());
        let seen = [97, 98, 110, 111].map(|time| sees(&faults, 3, time));
        assert_eq!((seen, sees(&faults, 4, 100)), ([false, true, true, false], false));
        faults.expire(110, Some(10));
        assert!(sees(&faults, 3, 110));
        faults.expire(111, Some(10));
        assert_eq!(faults.keys().collect::<Vec<_>>(), [4]);
        faults.renumber(&[0, 0, 0, 0, 1]);
        assert!(sees(&faults, 1, 200) && faults.bytes() > 0);
        faults.expire(i64::MAX, None);
        faults.forget(|key| key == 1);
        assert!(faults.is_empty());
    }
}
