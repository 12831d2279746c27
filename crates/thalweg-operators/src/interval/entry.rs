//! What is known of a row that is kept: where it stands, and where its values lie.

use std::{cmp::Ordering, ops::Range};

/// A row that is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its event time, microseconds.
    pub time: i64,
    /// Where it stands among rows of equal time: its position in its source.
    pub position: i64,
    /// The number of its key.
    pub key: u32,
    /// Which rows of equal time come first: in windows [`BASE`] comes last, and in joins a [`GUEST`].
    pub rank: u32,
    /// Where its values lie.
    pub at: At,
}

/// Key, time and position of a row.
pub type Identity = (u32, i64, i64);

/// Where the values of a row lie: in which of the batches that are kept, and there in which row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// The number of the batch.
    pub batch: u32,
    /// The number of the row there.
    pub row: u32,
}

impl At {
    /// Both in one number.
    #[inline]
    pub fn word(self) -> u64 {
        u64::from(self.row) << 32 | u64::from(self.batch)
    }
}

/// Rows that arrived together: what is known of each, in columns.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// Their event times, microseconds.
    pub times: &'a [i64],
    /// Where they stand in their source.
    pub positions: &'a [i64],
    /// The numbers of their keys.
    pub keys: &'a [u32],
    /// The rank of all of them.
    pub rank: u32,
    /// Where the values of the first lie; those of the others follow.
    pub at: At,
}

impl<'a> Arrived<'a> {
    /// Some of them.
    pub fn slice(&self, rows: Range<usize>) -> Self {
        Self {
            times: &self.times[rows.clone()],
            positions: &self.positions[rows.clone()],
            keys: &self.keys[rows.clone()],
            at: At { row: self.at.row + rows.start as u32, ..self.at },
            ..*self
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.times.len()
    }

    /// What is known of each.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + use<'a> {
        let Self { times, positions, keys, rank, at } = *self;
        let known = times.iter().zip(positions).zip(keys).zip(at.row..at.row + times.len() as u32);
        known.map(move |(((time, position), key), row)| Entry {
            time: *time,
            position: *position,
            key: *key,
            rank,
            at: At { row, ..at },
        })
    }
}

/// The rank of a join's row that an instance looks at, and another one answers for.
pub const GUEST: u32 = 1;

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

    /// What tells it from all others of its input, whose rows have positions of their own.
    pub fn identity(&self) -> Identity {
        (self.key, self.time, self.position)
    }

    fn order(&self) -> (i64, u32, i64) {
        (self.time, self.rank, self.position)
    }
}
