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
    runs: Vec<Run<T>>,
    rows: usize,
    /// How many rows came since all keys were last looked at.
    grown: usize,
}

/// The rows of a key.
#[derive(Debug)]
struct Run<T> {
    rows: Vec<T>,
    /// The row behind the one that was last looked for: rows are looked for one after the other.
    next: usize,
}

impl<T> Default for Run<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), next: 0 }
    }
}

impl<T: Row> Run<T> {
    /// Where a row is, or where it would be.
    fn find(&mut self, place: (i64, At)) -> Result<usize, usize> {
        let found = match self.rows.get(self.next) {
            Some(row) if row.place() == place => Ok(self.next),
            // What comes last stands behind all, as a rule.
            _ if self.rows.last().is_none_or(|last| last.place() < place) => Err(self.rows.len()),
            _ => self.rows.binary_search_by_key(&place, Row::place),
        };
        let (Ok(here) | Err(here)) = found;
        self.next = here + 1;
        found
    }
}

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Self { runs: Vec::new(), rows: 0, grown: 0 }
    }
}

impl<T: Row> Runs<T> {
    /// The rows of a key.
    pub fn of(&self, key: u32) -> &[T] {
        self.runs.get(key as usize).map_or(&[], |run| &run.rows)
    }

    /// The rows of a key, whose places stay as they are.
    pub fn of_mut(&mut self, key: u32) -> &mut [T] {
        self.runs.get_mut(key as usize).map_or(&mut [], |run| &mut run.rows)
    }

    /// The rows of a key with a time in a range of which both ends are included.
    pub fn between(&self, key: u32, from: i64, to: i64) -> &[T] {
        let run = self.of(key);
        let run = &run[run.partition_point(|row| row.entry().time < from)..];
        &run[..run.partition_point(|row| row.entry().time <= to)]
    }

    /// A row, if it is there.
    pub fn get(&mut self, entry: &Entry) -> Option<&mut T> {
        let run = self.runs.get_mut(entry.key as usize)?;
        let found = run.find(entry.place()).ok()?;
        Some(&mut run.rows[found])
    }

    /// Puts a row where it belongs; returns the one that was in its place, if there was one.
    pub fn put(&mut self, row: T) -> Option<T> {
        let key = row.entry().key as usize;
        if self.runs.len() <= key {
            self.runs.resize_with(key + 1, Run::default);
        }
        let run = &mut self.runs[key];
        match run.find(row.place()) {
            Ok(found) => Some(std::mem::replace(&mut run.rows[found], row)),
            Err(found) => {
                run.rows.insert(found, row);
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
        for Run { rows: run, .. } in &mut self.runs {
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
            self.rows -= run.rows.len();
            std::mem::take(run).rows.into_iter().for_each(&mut gone);
        }
    }

    /// Gives each key its new number.
    pub fn renumber(&mut self, moved: &[u32]) {
        let mut runs = Vec::new();
        for (old, mut run) in std::mem::take(&mut self.runs).into_iter().enumerate() {
            if run.rows.is_empty() {
                continue;
            }
            let new = moved[old];
            run.rows.iter_mut().for_each(|row| row.entry_mut().key = new);
            runs.resize_with(runs.len().max(new as usize + 1), Run::default);
            runs[new as usize] = run;
        }
        self.runs = runs;
    }

    /// All rows, key by key.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.runs.iter().flat_map(|run| &run.rows)
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        let rows: usize = self.runs.iter().map(|run| run.rows.capacity()).sum();
        rows * size_of::<T>() + self.runs.capacity() * size_of::<Run<T>>()
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
        assert!(runs.of(1).iter().all(|entry| entry.key == 1));
        runs.forget(|key| key != 1, |_| ());
        let stay: Vec<At> = runs.iter().map(|entry| entry.at).collect();
        let expected = twin.iter().filter(|entry| entry.key == 3).count();
        assert_eq!((stay.len(), runs.rows()), (expected, expected));
    }
}
