//! The rows of each key in the order of time, in leaves.
//!
//! ```text
//! a    [1 2 4 5] [6 6 7 9] [9 12]      leaves that are full, and the last rows
//! b    [3 5]                           few rows are one leaf
//! ```
//!
//! Rows that come are at the end of their key's run, or not far from there. One that comes later is put into its leaf, so that no more than
//! a leaf's rows are moved for it, however many its key has.

use std::ops::Range;

use thalweg_memory::simd::prefetch;

use super::{
    super::{
        entry::Entry,
        walk::{RARE, guess_back, search, search_by_time},
    },
    Found, Index, Lookup, Place,
};

/// That time passes counts as so many rows.
const PASSING: usize = 16;

/// Memory for so many rows of a key is kept however few there are.
const ROOM: usize = 64;

/// A leaf has no more rows than this. (Tests have few.)
const LEAF: usize = if cfg!(test) { 8 } else { 128 };

/// So many keys ahead their memory is asked for, where there are too many for the caches: what is known of a key, then its last rows.
const AHEAD: [usize; 2] = [16, 8];

/// What is known of so few keys stays in the fastest cache.
const FEW: usize = 256;

/// What there is of a row.
pub trait Row: Copy {
    /// Which row it is.
    fn entry(&self) -> &Entry;

    /// Which row it is, to be given another number of its key.
    fn entry_mut(&mut self) -> &mut Entry;

    /// Where it stands among those of its key.
    fn place(&self) -> Place {
        (self.entry().time, self.entry().at)
    }

    /// Its event time.
    fn time(&self) -> i64 {
        self.entry().time
    }
}

impl Row for Entry {
    fn entry(&self) -> &Entry {
        self
    }

    fn entry_mut(&mut self) -> &mut Entry {
        self
    }
}

/// Rows by key and time.
#[derive(Debug)]
pub struct Runs<T> {
    runs: Vec<Run<T>>,
    rows: usize,
    /// How many rows came since all keys were last looked at.
    grown: usize,
}

/// The rows of a key. There may be millions of keys with few rows, so that it is short.
#[derive(Debug)]
struct Run<T> {
    /// Leaves before the last rows, where there are many rows.
    earlier: Option<Box<Earlier<T>>>,
    /// The last rows: all, where there are few.
    last: Vec<T>,
    /// In which leaf a row would be that follows the one that was last looked for, and where: rows are looked for one after the other.
    near: (u32, u32),
}

/// Leaves, at least one, of which none is empty.
#[derive(Debug)]
struct Earlier<T>(Vec<Leaf<T>>);

/// Some rows of a key that follow each other.
#[derive(Debug)]
struct Leaf<T> {
    /// Where the first one stands, so that nobody has to look into a leaf to find it.
    first: Place,
    rows: Vec<T>,
}

impl<T: Row> Leaf<T> {
    fn new(rows: Vec<T>) -> Self {
        Self { first: rows[0].place(), rows }
    }
}

impl<T> Default for Run<T> {
    fn default() -> Self {
        Self { earlier: None, last: Vec::new(), near: (0, 0) }
    }
}

impl<T: Row> Run<T> {
    fn earlier(&self) -> &[Leaf<T>] {
        self.earlier.as_ref().map_or(&[], |earlier| &earlier.0)
    }

    fn earlier_mut(&mut self) -> &mut [Leaf<T>] {
        self.earlier.as_mut().map_or(&mut [], |earlier| &mut earlier.0)
    }

    /// The rows of a leaf; behind the earlier ones come the last rows.
    fn leaf(&self, leaf: usize) -> &[T] {
        self.earlier().get(leaf).map_or(&self.last, |leaf| &leaf.rows)
    }

    fn leaf_mut(&mut self, leaf: usize) -> &mut Vec<T> {
        let Self { earlier, last, .. } = self;
        let earlier = earlier.as_mut().and_then(|earlier| earlier.0.get_mut(leaf));
        earlier.map_or(last, |leaf| &mut leaf.rows)
    }

