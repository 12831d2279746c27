//! Rows by their groups.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow_select::take::take;
use thalweg_core::Result;

/// The rows of some columns, copied together so that those of a group stand side by side, in their old order.
pub struct Grouped {
    /// The columns, reordered.
    pub columns: Vec<ArrayRef>,
    /// Each group that has rows, with where they stand.
    pub runs: Vec<(u32, Range<usize>)>,
}

/// The rows that are in.
pub fn kept(filter: Option<&BooleanArray>, rows: usize) -> Vec<u32> {
    let is_in = |row: &u32| filter.is_none_or(|f| f.is_valid(*row as usize) && f.value(*row as usize));
    (0..rows as u32).filter(is_in).collect()
}

/// Puts the rows of these numbers together by group.
pub fn group(columns: &[ArrayRef], mut rows: Vec<u32>, groups: &[u32]) -> Result<Grouped> {
    rows.sort_by_key(|row| groups[*row as usize]);
    let mut runs: Vec<(u32, Range<usize>)> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let group = groups[*row as usize];
        match runs.last_mut() {
            Some((last, run)) if *last == group => run.end = at + 1,
            _ => runs.push((group, at..at + 1)),
        }
    }
    let indices = UInt32Array::from(rows);
    let columns = columns.iter().map(|column| Ok(take(column.as_ref(), &indices, None)?));
    Ok(Grouped { columns: columns.collect::<Result<_>>()?, runs })
}

/// These rows of each column.
pub fn slice(columns: &[ArrayRef], rows: &Range<usize>) -> Vec<ArrayRef> {
    columns.iter().map(|column| column.slice(rows.start, rows.len())).collect()
}
