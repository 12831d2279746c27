//! Rows that wait until time has come as far as theirs.
//!
//! ```text
//! as they came    ▢▢▢▢▢▢▢▢ ▢▢▢▢▢▢▢▢ ▢▢▢       what came together is due together, as a rule
//!                    └── those that wait longer
//! by time         ▢▢▢ │ ▢▢▢▢ │ ▢▢▢▢ │ ▢▢       a slice is due at a time
//! ```

use std::cmp::Reverse;

use thalweg_core::{Interval, Timestamp};
use thalweg_memory::{kernels::bounds::bounds, simd::Level};

use super::{
    due::Due,
    entry::{Arrived, Entry},
    slices::{Slices, split},
};

/// So many rows wait together.
const RUN: usize = 1024;

/// The memory of so many runs stays for those to come, at most: as much as one input may be ahead of another.
const SPARE: usize = 64;

/// After so many times in which only some of them were due, those that came together are divided among slices of time.
const PATIENCE: u32 = 2;

/// And after so many, those that still wait together are sorted.
const SORTED: u32 = 6;

/// So many rows are due together, about, where time makes a leap over more. (Tests have few rows.)
const DUE: usize = if cfg!(test) { 50 } else { 16_384 };

/// After so many such leaps others run, even if nothing came out.
pub const STEPS: usize = if cfg!(test) { 3 } else { 64 };

/// Rows in no order; those that are due leave together.
///
/// A row is looked at a few times only, however long it waits.
#[derive(Debug, Default)]
pub struct Waiting {
    /// Rows as they came.
    runs: Vec<Run>,
    /// Rows that wait longer.
    slices: Slices,
    rows: usize,
    /// Memory of runs that have left.
    spare: Vec<Vec<Entry>>,
    /// How many of them nobody needed since rows last left.
    unused: usize,
}

/// Rows that wait together.
#[derive(Debug)]
pub struct Run {
    /// The rows.
    pub entries: Vec<Entry>,
    /// The earliest and the latest time.
    pub span: (i64, i64),
    /// How often some were due, and others were not.
    splits: u32,
    /// Whether they are in the reverse order of time.
    is_sorted: bool,
    /// Whether they are due so late that there is no slice for them. Others wait with them, for which there is none, either.
    are_far: bool,
}

/// How far time goes at once on its way from `reached` to `goes_to`, over few rows of both, as [`Waiting::step`] says; base rows are due so
/// far behind others.
pub fn next(
    reached: Timestamp,
    goes_to: Timestamp,
    members: &mut Waiting,
    (bases, ahead): (&mut Waiting, Interval),
) -> Timestamp {
    if goes_to <= reached {
        return reached;
    }
    let members = members.step(reached.0, goes_to.0).map(Timestamp);
    let bases = bases.step(reached.minus(ahead).0, goes_to.minus(ahead).0).map(|step| Timestamp(step).plus(ahead));
    [members, bases].into_iter().flatten().fold(goes_to, Timestamp::min)
}

impl Waiting {
    /// Rows wait.
    pub fn put(&mut self, rows: &Arrived<'_>) {
        // Where rows wait for long they need not wait together first.
        if self.slices.are_some()
            && let Some(span) = bounds(Level::best(), rows.times).filter(|(_, last)| self.slices.wait_long(*last))
        {
            let mut others = Run::new(Vec::new());
            self.slices.put(rows.entries(), span, &mut others);
            self.rows += rows.count();
            return others.entries.into_iter().for_each(|entry| self.open_run(true).put_one(entry));
        }
        let mut done = 0;
        while done < rows.count() {
            let run = self.open_run(false);
            let some = rows.slice(done..rows.count().min(done + RUN - run.entries.len()));
            run.put(&some);
            done += some.count();
        }
        self.rows += rows.count();
    }

    /// A row waits.
    pub fn put_one(&mut self, entry: Entry) {
        self.open_run(false).put_one(entry);
        self.rows += 1;
    }