    /// Where the first row of a leaf stands.
    fn first(&self, leaf: usize) -> Option<Place> {
        match self.earlier().get(leaf) {
            Some(leaf) => Some(leaf.first),
            None => self.last.first().map(Row::place),
        }
    }

    /// The leaf that has the last row, or would have it, of those that something is true of: it is of the first ones and of no others.
    /// It is this one, as a rule.
    fn leaf_of(&self, near: usize, is_before: impl Fn(Place) -> bool) -> usize {
        let count = self.earlier().len();
        let begins_before = |leaf: usize| self.first(leaf).is_none_or(&is_before);
        if near <= count && (near == 0 || begins_before(near)) && (near == count || !begins_before(near + 1)) {
            return near;
        }
        match begins_before(count) {
            true => count,
            false => self.earlier().partition_point(|leaf| is_before(leaf.first)).saturating_sub(1),
        }
    }

    /// Where a row is, or where it would be.
    fn find(&mut self, place: Place) -> Result<(usize, usize), (usize, usize)> {
        let (near, row) = (self.near.0 as usize, self.near.1 as usize);
        let is_next = near <= self.earlier().len() && self.leaf(near).get(row).is_some_and(|row| row.place() == place);
        let found = match self.last.last() {
            _ if is_next => Ok((near, row)),
            // What comes last stands behind all, as a rule.
            Some(last) if last.place() < place => Err((self.earlier().len(), self.last.len())),
            _ => {
                let leaf = self.leaf_of(near, |first| first <= place);
                let rows = self.leaf(leaf);
                let near = if leaf == near { row } else { rows.len() };
                let row = search_by_time(rows, near, place.0, Row::time, |row| row.place() < place);
                let is_there = rows.get(row).is_some_and(|row| row.place() == place);
                if is_there { Ok((leaf, row)) } else { Err((leaf, row)) }
            }
        };
        self.near = match found {
            Ok((leaf, row)) => (leaf as u32, row as u32 + 1),
            Err((leaf, row)) => (leaf as u32, row as u32),
        };
        found
    }

    /// Puts a row where it would be.
    fn insert(&mut self, (mut leaf, mut at): (usize, usize), row: T) {
        if self.leaf(leaf).len() == LEAF {
            // What comes in order fills leaves.
            let stay = if leaf == self.earlier().len() && at == LEAF { LEAF } else { LEAF / 2 };
            let upper = match stay {
                LEAF => Vec::with_capacity(LEAF),
                _ => self.leaf_mut(leaf).split_off(stay),
            };
            let Earlier(earlier) = &mut **self.earlier.get_or_insert_with(|| Box::new(Earlier(Vec::new())));
            match leaf == earlier.len() {
                true => earlier.push(Leaf::new(std::mem::replace(&mut self.last, upper))),
                false => earlier.insert(leaf + 1, Leaf::new(upper)),
            }
            // A row between both goes to the lower one, unless nothing is in the other.
            if at > stay || stay == LEAF {
                (leaf, at) = (leaf + 1, at - stay);
            }
        }
        self.near = (leaf as u32, at as u32 + 1);
        self.leaf_mut(leaf).insert(at, row);
        if at == 0
            && let Some(leaf) = self.earlier_mut().get_mut(leaf)
        {
            leaf.first = row.place();
        }
    }

    /// The rows with a time in a range of which both ends are included: which of each leaf.
    fn between(&self, from: i64, to: i64) -> impl Iterator<Item = (usize, Range<usize>)> {
        let begins = move |leaf: usize| self.first(leaf).is_some_and(|first| first.0 <= to);
        let first = self.leaf_of(self.earlier().len(), |first| first.0 < from);
        (first..=self.earlier().len()).take_while(move |leaf| begins(*leaf)).map(move |number| {
            let leaf = self.leaf(number);
            let start = if number == first { leaf.partition_point(|row| row.time() < from) } else { 0 };
            let ends_behind = leaf.last().is_some_and(|row| row.time() > to);
            let end = if ends_behind { leaf.partition_point(|row| row.time() <= to) } else { leaf.len() };
            (number, start..end.max(start))
        })
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        self.earlier().iter().flat_map(|leaf| &leaf.rows).chain(&self.last)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let Self { earlier, last, .. } = self;
        earlier.iter_mut().flat_map(|earlier| &mut earlier.0).flat_map(|leaf| &mut leaf.rows).chain(last)
    }

    fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// Drops rows with a time before `end`.
    fn expire(&mut self, end: i64, mut gone: impl FnMut(T)) {
        let is_old = |leaf: &Leaf<T>| leaf.rows.last().is_some_and(|row| row.time() < end);
        if let Some(Earlier(earlier)) = self.earlier.as_deref_mut() {
            let old = earlier.iter().take_while(|leaf| is_old(leaf)).count();
            earlier.drain(..old).flat_map(|leaf| leaf.rows).for_each(&mut gone);
            if earlier.is_empty() {
                self.earlier = None;
            }
        }
        let first = self.leaf_mut(0);
        let old = first.partition_point(|row| row.time() < end);
        first.drain(..old).for_each(&mut gone);
        match self.earlier_mut().first_mut() {
            Some(leaf) => leaf.first = leaf.rows[0].place(),
            None => {
                let room = self.last.len().max(ROOM);
                if self.last.capacity() > 4 * room {
                    self.last.shrink_to(2 * room);
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        let rows: usize = self.earlier().iter().map(|leaf| leaf.rows.capacity()).sum();
        let leaves = self.earlier.as_ref().map_or(0, |earlier| earlier.0.capacity());
        (rows + self.last.capacity()) * size_of::<T>() + leaves * size_of::<Leaf<T>>()
    }
}

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Self { runs: Vec::new(), rows: 0, grown: 0 }
    }
}

impl<T: Row> Runs<T> {
    /// The last row of a key.
    pub fn last(&self, key: u32) -> Option<&T> {
        self.runs.get(key as usize)?.last.last()
    }

    /// The rows of a key with a time in a range of which both ends are included: those of each leaf.
    pub fn between(&self, key: u32, from: i64, to: i64) -> impl Iterator<Item = &[T]> {
        let run = self.runs.get(key as usize);
        run.into_iter().flat_map(move |run| run.between(from, to).map(|(leaf, rows)| &run.leaf(leaf)[rows]))
    }

    /// Changes the rows of a key with a time in some ranges of which both ends are included, which ascend and do not overlap. Their places stay
    /// as they are.
    pub fn change_between(
        &mut self,
        key: u32,
        ranges: impl Iterator<Item = (i64, i64)>,
        mut change: impl FnMut(&mut T),
    ) {
        let Some(run) = self.runs.get_mut(key as usize) else { return };
        // The first is not far from the end, as a rule, and the others not far behind it.
        let mut near = (run.earlier().len(), run.last.len());
        for (from, to) in ranges {
            let first = run.leaf_of(near.0, |first| first.0 < from);
            for leaf in first..=run.earlier().len() {
                let rows = run.leaf_mut(leaf);
                let start = search(rows, if leaf == near.0 { near.1 } else { rows.len() }, |row| row.time() < from);
                let end = search(rows, start, |row| row.time() <= to).max(start);
                rows[start..end].iter_mut().for_each(&mut change);
                near = (leaf, end);
                if end < rows.len() {
                    break;
                }
            }
        }
    }

    /// A row, if it is there.
    pub fn get(&mut self, entry: &Entry) -> Option<&mut T> {
        let run = self.runs.get_mut(entry.key as usize)?;
        let (leaf, row) = run.find(entry.place()).ok()?;
        Some(&mut run.leaf_mut(leaf)[row])
    }

    /// Puts a row where it belongs; returns the one that was in its place, if there was one.
    pub fn put(&mut self, row: T) -> Option<T> {
        let key = row.entry().key as usize;
        if self.runs.len() <= key {
            self.runs.resize_with(key + 1, Run::default);
        }
        let run = &mut self.runs[key];
        match run.find(row.place()) {
            Ok((leaf, found)) => Some(std::mem::replace(&mut run.leaf_mut(leaf)[found], row)),
            Err(place) => {
                run.insert(place, row);
                self.rows += 1;
                self.grown += 1;
                None
            }
        }
    }

