//! By the hash of a key.

use arrow_array::{Array, ArrayRef, cast::AsArray, types::Int64Type};
use thalweg_core::{Batch, KeyGroup, KeyGroups, Result};
use thalweg_memory::{
    kernels::{
        hash::{hash_columns, hash_numbers},
        select::BLOCK,
    },
    simd::Level,
};

use super::{Destinations, Route};

/// Brings a hash into a range of partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// The lowest bits, for a power of two: one AND.
    Mask(u64),
    /// The upper half of a product, for any number: the hash as a fraction of the range.
    Multiply(u64),
}

impl Range {
    /// A range of so many partitions, at least one.
    pub fn new(partitions: u32) -> Self {
        match partitions.max(1) {
            some if some.is_power_of_two() => Self::Mask(u64::from(some) - 1),
            some => Self::Multiply(u64::from(some)),
        }
    }

    /// How many partitions there are.
    pub fn partitions(self) -> usize {
        match self {
            Self::Mask(mask) => mask as usize + 1,
            Self::Multiply(partitions) => partitions as usize,
        }
    }

    /// The partition of each hash.
    pub fn of_all(self, hashes: &[u64]) -> Vec<u32> {
        match self {
            Self::Mask(mask) => hashes.iter().map(|hash| (hash & mask) as u32).collect(),
            Self::Multiply(partitions) => {
                hashes.iter().map(|hash| (((hash >> 32) * partitions) >> 32) as u32).collect()
            }
        }
    }
}

/// Equal keys to the same partition.
///
/// The hash is [`hash_columns`]', which is the same for ever and on every machine, so that another engine can route alike.
/// Source: Section 3.1 of the shuffle thesis, with multiply-shift instead of a division.
#[derive(Clone, Debug)]
pub struct ByHash {
    keys: Vec<usize>,
    range: Range,
}

impl ByHash {
    /// By these columns, to so many partitions.
    pub fn new(keys: Vec<usize>, partitions: u32) -> Self {
        Self { keys, range: Range::new(partitions) }
    }
}

impl Route for ByHash {
    fn partitions(&self) -> usize {
        self.range.partitions()
    }

    fn route(&mut self, batch: &Batch) -> Result<Destinations> {
        Ok(Destinations::One(self.range.of_all(&hashes(batch, &self.keys)?)))
    }
}

/// Equal keys to the partition that owns their key group: a table that somebody rewrites between two batches.
#[derive(Clone, Debug)]
pub struct ByKeyGroup {
    keys: Vec<usize>,
    groups: KeyGroups,
    owners: Vec<u32>,
    partitions: usize,
}

impl ByKeyGroup {
    /// By these columns; neighbouring groups go to the same of so many partitions, at first.
    pub fn new(keys: Vec<usize>, groups: KeyGroups, partitions: u32) -> Self {
        let partitions = partitions.max(1) as usize;
        let owners = (0..groups.count()).map(|group| (group * partitions / groups.count()) as u32).collect();
        Self { keys, groups, owners, partitions }
    }

    /// Who has a group, or the number of one that was set apart.
    pub fn owner(&self, group: KeyGroup) -> u32 {
        self.owners[group.0 as usize]
    }

    /// Gives a group to another partition.
    pub fn give(&mut self, group: KeyGroup, partition: u32) {
        assert!((partition as usize) < self.partitions, "a partition that is there");
        self.owners[group.0 as usize] = partition;
    }

    /// The rows of a group go to no partition: what they get is this number behind the last partition's, and who routes knows what to
    /// do with them.
    pub fn set_apart(&mut self, group: KeyGroup, number: u32) {
        self.owners[group.0 as usize] = self.partitions as u32 + number;
    }

    /// The number of a group whose rows go to no partition.
    pub fn apart(&self, group: KeyGroup) -> Option<u32> {
        self.owner(group).checked_sub(self.partitions as u32)
    }
}

impl ByKeyGroup {
    /// Who has the group of each selected row.
    ///
    /// Errors: what the key's type gives where it cannot be hashed.
    pub fn owners(&self, batch: &Batch) -> Result<Vec<u32>> {
        self.of_each(batch, |_| {})
    }

    /// Routes as [`Route::route`] does, and adds the rows of each group to a count.
    ///
    /// Errors: what the key's type gives where it cannot be hashed.
    pub fn route_and_count(&self, batch: &Batch, rows: &mut [u32]) -> Result<Destinations> {
        self.of_each(batch, |group| rows[group] += 1).map(Destinations::One)
    }