    /// The run that takes the next row, which may be far.
    fn open_run(&mut self, is_far: bool) -> &mut Run {
        let Self { runs, spare, unused, .. } = self;
        let is_over = |run: &Run| run.splits >= PATIENCE && !(run.are_far && is_far);
        if runs.last().is_none_or(|run| run.entries.len() >= RUN || is_over(run)) {
            runs.push(Run::new(spare.pop().unwrap_or_else(|| Vec::with_capacity(RUN))));
        }
        *unused = (*unused).min(spare.len());
        runs.last_mut().expect("there is one")
    }

    /// How far time goes at once on its way to `end`, where it has come to `reached`, if not all the way: not over very many rows, so that
    /// what is done with them stays in the caches, and others may run before the next.
    pub fn step(&mut self, reached: i64, end: i64) -> Option<i64> {
        if self.rows <= DUE {
            return None;
        }
        let Self { runs, slices, .. } = self;
        let early = |run: &&Run| run.span.0 < end;
        let count: usize = runs.iter().filter(early).map(|run| run.entries.len()).sum();
        if count > DUE {
            let spans = runs.iter().filter(early).map(|run| (run.span.0, run.span.1.min(end)));
            let (first, last) = spans.fold((i64::MAX, i64::MIN), |all, span| (all.0.min(span.0), all.1.max(span.1)));
            slices.pace((first, last), count / DUE);
            runs.extend(slices.others());
            for run in runs.iter_mut().filter(|run| run.span.0 < end) {
                slices.divide(run);
                run.splits = PATIENCE;
            }
            runs.retain(|run| !run.entries.is_empty());
        }
        let step = slices.end_of(DUE).max(reached.saturating_add(1));
        (step < end).then_some(step)
    }

