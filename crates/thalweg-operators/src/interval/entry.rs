//! What is known of a row that is kept: where it stands, and where its values lie.

use std::cmp::Ordering;

/// A row that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its event time, microseconds.
    pub time: i64,
    /// Where it stands among rows of equal time: its position in its source.
    pub position: i64,
    /// The number of its key.
    pub key: u32,
    /// Which rows of equal time come first; [`BASE`] comes last.
    pub rank: u32,
    /// Where its values lie.
    pub at: At,
}

/// Where the values of a row lie: in which of the batches that are kept, and there in which row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// The number of the batch.
    pub batch: u32,
    /// The number of the row there.
    pub row: u32,
}

/// The rank of the rows for each of which there is a result: they see those of other inputs of the same time.
pub const BASE: u32 = u32::MAX;

impl Entry {
    /// The order of rows in time.
    pub fn by_time(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }

    /// The order of rows by key, and of those of a key in time.
    pub fn by_key(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then_with(|| self.by_time(other))
    }

    fn order(&self) -> (i64, u32, i64) {
        (self.time, self.rank, self.position)
    }
}
