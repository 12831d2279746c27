//! Rows that wait until time has come as far as theirs.

use std::cmp::Reverse;

use thalweg_memory::{kernels::bounds::bounds, simd::Level};

use super::entry::{Arrived, Entry};

/// So many rows wait together.
const RUN: usize = 1024;

/// The memory of so many runs stays for those to come, at most: as much as one input may be ahead of another.
const SPARE: usize = 64;

/// After so many times in which only some of them were due, those that wait together are sorted.
const PATIENCE: u32 = 4;

/// Rows in no order; those that are due leave together.
///
/// What waits together was put here one after the other, so that most of it is due at once: a row is looked at a few times only,
/// however long it waits.
#[derive(Debug, Default)]
pub struct Waiting {
    runs: Vec<Run>,
    rows: usize,
    /// Memory of runs that have left.
    spare: Vec<Vec<Entry>>,
    /// How many of them nobody needed since rows last left.
    unused: usize,
}

#[derive(Debug)]
struct Run {
    entries: Vec<Entry>,
    /// The earliest and the latest time.
    span: (i64, i64),
    /// How often some were due, and others were not.
    splits: u32,
    /// Whether they are in the reverse order of time.
    is_sorted: bool,
}

impl Waiting {
    /// Rows wait.
    pub fn put(&mut self, rows: &Arrived<'_>) {
        let mut done = 0;
        while done < rows.count() {
            let run = self.open_run();
            let some = rows.slice(done..rows.count().min(done + RUN - run.entries.len()));
            run.put(&some);
            done += some.count();
        }
        self.rows += rows.count();
    }

    /// A row waits.
    pub fn put_one(&mut self, entry: Entry) {
        let Run { entries, span, .. } = self.open_run();
        entries.push(entry);
        *span = (span.0.min(entry.time), span.1.max(entry.time));
        self.rows += 1;
    }

    /// The run that takes the next row.
    fn open_run(&mut self) -> &mut Run {
        let Self { runs, spare, unused, .. } = self;
        if runs.last().is_none_or(|run| run.entries.len() >= RUN || run.is_sorted) {
            runs.push(Run {
                entries: spare.pop().unwrap_or_else(|| Vec::with_capacity(RUN)),
                span: (i64::MAX, i64::MIN),
                splits: 0,
                is_sorted: false,
            });
        }
        *unused = (*unused).min(spare.len());
        runs.last_mut().expect("there is one")
    }

    /// Takes the rows with a time before `end`.
    pub fn take(&mut self, end: i64, due: &mut Vec<Entry>) {
        let before = due.len();
        let Self { runs, spare, unused, .. } = self;
        if *unused > 0 {
            spare.pop();
        }
        runs.retain_mut(|run| {
            run.take(end, due);
            if run.entries.is_empty() && spare.len() < SPARE {
                spare.push(std::mem::take(&mut run.entries));
            }
            !run.entries.is_empty()
        });
        *unused = spare.len();
        self.rows -= due.len() - before;
    }

    /// How many rows wait.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// All rows that wait.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.runs.iter().flat_map(|run| &run.entries)
    }

    /// Changes all rows that wait, or drops them; not their times.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut Entry) -> bool) {
        self.runs.retain_mut(|run| {
            run.entries.retain_mut(&mut keep);
            !run.entries.is_empty()
        });
        self.rows = self.runs.iter().map(|run| run.entries.len()).sum();
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        let entries = self.runs.iter().map(|run| &run.entries).chain(&self.spare);
        entries.map(|entries| entries.capacity() * size_of::<Entry>()).sum()
    }
}

impl Run {
    fn put(&mut self, rows: &Arrived<'_>) {
        self.entries.extend(rows.entries());
        if let Some((first, last)) = bounds(Level::best(), rows.times) {
            self.span = (self.span.0.min(first), self.span.1.max(last));
        }
    }

    fn take(&mut self, end: i64, due: &mut Vec<Entry>) {
        if self.span.0 >= end {
            return;
        }
        if self.span.1 < end {
            due.append(&mut self.entries);
            return;
        }
        self.splits += 1;
        if self.splits == PATIENCE {
            self.entries.sort_unstable_by_key(|entry| Reverse(entry.time));
            self.is_sorted = true;
        }
        if self.is_sorted {
            let stay = self.entries.partition_point(|entry| entry.time >= end);
            due.extend(self.entries.drain(stay..));
            self.span.0 = self.entries.last().map_or(i64::MAX, |entry| entry.time);
            return;
        }
        let mut earliest = i64::MAX;
        self.entries.retain(|entry| {
            let is_due = entry.time < end;
            if is_due {
                due.push(*entry);
            } else {
                earliest = earliest.min(entry.time);
            }
            !is_due
        });
        self.span.0 = earliest;
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::{
        super::entry::{At, BASE},
        *,
    };

    #[test]
    fn all_that_is_due_leaves_and_nothing_else() {
        let mut random = StdRng::seed_from_u64(7);
        let (mut waiting, mut twin, mut end) = (Waiting::default(), Vec::new(), 0);
        for row in 0..60_000 {
            let time = end + random.random_range(0..40_000);
            let entry = Entry { time, position: i64::from(row), key: 0, rank: BASE, at: At { batch: 0, row } };
            waiting.put_one(entry);
            twin.push(entry);
            if random.random_bool(0.001) {
                end += random.random_range(0..2_000);
                let mut due = Vec::new();
                waiting.take(end, &mut due);
                let (mut expected, left): (Vec<_>, Vec<_>) = twin.into_iter().partition(|entry| entry.time < end);
                twin = left;
                due.sort_by(Entry::by_time);
                expected.sort_by(Entry::by_time);
                assert_eq!(due, expected);
                assert_eq!((waiting.rows(), waiting.iter().count()), (twin.len(), twin.len()));
            }
        }
        assert!(waiting.runs.iter().any(|run| run.is_sorted), "some waited long");
    }
}
