//! Rows that leave together.

use std::ops::Range;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_select::interleave::interleave;
use thalweg_core::{Batch, Result, Selection};

/// Rows of a few batches, in the order in which they leave, to be copied together.
#[derive(Debug, Default)]
pub struct Mixed {
    batches: Vec<RecordBatch>,
    /// Which row of which batch.
    rows: Vec<(usize, usize)>,
}

impl Mixed {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Makes a batch known; returns its number here.
    pub fn enter(&mut self, batch: &Batch) -> usize {
        self.batches.push(batch.columns().clone());
        self.batches.len() - 1
    }

    /// Adds a physical row of a batch that was entered.
    pub fn push(&mut self, batch: usize, row: usize) {
        self.rows.push((batch, row));
    }

    /// All these rows, copied. Nothing is left.
    pub fn take(&mut self) -> Result<Option<Batch>> {
        let Self { batches, rows } = std::mem::take(self);
        let Some(first) = batches.first().filter(|_| !rows.is_empty()) else { return Ok(None) };
        let column = |number: usize| -> Result<ArrayRef> {
            let arrays: Vec<_> = batches.iter().map(|batch| batch.column(number).as_ref()).collect();
            Ok(interleave(&arrays, &rows)?)
        };
        let columns = (0..first.num_columns()).map(column).collect::<Result<Vec<_>>>()?;
        let count = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(Some(Batch::new(RecordBatch::try_new_with_options(first.schema(), columns, &count)?)))
    }
}

/// Some of the selected rows of a batch, by their numbers among these, where they lie.
pub fn part(batch: &Batch, rows: Range<usize>) -> Batch {
    let Some(selection) = batch.selection() else {
        return Batch::new(batch.columns().slice(rows.start, rows.len()));
    };
    let rows = &selection.rows()[rows];
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Batch::new(batch.columns().slice(0, 0)) };
    // Who takes them computes with all physical rows: only with those between.
    let columns = batch.columns().slice(*first as usize, (last - first) as usize + 1);
    Batch::new(columns).with_selection(Selection::new(rows.iter().map(|row| row - first).collect()))
}