    /// Asks for the memory of some of the keys that are next, by how far these are ahead.
    pub fn prefetch(&self, key: impl Fn(usize) -> Option<u32>) {
        if self.runs.len() <= FEW {
            return;
        }
        let [far, near] = AHEAD.map(|ahead| key(ahead).map(|key| key as usize).filter(|key| *key < self.runs.len()));
        far.into_iter().for_each(|far| prefetch(&self.runs[far..=far], 0));
        near.into_iter().for_each(|near| {
            let last = &self.runs[near].last;
            prefetch(&last[last.len().saturating_sub(1)..], 0);
        });
    }

    /// Asks for the memory around the places of rows, if these are few beside all that are here: it is in no cache then, as a rule.
    pub fn prefetch_places(&self, rows: &[Entry]) {
        if rows.len() * RARE > self.rows {
            return;
        }
        let run = |row: &Entry| self.runs.get(row.key as usize);
        for run in rows.iter().filter_map(run) {
            let last = run.last.len().saturating_sub(1);
            [0, last].into_iter().for_each(|row| prefetch(run.last.get(row..=row).unwrap_or_default(), 0));
        }
        for (run, row) in rows.iter().filter_map(|row| Some((run(row)?, row))) {
            let leaf = run.leaf(run.leaf_of(run.earlier().len(), |first| first <= row.place()));
            let place = guess_back(leaf, row.time(), Row::time);
            prefetch(leaf.get(place..=place).unwrap_or_default(), 0);
        }
    }

    /// So many rows have come that were put elsewhere: what time has passed is dropped the sooner.
    pub fn pass(&mut self, rows: usize) {
        self.grown += rows;
    }

    /// Drops rows with a time before `end`; `gone` is told of each. Not all at once: rows of a key that gets no others stay for some time.
    pub fn expire(&mut self, end: i64, mut gone: impl FnMut(T)) {
        self.grown += PASSING;
        if self.grown < self.rows.max(self.runs.len()) / 2 {
            return;
        }
        self.grown = 0;
        let Self { runs, rows, .. } = self;
        for run in runs.iter_mut().filter(|run| !run.is_empty()) {
            run.expire(end, |row| {
                *rows -= 1;
                gone(row);
            });
        }
    }

    /// Drops the rows of the keys for which `is_gone` is true; `gone` is told of each.
    pub fn forget(&mut self, is_gone: impl Fn(u32) -> bool, mut gone: impl FnMut(T)) {
        for (_, run) in self.runs.iter_mut().enumerate().filter(|(key, _)| is_gone(*key as u32)) {
            let run = std::mem::take(run);
            self.rows -= run.iter().count();
            run.iter().for_each(|row| gone(*row));
        }
    }

    /// Gives each key its new number.
    pub fn renumber(&mut self, moved: &[u32]) {
        let mut runs = Vec::new();
        for (old, mut run) in std::mem::take(&mut self.runs).into_iter().enumerate() {
            if run.is_empty() {
                continue;
            }
            let new = moved[old];
            run.iter_mut().for_each(|row| row.entry_mut().key = new);
            runs.resize_with(runs.len().max(new as usize + 1), Run::default);
            runs[new as usize] = run;
        }
        self.runs = runs;
    }

    /// All rows, key by key.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.runs.iter().flat_map(Run::iter)
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        self.runs.iter().map(Run::bytes).sum::<usize>() + self.runs.capacity() * size_of::<Run<T>>()
    }
}

impl Index for Runs<Entry> {
    fn insert(&mut self, rows: &[Entry]) {
        for (number, row) in rows.iter().enumerate() {
            self.prefetch(|ahead| rows.get(number + ahead).map(|row| row.key));
            self.put(*row);
        }
    }

