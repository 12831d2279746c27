//! Rows by key and time, into which rows are put, and in which they are looked for, a batch at a time.
//!
//! * [`runs`]: the rows of each key in the order of time, in leaves that fit into the caches
//! * [`skip_list`]: the index of Scale-OIJ

pub mod runs;
pub mod skip_list;

use thalweg_plan::settings::JoinIndex;

use self::{runs::Runs, skip_list::SkipList};
use super::entry::{At, Entry};

/// The one that is taken: what costs less, where nothing is said. A join that looks rows up in skip lists takes 1.6 to 9 times as much as
/// one that does so in runs, with few keys and many, in order and not (`benchmarks interval-join --only "eager join"`).
pub fn chosen(which: JoinIndex) -> JoinIndex {
    if which == JoinIndex::Auto { JoinIndex::Runs } else { which }
}

/// An index without rows.
pub fn new(which: JoinIndex) -> Box<dyn Index> {
    match chosen(which) {
        JoinIndex::SkipList => Box::new(SkipList::default()),
        _ => Box::new(Runs::default()),
    }
}

/// Rows by key and time.
pub trait Index: Send {
    /// Puts rows in, in whichever order they come. None of them is there already.
    fn insert(&mut self, rows: &[Entry]);

    /// Finds rows for some lookups, one after the other, but for so many of the first one's that were found before: `most` rows at most.
    fn find(&mut self, lookups: &[Lookup], skip: usize, most: usize, found: &mut Found);

    /// Changes the rows of a key, but for their keys, times and places.
    fn change(&mut self, key: u32, change: &mut dyn FnMut(&mut Entry));

    /// Drops rows with a time before `end`, all of them or some; `gone` is told of each.
    fn expire(&mut self, end: i64, gone: &mut dyn FnMut(Entry));

    /// Drops the rows of the keys for which `is_gone` is true; `gone` is told of each.
    fn forget(&mut self, is_gone: &dyn Fn(u32) -> bool, gone: &mut dyn FnMut(Entry));

    /// Gives each key its new number.
    fn renumber(&mut self, moved: &[u32]);

    /// All rows, in any order.
    fn iter(&self) -> Box<dyn Iterator<Item = &Entry> + '_>;

    /// How many rows there are.
    fn rows(&self) -> usize;

    /// How many bytes of memory they take.
    fn bytes(&self) -> usize;
}

/// Rows of a key with a time in a range of which both ends are included.
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    /// The number of the key.
    pub key: u32,
    /// The earliest time.
    pub from: i64,
    /// The latest one.
    pub to: i64,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Rows, lookup by lookup, and for each in the order of time.
    pub rows: Vec<Entry>,
    /// Where in these the rows of each lookup end that is done; what is behind belongs to the next one.
    pub ends: Vec<usize>,
}

impl Found {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.ends.clear();
    }
}

/// Where a row stands among those of its key.
pub type Place = (i64, At);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    /// Rows that come in some disorder, are looked for, expire, are forgotten and get other keys: in an index and in a sorted map.
    fn is_a_sorted_map(index: &mut dyn Index, seed: u64) {
        let random = &mut StdRng::seed_from_u64(seed);
        let (mut twin, mut end) = (BTreeMap::new(), i64::MIN);
        let (disorder, keys) = ([1, 50, 5000][random.random_range(0..3)], random.random_range(1..6));
        for batch in 0..400 {
            let row = |row: u32| {
                let time = i64::from(batch * 8) + random.random_range(0..disorder);
                Entry { time, position: 0, key: random.random_range(0..keys), rank: 0, at: At { batch, row } }
            };
            let new: Vec<Entry> = (0..random_rows(batch)).map(row).collect();
            index.insert(&new);
            twin.extend(new.iter().map(|row| ((row.key, row.time, row.at), *row)));
            let lookup = |_| {
                let from = i64::from(batch * 8) + random.random_range(-200..disorder);
                Lookup { key: random.random_range(0..keys), from, to: from + random.random_range(-1..300) }
            };
            let lookups: Vec<Lookup> = (0..5).map(lookup).collect();
            let (mut done, mut skip, mut all) = (0, 0, Vec::new());
            let most = random.random_range(1..60);
            while done < lookups.len() {
                let mut found = Found::default();
                index.find(&lookups[done..], skip, most, &mut found);
                assert!(found.rows.len() <= most);
                let ended = found.ends.last().copied();
                skip = if ended.is_some() { 0 } else { skip } + found.rows.len() - ended.unwrap_or(0);
                done += found.ends.len();
                all.extend(found.rows);
            }
            let is_found =
                |row: &Entry, lookup: &Lookup| row.key == lookup.key && (lookup.from..=lookup.to).contains(&row.time);
            let expected = lookups.iter().flat_map(|lookup| twin.values().filter(move |row| is_found(row, lookup)));
            // What has expired may be there for some time.
            let at = |row: &Entry| (row.time, row.at);
            let all: Vec<_> = all.iter().filter(|row| row.time >= end).map(at).collect();
            assert_eq!(all, expected.map(at).collect::<Vec<_>>(), "seed {seed}, batch {batch}");
            if random.random_bool(0.1) {
                end = end.max(i64::from(batch * 8) - 300);
                index.expire(end, &mut |row| assert!(row.time < end));
                twin.retain(|_, row| row.time >= end);
            }
            if random.random_bool(0.02) {
                let gone = random.random_range(0..keys);
                let before = index.rows();
                let mut count = 0;
                index.forget(&|key| key == gone, &mut |row| count += usize::from(row.key == gone));
                assert_eq!(index.rows(), before - count);
                twin.retain(|_, row| row.key != gone);
            }
            if random.random_bool(0.02) {
                let moved: Vec<u32> = (0..keys).map(|key| (key + 1) % keys).collect();
                index.renumber(&moved);
                let other = |row: Entry| Entry { key: moved[row.key as usize], ..row };
                let renumbered = twin.into_values().map(other);
                twin = renumbered.map(|row| ((row.key, row.time, row.at), row)).collect();
            }
            let of_key = random.random_range(0..keys);
            index.change(of_key, &mut |row| row.rank = batch);
            twin.values_mut().filter(|row| row.key == of_key).for_each(|row| row.rank = batch);
        }
        let mut all: Vec<Entry> = index.iter().filter(|row| row.time >= end).copied().collect();
        all.sort_by_key(|row| (row.key, row.time, row.at));
        assert_eq!(all, twin.into_values().collect::<Vec<_>>(), "seed {seed}");
        assert!(all.len() <= index.rows() && index.rows() < 20_000 && index.bytes() > 0);
    }

    fn random_rows(batch: u32) -> u32 {
        batch * 7 % 23
    }

    #[test]
    fn each_index_finds_what_a_sorted_map_does() {
        for seed in 0..20 {
            is_a_sorted_map(&mut Runs::<Entry>::default(), seed);
            is_a_sorted_map(&mut SkipList::default(), seed);
        }
    }
}
