//! Where rows stand among those of all instances.

use std::cmp::Ordering;

use arrow_array::{Array, BinaryArray};

use crate::{Timestamp, Window};

/// Where each physical row of a batch stands among the rows of all instances of an operator that emits window by window: by the
/// window's end, its start, and the keys.
///
/// All rows of a batch are of one window. What an operator makes of a row stands where the row stood.
#[derive(Clone, Debug)]
pub struct Positions {
    /// The window.
    pub window: Window,
    /// The instant, in event time, at which the window is over: who emits in order has emitted all windows that were over at the
    /// watermark that it passed, and emits none of them later. Never earlier for a window that ends later.
    pub over: Timestamp,
    keys: BinaryArray,
}

impl Positions {
    /// The positions of a window's rows by their keys: bytes that compare as the rows do, one per physical row.
    pub fn new(window: Window, over: Timestamp, keys: BinaryArray) -> Self {
        Self { window, over, keys }
    }

    /// Of how many rows these are the positions.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How the windows of these and other rows follow each other.
    pub fn compare_windows(&self, other: &Self) -> Ordering {
        let place = |positions: &Self| (positions.window.end, positions.window.start);
        place(self).cmp(&place(other))
    }

    /// The key of a row, as bytes that compare as the rows of a window do.
    pub fn key(&self, row: usize) -> &[u8] {
        self.keys.value(row)
    }

    /// The positions of these rows, in this order; a row may be there more than once.
    pub fn of(&self, rows: &[u32]) -> Self {
        let keys = BinaryArray::from_iter_values(rows.iter().map(|row| self.key(*row as usize)));
        Self { keys, ..self.clone() }
    }

    /// How many bytes of memory they keep alive.
    pub fn bytes(&self) -> usize {
        self.keys.get_array_memory_size()
    }
}