    fn find(&mut self, lookups: &[Lookup], mut skip: usize, most: usize, found: &mut Found) {
        let most = found.rows.len() + most;
        for (number, Lookup { key, from, to }) in lookups.iter().enumerate() {
            self.prefetch(|ahead| lookups.get(number + ahead).map(|lookup| lookup.key));
            let Some(run) = self.runs.get(*key as usize) else {
                found.ends.push(found.rows.len());
                continue;
            };
            for (leaf, rows) in run.between(*from, *to) {
                let leaf = &run.leaf(leaf)[rows];
                let known = skip.min(leaf.len());
                skip -= known;
                let left = &leaf[known..];
                let some = left.len().min(most - found.rows.len());
                found.rows.extend_from_slice(&left[..some]);
                if some < left.len() {
                    return;
                }
            }
            skip = 0;
            found.ends.push(found.rows.len());
        }
    }

    fn change(&mut self, key: u32, change: &mut dyn FnMut(&mut Entry)) {
        self.runs.get_mut(key as usize).into_iter().flat_map(Run::iter_mut).for_each(change);
    }

    fn expire(&mut self, end: i64, gone: &mut dyn FnMut(Entry)) {
        self.expire(end, gone);
    }

    fn forget(&mut self, is_gone: &dyn Fn(u32) -> bool, gone: &mut dyn FnMut(Entry)) {
        self.forget(is_gone, gone);
    }

    fn renumber(&mut self, moved: &[u32]) {
        self.renumber(moved);
    }

    fn iter(&self) -> Box<dyn Iterator<Item = &Entry> + '_> {
        Box::new(self.iter())
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::{super::super::entry::At, *};

    #[test]
    fn rows_stand_in_the_order_of_time_until_it_has_passed() {
        let random = &mut StdRng::seed_from_u64(3);
        let (mut runs, mut twin) = (Runs::default(), Vec::new());
        for row in 0..3000 {
            let time = i64::from(row) + random.random_range(0..50);
            let entry = Entry { time, position: 0, key: random.random_range(0..5), rank: 0, at: At { batch: 0, row } };
            assert_eq!(runs.put(entry), None);
            twin.push(entry);
            let (key, from) = (random.random_range(0..5), time - random.random_range(0..100));
            let mut found = runs.between(key, from, from + 30).flatten().copied().collect::<Vec<_>>();
            let is_wanted = |entry: &&Entry| entry.key == key && (from..=from + 30).contains(&entry.time);
            let mut expected: Vec<Entry> = twin.iter().filter(is_wanted).copied().collect();
            assert!(found.is_sorted_by_key(|entry| entry.time));
            found.sort_by_key(|entry| entry.at);
            expected.sort_by_key(|entry| entry.at);
            assert_eq!(found, expected);
            // One after the other, from anywhere, and what is not there.
            let first = twin.len().saturating_sub(random.random_range(1..9));
            for known in twin[first..].iter().chain([&twin[random.random_range(0..twin.len())]]) {
                assert_eq!(runs.get(known).as_deref(), Some(known));
                assert_eq!(runs.put(*known), Some(*known));
                let at = At { batch: 1, ..known.at };
                assert_eq!(runs.get(&Entry { at, ..*known }), None);
            }
            if row % 100 == 99 {
                let end = time - 200;
                // Some may stay.
                let mut gone = Vec::new();
                runs.expire(end, |entry: Entry| gone.push(entry));
                assert!(gone.iter().all(|entry| entry.time < end));
                twin.retain(|entry| !gone.contains(entry));
                assert_eq!(runs.rows(), twin.len());
            }
        }
        assert!(runs.rows() < 1000, "{}", runs.rows());
        runs.renumber(&[4, 3, 2, 1, 0]);
        assert!(runs.between(1, i64::MIN, i64::MAX).flatten().all(|entry| entry.key == 1));
        runs.forget(|key| key != 1, |_| ());
        let stay: Vec<At> = runs.iter().map(|entry| entry.at).collect();
        let expected = twin.iter().filter(|entry| entry.key == 3).count();
        assert_eq!((stay.len(), runs.rows()), (expected, expected));
    }
}
