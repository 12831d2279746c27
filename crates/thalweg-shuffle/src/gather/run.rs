//! Rows of one batch that follow each other.

use std::ops::Range;

use thalweg_core::{Batch, Selection};

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
