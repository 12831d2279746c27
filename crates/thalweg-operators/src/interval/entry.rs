//! What is known of a row that is kept: where it stands, and where its values lie.

use std::cmp::Ordering;

use super::order::{self, By};

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

/// Sorts rows. Those that are equal, which stand at no place of their own, are sorted by their content, which `hashes` tells: then the
/// order does not depend on how they arrived.
pub fn sort<E>(entries: &mut Vec<Entry>, by: By, hashes: impl Fn(&[At]) -> Result<Vec<u64>, E>) -> Result<(), E> {
    order::sort(entries, by);
    for ties in entries.chunk_by_mut(|a, b| by.compare(a, b).is_eq()).filter(|ties| ties.len() > 1) {
        let places: Vec<At> = ties.iter().map(|entry| entry.at).collect();
        let mut hashed: Vec<_> = hashes(&places)?.into_iter().zip(ties.iter().copied()).collect();
        hashed.sort_by_key(|(hash, _)| *hash);
        ties.iter_mut().zip(hashed).for_each(|(tie, (_, entry))| *tie = entry);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(time: i64, rank: u32, position: i64, row: u32) -> Entry {
        Entry { time, position, key: 0, rank, at: At { batch: 0, row } }
    }

    #[test]
    fn rows_of_one_time_stand_by_input_then_by_position_then_by_content() {
        let mut entries =
            vec![entry(1, BASE, 0, 0), entry(1, 0, 9, 1), entry(1, 0, 2, 2), entry(0, BASE, 5, 3), entry(1, 0, 9, 4)];
        let hashes = |places: &[At]| Ok::<_, ()>(places.iter().map(|at| 100 - u64::from(at.row)).collect());
        sort(&mut entries, By::Time, hashes).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.at.row).collect::<Vec<_>>(), [3, 2, 4, 1, 0]);
    }
}