    /// Who has the group of each selected row, of which somebody is told.
    #[inline]
    fn of_each(&self, batch: &Batch, mut tell: impl FnMut(usize)) -> Result<Vec<u32>> {
        let mut owners = Vec::with_capacity(batch.len());
        let mut owner = |hash: &u64| {
            let group = self.groups.of(*hash).0 as usize;
            tell(group);
            self.owners[group]
        };
        match number_keys(batch, &self.keys) {
            None => owners.extend(hashes(batch, &self.keys)?.iter().map(owner)),
            // What a block hashes to need not leave the nearest cache.
            Some(numbers) => {
                let (level, mut room) = (Level::best(), [0; BLOCK]);
                for numbers in numbers.chunks(BLOCK) {
                    let hashes = &mut room[..numbers.len()];
                    hash_numbers(level, numbers, hashes);
                    owners.extend(hashes.iter().map(&mut owner));
                }
            }
        }
        Ok(owners)
    }
}

impl Route for ByKeyGroup {
    fn partitions(&self) -> usize {
        self.partitions
    }

    fn route(&mut self, batch: &Batch) -> Result<Destinations> {
        self.owners(batch).map(Destinations::One)
    }
}

/// The keys of a batch without a selection, if they are such numbers as most are.
fn number_keys<'a>(batch: &'a Batch, keys: &[usize]) -> Option<&'a [i64]> {
    let [key] = keys else { return None };
    let numbers = batch.column(*key).as_primitive_opt::<Int64Type>()?;
    (batch.selection().is_none() && numbers.null_count() == 0).then_some(numbers.values())
}

/// The hash of each selected row's key.
fn hashes(batch: &Batch, keys: &[usize]) -> Result<Vec<u64>> {
    let columns: Vec<ArrayRef> = keys.iter().map(|key| batch.column(*key).clone()).collect();
    let all = hash_columns(&columns, batch.physical_rows())?;
    Ok(match batch.selection() {
        None => all,
        Some(selection) => selection.rows().iter().map(|row| all[*row as usize]).collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, RecordBatch, StringArray};
    use thalweg_core::Selection;

    use super::*;

    fn batch(rows: i64) -> Batch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("key {}", row % 50))));
        Batch::new(RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap())
    }

    fn of(route: &mut dyn Route, batch: &Batch) -> Vec<u32> {
        match route.route(batch).unwrap() {
            Destinations::One(partitions) => partitions,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_partition_gets_its_share() {
        for partitions in [1, 2, 3, 7, 32, 1000, 1024] {
            let mut route = ByHash::new(vec![0], partitions);
            let found = of(&mut route, &batch(100_000));
            let mut counts = vec![0; partitions as usize];
            found.iter().for_each(|partition| counts[*partition as usize] += 1);
            let fair = 100_000 / partitions as usize;
            assert!(counts.iter().all(|count| (fair / 2..=fair * 2).contains(count)), "{partitions}: {counts:?}");
        }
    }

    #[test]
    fn equal_keys_go_together_and_a_selection_is_kept_to() {
        let all = batch(1000);
        let found = of(&mut ByHash::new(vec![1], 7), &all);
        assert!((50..1000).all(|row| found[row] == found[row - 50]));
        let some = Selection::new(vec![3, 500, 999]);
        let selected = of(&mut ByHash::new(vec![1], 7), &all.with_selection(some));
        assert_eq!(selected, [found[3], found[500], found[999]]);
    }

    #[test]
    fn a_group_moves_with_all_its_keys_and_no_other() {
        let all = batch(5000);
        let groups = KeyGroups::new(16).unwrap();
        let mut route = ByKeyGroup::new(vec![0], groups, 4);
        let owners: Vec<u32> = groups.iter().map(|group| route.owner(group)).collect();
        assert_eq!(owners, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
        let before = of(&mut route, &all);
        route.give(KeyGroup(5), 3);
        let after = of(&mut route, &all);
        let hashes = hash_columns(&[all.column(0).clone()], 5000).unwrap();
        for row in 0..5000 {
            let expected = if groups.of(hashes[row]) == KeyGroup(5) { 3 } else { before[row] };
            assert_eq!(after[row], expected);
        }
        let mut counts = vec![0; 16];
        assert_eq!(route.route_and_count(&all, &mut counts).unwrap(), Destinations::One(after));
        let mut expected = vec![0; 16];
        hashes.iter().for_each(|hash| expected[groups.of(*hash).0 as usize] += 1);
        assert_eq!(counts, expected);
    }
}
