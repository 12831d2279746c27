//! Rows of each key in the order of time, between which others may be put.
//!
//! Rows that come are at the end of their key's run, or not far from there, so that few are moved for each.

use super::super::entry::{At, Entry};

/// That time passes counts as so many rows.
const PASSING: usize = 16;

/// Memory for so many rows of a key is kept however few there are.
const ROOM: usize = 64;

/// What there is of a row.
pub trait Row: Copy {
    /// Which row it is.
    fn entry(&self) -> &Entry;

    /// Which row it is, to be given another number of its key.
    fn entry_mut(&mut self) -> &mut Entry;

    /// Where it stands among those of its key.
    fn place(&self) -> (i64, At) {
        (self.entry().time, self.entry().at)
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
    runs: Vec<Vec<T>>,
    rows: usize,
    /// How many rows came since all keys were last looked at.
    grown: usize,
}

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Self { runs: Vec::new(), rows: 0, grown: 0 }
    }
}

impl<T: Row> Runs<T> {
    /// The rows of a key.
    pub fn of(&self, key: u32) -> &[T] {
        self.runs.get(key as usize).map_or(&[], |run| run)
    }

    /// The rows of a key with a time in a range of which both ends are included.
    pub fn between(&self, key: u32, from: i64, to: i64) -> &[T] {
        let run = self.of(key);
        let run = &run[run.partition_point(|row| row.entry().time < from)..];
        &run[..run.partition_point(|row| row.entry().time <= to)]
    }

    /// A row, if it is there.
    pub fn get(&self, entry: &Entry) -> Option<&T> {
        let run = self.of(entry.key);
        run.binary_search_by_key(&entry.place(), Row::place).ok().map(|found| &run[found])
    }

    /// Puts a row where it belongs; returns the one that was in its place, if there was one.
    pub fn put(&mut self, row: T) -> Option<T> {
        let key = row.entry().key as usize;
        if self.runs.len() <= key {
            self.runs.resize_with(key + 1, Vec::new);
        }
        let run = &mut self.runs[key];
        match run.binary_search_by_key(&row.place(), Row::place) {
            Ok(found) => Some(std::mem::replace(&mut run[found], row)),
            Err(found) => {
                run.insert(found, row);
                self.rows += 1;
                self.grown += 1;
                None
            }
        }
    }

    /// Drops rows with a time before `end`; `gone` is told of each. Not all at once: rows of a key that gets no others stay for some time.
    pub fn expire(&mut self, end: i64, mut gone: impl FnMut(T)) {
        self.grown += PASSING;
        if self.grown < self.rows.max(self.runs.len()) / 2 {
            return;
        }
        self.grown = 0;
        for run in &mut self.runs {
            let old = run.partition_point(|row| row.entry().time < end);
            self.rows -= old;
            run.drain(..old).for_each(&mut gone);
            let room = run.len().max(ROOM);
            if run.capacity() > 4 * room {
                run.shrink_to(2 * room);
            }
        }
    }

    /// Drops the rows of the keys for which `is_gone` is true; `gone` is told of each.
    pub fn forget(&mut self, is_gone: impl Fn(u32) -> bool, mut gone: impl FnMut(T)) {
        for (_, run) in self.runs.iter_mut().enumerate().filter(|(key, _)| is_gone(*key as u32)) {
            self.rows -= run.len();
            std::mem::take(run).into_iter().for_each(&mut gone);
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
            runs.resize_with(runs.len().max(new as usize + 1), Vec::new);
            runs[new as usize] = run;
        }
        self.runs = runs;
    }

    /// All rows, key by key.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.runs.iter().flatten()
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        let rows: usize = self.runs.iter().map(Vec::capacity).sum();
        rows * size_of::<T>() + self.runs.capacity() * size_of::<Vec<T>>()
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

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
            let mut found = runs.between(key, from, from + 30).to_vec();
            let is_wanted = |entry: &&Entry| entry.key == key && (from..=from + 30).contains(&entry.time);
            let mut expected: Vec<Entry> = twin.iter().filter(is_wanted).copied().collect();
            assert!(found.is_sorted_by_key(|entry| entry.time));
            found.sort_by_key(|entry| entry.at);
            expected.sort_by_key(|entry| entry.at);
            assert_eq!(found, expected);
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
        assert!(runs.of(1).iter().all(|entry| entry.key == 1));
        runs.forget(|key| key != 1, |_| ());
        let stay: Vec<At> = runs.iter().map(|entry| entry.at).collect();
        let expected = twin.iter().filter(|entry| entry.key == 3).count();
        assert_eq!((stay.len(), runs.rows()), (expected, expected));
    }
}
