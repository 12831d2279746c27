//! What is kept of a row: arguments of aggregates, and columns that pass.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_select::nullif::nullif;
use thalweg_core::{Batch, Error, Result, expression::Expression};

use super::input::{copied, copied_rows, selected};
use crate::aggregate::{Call, values::Values};

/// Which of the columns that are kept of a row is what.
pub struct Layout {
    /// For each aggregate its arguments and its filter.
    pub calls: Vec<(Vec<usize>, Option<usize>)>,
    /// How many columns these are, of any input.
    arguments: usize,
    /// Which of these are no columns of the input as they stand.
    is_computed: Vec<bool>,
    /// For each column of the first input where it is kept.
    pub passed: Vec<usize>,
}

impl Layout {
    /// Where the arguments of these aggregates are kept, and the columns of the first input, of which there are so many.
    pub fn new(calls: &[Call], width: usize) -> Self {
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
        let passed = (0..width).map(|column| {
            slots.iter().position(|slot| *slot == Some(column)).unwrap_or_else(|| {
                slots.push(Some(column));
                slots.len() - 1
            })
        });
        Self { calls, passed: passed.collect(), arguments, is_computed }
    }

    /// What is kept of the selected rows of a batch of an input: `values` are those of the aggregates.
    pub fn columns(&self, values: Values, base: Option<&Batch>) -> Result<Vec<ArrayRef>> {
        let width = self.passed.iter().max().map_or(0, |last| last + 1).max(self.arguments);
        let mut columns: Vec<Option<ArrayRef>> = vec![None; if base.is_some() { width } else { self.arguments }];
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
        for column in columns.iter_mut().flatten() {
            *column = copied(column)?;
        }
        if let Some(batch) = base {
            let rows = selected(batch);
            for (number, slot) in self.passed.iter().enumerate().filter(|(_, slot)| **slot >= self.arguments) {
                columns[*slot] = Some(copied_rows(batch.column(number), rows.as_ref())?);
            }
        }
        columns.into_iter().map(|column| column.ok_or_else(|| Error::bug("a column is not kept"))).collect()
    }
}