    /// Takes the rows with a time before `end`, for the memory of those that were taken before.
    pub fn take(&mut self, end: i64, due: &mut Due) {
        let before = due.len();
        let Self { runs, slices, spare, unused, .. } = self;
        if *unused > 0 {
            spare.pop();
        }
        for memory in due.memory() {
            match memory.capacity() {
                RUN if spare.len() < SPARE => spare.push(memory),
                _ => slices.keep(memory),
            }
        }
        slices.go(end);
        runs.extend(slices.others());
        for run in runs.iter_mut().filter(|run| run.splits == 0) {
            if slices.waits_long(run.span.1, end) {
                slices.divide(run);
                // What there is no slice for is not divided again.
                (run.splits, run.are_far) = (PATIENCE, true);
            }
        }
        slices.take(end, due);
        runs.retain_mut(|run| {
            let splits = run.splits;
            run.take(end, due);
            if splits < PATIENCE && run.splits == PATIENCE {
                slices.divide(run);
            }
            if run.entries.is_empty() && run.entries.capacity() > 0 && spare.len() < SPARE {
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
        self.runs.iter().map(|run| &run.entries).chain(self.slices.iter()).flatten()
    }

    /// Changes all rows that wait, or drops them; not their times.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut Entry) -> bool) {
        self.slices.retain(&mut keep);
        self.runs.retain_mut(|run| {
            run.entries.retain_mut(&mut keep);
            !run.entries.is_empty()
        });
        self.rows = self.iter().count();
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        let entries = self.runs.iter().map(|run| &run.entries).chain(&self.spare);
        entries.map(|entries| entries.capacity() * size_of::<Entry>()).sum::<usize>() + self.slices.bytes()
    }
}

impl Run {
    /// No rows, in memory for some.
    pub fn new(entries: Vec<Entry>) -> Self {
        Self { entries, span: (i64::MAX, i64::MIN), splits: 0, is_sorted: false, are_far: false }
    }

    fn put(&mut self, rows: &Arrived<'_>) {
        self.entries.extend(rows.entries());
        if let Some((first, last)) = bounds(Level::best(), rows.times) {
            self.span = (self.span.0.min(first), self.span.1.max(last));
        }
    }

    /// Adds a row.
    #[inline]
    pub fn put_one(&mut self, entry: Entry) {
        self.span = (self.span.0.min(entry.time), self.span.1.max(entry.time));
        self.entries.push(entry);
        // Where others are sorted this one is not.
        self.is_sorted = false;
    }

    /// Takes the rows with a time before `end`.
    pub fn take(&mut self, end: i64, due: &mut Due) {
        if self.span.0 >= end {
            return;
        }
        if self.span.1 < end {
            due.take(&mut self.entries);
            return;
        }
        self.splits += 1;
        if self.splits >= SORTED && !self.is_sorted {
            self.entries.sort_unstable_by_key(|entry| Reverse(entry.time));
            self.is_sorted = true;
        }
        if self.is_sorted {
            let stay = self.entries.partition_point(|entry| entry.time >= end);
            due.copy(&self.entries[stay..]);
            self.entries.truncate(stay);
            self.span.0 = self.entries.last().map_or(i64::MAX, |entry| entry.time);
            return;
        }
        split(&mut self.entries, end, due);
        self.span.0 = self.entries.iter().map(|entry| entry.time).min().unwrap_or(i64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::{
        super::entry::{At, BASE},
        *,
    };

    /// The rows before a time, in order.
    fn take(waiting: &mut Waiting, end: i64, due: &mut Due) -> Vec<Entry> {
        waiting.take(end, due);
        let mut taken = Vec::new();
        due.leave(&mut taken);
        taken.sort_by(Entry::by_time);
        taken
    }

    #[test]
    fn all_that_is_due_leaves_and_nothing_else() {
        for seed in 0..8 {
            let mut random = StdRng::seed_from_u64(seed);
            let (mut waiting, mut twin, mut end, mut most) = (Waiting::default(), Vec::new(), 0, 0);
            let mut memory = Due::default();
            // Rows that come long before they are due, and time that leaps, or goes slower and slower.
            let (far, leaps) = ([0.0, 0.01][seed as usize % 2], [0.0, 0.05, 0.3][seed as usize % 3]);
            for row in 0..60_000 {
                let ahead = if random.random_bool(far) { 1_000_000_000_000 } else { 40_000 };
                let time = end + random.random_range(0..ahead);
                let at = At { batch: 0, row };
                let entry = Entry { time, position: i64::from(row), key: 0, rank: BASE, at };
                let (times, positions, keys) = (&[time], &[entry.position], &[0]);
                // One by one, or as they arrive together.
                match seed % 4 {
                    0 | 1 => waiting.put_one(entry),
                    _ => waiting.put(&Arrived { times, positions, keys, rank: BASE, at }),
                }
                twin.push(entry);
                if random.random_bool(0.005) {
                    let leap = if random.random_bool(leaps) { 1_000_000 } else { 2_000 / (1 + i64::from(row) / 6_000) };
                    end += random.random_range(0..leap);
                    let due = take(&mut waiting, end, &mut memory);
                    let (mut expected, left): (Vec<_>, Vec<_>) = twin.into_iter().partition(|entry| entry.time < end);
                    twin = left;
                    expected.sort_by(Entry::by_time);
                    assert_eq!(due, expected, "seed {seed}");
                    assert_eq!((waiting.rows(), waiting.iter().count()), (twin.len(), twin.len()));
                    most = most.max(waiting.slices.iter().count());
                }
            }
            assert!(most > 5, "some waited long");
            let due = take(&mut waiting, i64::MAX, &mut memory);
            assert_eq!((due.len(), waiting.rows()), (twin.len(), 0));
        }
    }

    #[test]
    fn rows_for_which_there_is_no_slice_wait_together_however_few_come_at_a_time() {
        let (mut waiting, mut due, delay) = (Waiting::default(), Due::default(), 1_000_000_000);
        let rows = 50 * RUN as i64;
        for time in 0..rows {
            let at = At { batch: 0, row: time as u32 };
            let (times, positions, keys) = (&[time * 1000], &[time], &[0]);
            waiting.put(&Arrived { times, positions, keys, rank: BASE, at });
            assert!(take(&mut waiting, time * 1000 - delay, &mut due).is_empty());
        }
        assert!(waiting.runs.len() <= 50, "{} runs", waiting.runs.len());
        assert!(waiting.bytes() < 2 * rows as usize * size_of::<Entry>(), "{} bytes", waiting.bytes());
        for time in 0..rows {
            let at = At { batch: 1, row: time as u32 };
            let (times, positions, keys) = (&[(rows + time) * 1000], &[rows + time], &[0]);
            waiting.put(&Arrived { times, positions, keys, rank: BASE, at });
            let taken = take(&mut waiting, (time + 1) * 1000, &mut due);
            assert_eq!(taken.iter().map(|entry| entry.time).collect::<Vec<_>>(), [time * 1000]);
        }
        assert_eq!(waiting.rows(), rows as usize);
    }

    #[test]
    fn very_many_rows_are_not_divided_again_with_each_step() {
        // Slices of a moment first, and then rows of a long time.
        for first in [0, 30 * DUE as i64] {
            let mut waiting = Waiting::default();
            let rows = 6_000 * DUE as i64;
            for time in (0..first).chain(0..rows) {
                let at = At { batch: 0, row: 0 };
                waiting.put_one(Entry { time: time * 10, position: time, key: 0, rank: BASE, at });
                if time == first / 2 && waiting.rows() < first as usize {
                    (0..20).for_each(|end| drop(take(&mut waiting, end, &mut Due::default())));
                }
            }
            let (mut reached, mut steps) = (20, 0);
            while let Some(step) = waiting.step(reached, i64::MAX) {
                let apart: usize = waiting.runs.iter().map(|run| run.entries.len()).sum();
                assert!(apart <= DUE, "{apart} rows have no slice");
                take(&mut waiting, step, &mut Due::default());
                (reached, steps) = (step, steps + 1);
            }
            assert!((100..3_000).contains(&steps), "{steps}");
        }
    }

    #[test]
    fn time_leaps_over_few_rows_at_a_time() {
        for seed in 0..40 {
            let mut random = StdRng::seed_from_u64(seed);
            let mut waiting = Waiting::default();
            let put = |waiting: &mut Waiting, row: u32, time: i64| {
                let at = At { batch: 0, row };
                waiting.put_one(Entry { time, position: 0, key: 0, rank: BASE, at });
            };
            let (mut row, mut reached) = (0, i64::MIN);
            // Time goes slowly or not at all first.
            for end in 0..[0, 40][seed as usize % 2] {
                (0..20).for_each(|_| put(&mut waiting, row, end + random.random_range(0..300)));
                drop(take(&mut waiting, end, &mut Due::default()));
                (row, reached) = (row + 20, end);
            }
            let before = waiting.rows();
            let far = [1, 1_000, 1_000_000_000][seed as usize % 3];
            (0..10 * DUE as u32)
                .for_each(|more| put(&mut waiting, row + more, reached.max(0) + random.random_range(0..far)));
            let (mut steps, mut largest) = (0, 0);
            let end = if random.random_bool(0.5) { i64::MAX } else { reached.max(0) + 2 * far + 300 };
            while reached < end {
                let step = waiting.step(reached, end).unwrap_or(end);
                assert!(step > reached && step <= end);
                let due = take(&mut waiting, step, &mut Due::default());
                assert!(due.iter().all(|entry| entry.time < step));
                (steps, largest, reached) = (steps + 1, largest.max(due.len()), step);
            }
            assert_eq!(waiting.rows(), 0);
            assert!(steps <= 200, "{steps}");
            assert!(far == 1 || largest <= before + 3 * DUE, "{far}: {largest} of {before} and more");
        }
    }
}
