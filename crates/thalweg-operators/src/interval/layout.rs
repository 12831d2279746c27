//! What is kept of a row: arguments of aggregates, and columns that pass.

use std::sync::Arc;

use arrow_array::{ArrayRef, new_empty_array};
use arrow_select::nullif::nullif;
use thalweg_core::{Batch, Error, Result, expression::Expression};

use super::{
    input::{copied, copied_rows, selected},
    spare::Spare,
};
use crate::aggregate::{Call, values::Values};

/// Which of the columns that are kept of a row is what.
pub struct Layout {
    /// For each aggregate its arguments and its filter.
    pub calls: Vec<(Vec<usize>, Option<usize>)>,
    /// How many columns these are, of any input.
    arguments: usize,
    /// Which of these are no columns of the input as they stand.
    is_computed: Vec<bool>,
    /// Which of these nobody reads of rows of the first input.
    is_unread: Vec<bool>,
    /// The columns of the first input that pass.
    pub passed: Vec<Passed>,
    /// Whether rows of the first input are aggregated.
    pub is_base_read: bool,
}

/// A column of the first input that passes.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// Which one.
    pub column: usize,
    /// Where it is.
    pub place: Place,
}

/// Where the values of a column that passes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// They are the times of the rows.
    Time,
    /// Among the columns that are kept.
    Kept(usize),
}

impl Layout {
    /// Where the arguments of these aggregates are kept, and the columns of the first input that pass, of which one may be its time.
    /// Where `is_base_read` is false, nobody aggregates its rows.
    pub fn new(calls: &[Call], passes: &[usize], time: usize, is_base_read: bool) -> Self {
        // A column that several ask for is kept once.
        let mut slots: Vec<Option<usize>> = Vec::new();
        let mut slot = |expression: &Arc<dyn Expression>| {
            let column = expression.column();
            column.and_then(|_| slots.iter().position(|slot| *slot == column)).unwrap_or_else(|| {
                slots.push(column);
                slots.len() - 1
            })
        };
        // What a filter decides on is computed for the rows that it keeps: it is no plain column.
        let calls: Vec<_> = calls
            .iter()
            .map(|call| (call.arguments.iter().map(&mut slot).collect(), call.filter.as_ref().map(&mut slot)))
            .collect();
        let (arguments, is_computed) = (slots.len(), slots.iter().map(Option::is_none).collect());
        let mut place = |column: usize| {
            if column == time {
                return Place::Time;
            }
            Place::Kept(slots.iter().position(|slot| *slot == Some(column)).unwrap_or_else(|| {
                slots.push(Some(column));
                slots.len() - 1
            }))
        };
        let passed: Vec<_> = passes.iter().map(|column| Passed { column: *column, place: place(*column) }).collect();
        let is_unread = |slot: usize| !is_base_read && passed.iter().all(|passed| passed.place != Place::Kept(slot));
        Self { calls, is_unread: (0..arguments).map(is_unread).collect(), passed, arguments, is_computed, is_base_read }
    }

    /// Of rows of the first input, leaves out the values of columns that nobody reads, but for their types.
    pub fn forget_unread(&self, columns: &mut [ArrayRef]) {
        let unread = columns.iter_mut().zip(&self.is_unread).filter(|(_, is_unread)| **is_unread);
        unread.for_each(|(column, _)| *column = new_empty_array(column.data_type()));
    }

    /// What is kept of the selected rows of a batch of an input, of the first if `is_base`: `values` are those of the aggregates, and of these
    /// keys.
    pub fn columns(
        &self,
        (values, keys): (Values, &[Arc<dyn Expression>]),
        batch: &Batch,
        is_base: bool,
        spare: &mut Spare,
    ) -> Result<Vec<ArrayRef>> {
        // What nobody aggregates was not computed either.
        let first = if self.is_base_read { self.arguments } else { 0 };
        let passed = self.passed.iter().filter_map(|passed| match passed.place {
            Place::Kept(slot) if slot >= first => Some((passed.column, slot)),
            _ => None,
        });
        let width = passed.clone().map(|(_, slot)| slot + 1).max().unwrap_or(0).max(self.arguments);
        let mut columns: Vec<Option<ArrayRef>> = vec![None; if is_base { width } else { self.arguments }];
        let arguments = values.arguments.into_iter().zip(values.filters);
        for ((slots, filter), (arguments, mask)) in self.calls.iter().zip(arguments) {
            // What an argument is where it does not count means nothing, and must not tell rows apart.
            let uncounted = mask.as_ref().map(|mask| mask.iter().map(|counts| Some(counts != Some(true))).collect());
            for (slot, argument) in slots.iter().zip(arguments) {
                columns[*slot] = Some(match &uncounted {
                    Some(mask) if self.is_computed[*slot] => nullif(&argument, mask)?,
                    _ => argument,
                });
            }
            if let (Some(slot), Some(mask)) = (filter, mask) {
                columns[*slot] = Some(Arc::new(mask));
            }
        }
        let rows = selected(batch);
        for (slot, column) in columns.iter_mut().enumerate() {
            match column {
                Some(column) if is_base && self.is_unread[slot] => *column = new_empty_array(column.data_type()),
                // Values of some rows of a batch are copies.
                Some(column) if rows.is_none() => *column = copied(column, spare)?,
                _ => {}
            }
        }
        if is_base {
            for (number, slot) in passed {
                // Keys are copies where these are some rows of a batch.
                let key = keys.iter().position(|key| key.column() == Some(number)).filter(|_| rows.is_some());
                columns[slot] = Some(match key {
                    Some(key) => Arc::clone(&values.keys[key]),
                    None => copied_rows(batch.column(number), rows.as_ref(), spare)?,
                });
            }
        }
        columns.into_iter().map(|column| column.ok_or_else(|| Error::bug("a column is not kept"))).collect()
    }
}
