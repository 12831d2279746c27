//! What one thread does: it writes its index alone, and reads those of its teams.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    thread,
};

use thalweg_memory::{
    index::{self, Reader, View, Writer},
    page::shared::Padded,
};

use super::{
    super::{
        buffer::Found,
        expected::Mode,
        profile::{Times, thread_time},
        waiting::Waiting,
        workload::{Row, Workload},
    },
    schedule::{Teams, range_of},
    slide::Slide,
};

/// So many times in the time that a row is of use, rows that are of none are taken out.
const STEPS: i64 = 32;

/// Where times are taken, one base row in so many is looked at again, so often.
const SAMPLED: usize = 251;
const LOOKS: usize = 8;

/// What a joiner is handed; its probe rows carry [`tagged`] values.
pub struct Batch {
    /// Its rows of this turn.
    pub rows: Vec<Row>,
    /// Behind the turn, no row of this time or an earlier one comes.
    pub watermark: i64,
    /// Which moment it is.
    pub moment: usize,
    /// Who may have rows, as of this turn.
    pub teams: Arc<Teams>,
    /// How many probe rows each joiner has been handed, with those of this turn.
    pub handed: Arc<[u64]>,
}

/// A probe row's value with its place among the rows of both streams, which says whether a base row came before it.
pub fn tagged(number: u64, value: i64) -> i64 {
    debug_assert!(i32::try_from(value).is_ok() && u32::try_from(number).is_ok(), "both fit");
    (number << 32 | u64::from(value as u32)) as i64
}

/// What all joiners know of each other.
pub struct Shared {
    /// From which time on each needs rows.
    needed: Vec<Padded<AtomicI64>>,
    has_failed: AtomicBool,
}

impl Shared {
    /// All rows are needed.
    pub fn new(joiners: usize) -> Self {
        let needed = (0..joiners).map(|_| Padded(AtomicI64::new(i64::MIN))).collect();
        Self { needed, has_failed: AtomicBool::new(false) }
    }
}

/// Nobody waits for who has panicked.
impl Drop for Joiner<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.has_failed.store(true, Ordering::Relaxed);
        }
    }
}

/// Joins the rows that it is handed.
pub struct Joiner<'s> {
    me: usize,
    mode: Mode,
    is_incremental: bool,
    window: i64,
    step: i64,
    shared: &'s Shared,
    writer: Writer,
    readers: Vec<Reader>,
    waiting: Waiting,
    /// Base rows whose turn it is.
    due: Vec<Row>,
    slides: Vec<Slide>,
    /// The watermark of the turn before.
    settled: i64,
    next_expiry: i64,
    times: Option<Times>,
    joined: usize,
}

impl<'s> Joiner<'s> {
    /// Without rows. Takes times on the way if that is wanted, which costs some.
    pub fn new(
        (me, writer, readers): (usize, Writer, Vec<Reader>),
        shared: &'s Shared,
        workload: &Workload,
        (mode, is_incremental): (Mode, bool),
        takes_times: bool,
    ) -> Self {
        let step = ((workload.window + workload.lateness) / STEPS).max(1);
        Self {
            me,
            mode,
            is_incremental,
            window: workload.window,
            step,
            shared,
            writer,
            readers,
            waiting: Waiting::new(step),
            due: Vec::new(),
            slides: vec![Slide::default(); workload.keys.count() as usize],
            settled: i64::MIN,
            next_expiry: i64::MIN,
            times: takes_times.then(Times::default),
            joined: 0,
        }
    }

    /// Takes the rows of a turn, and gives what base rows found that do not wait, or no longer.
    pub fn take(&mut self, batch: &mut Batch, give: impl FnMut(&Row, Found)) {
        // What lies together is stored together, and found so.
        batch.rows.sort_unstable_by_key(|row| (row.key, row.time));
        let probes = batch.rows.iter().filter(|row| !row.is_base);
        let stored = |row: &Row| index::Row { key: u64::from(row.key), time: row.time, value: row.payload as u64 };
        self.writer.insert_batch(probes.map(stored));
        let bases = batch.rows.iter().filter(|row| row.is_base);
        match self.mode {
            Mode::Eager => self.due.extend(bases),
            Mode::Final => {
                bases.for_each(|row| self.waiting.push(*row));
                let due = &mut self.due;
                self.waiting.take(batch.watermark, |row| due.push(*row));
                due.sort_unstable_by_key(|row| (row.key, row.time));
            }
            Mode::Corrected => unreachable!("only Key-OIJ corrects"),
        }
        let start = self.times.map(|_| thread_time());
        let again = self.join(batch, give);
        if let (Some(start), Some(times)) = (start, &mut self.times) {
            times.joined += thread_time() - start - again.again;
            times.scanned += again.scanned;
            times.looked_up += again.looked_up;
            times.again += again.again;
        }
        self.settled = batch.watermark;
        self.expire();
    }

    /// From which time on rows may be of use: a base row that comes or waits is behind the watermark.
    fn useful(&self, watermark: i64) -> i64 {
        watermark.saturating_sub(self.window - 1)
    }

    fn join(&mut self, batch: &Batch, mut give: impl FnMut(&Row, Found)) -> Times {
        let (useful, next_useful) = (self.useful(self.settled), self.useful(batch.watermark));
        let Self { readers, shared, due, slides, mode, settled, is_incremental, window, times, joined, .. } = self;
        let views: Vec<View<'_>> = readers.iter_mut().map(Reader::pin).collect();
        let mut is_ready = vec![false; views.len()];
        let mut looked = Vec::new();
        let mut again = Times::default();
        let mut bases = due.drain(..).peekable();
        while let Some(base) = bases.next() {
            let team = &batch.teams[range_of(base.key)];
            for member in team.iter().map(|member| *member as usize) {
                if !std::mem::replace(&mut is_ready[member], true) {
                    wait(shared, &views[member], batch.handed[member]);
                }
            }
            let is_sample = times.is_some() && joined.is_multiple_of(SAMPLED);
            *joined += 1;
            let before = if *mode == Mode::Eager { base.payload as u64 } else { u64::MAX };
            let mut look_in = |from, to| {
                if is_sample {
                    looked.push((from, to));
                }
                look(&views, team, base.key, (from, to), before)
            };
            let (start, end) = (base.time - *window, base.time);
            let slide = &mut slides[base.key as usize];
            // What may come yet is looked at anew each time.
            let sure = if *mode == Mode::Eager { end.min(*settled) } else { end };
            let found = if *is_incremental {
                let mut found = slide.go(start, sure, useful, &mut look_in);
                if start.max(sure.saturating_add(1)) <= end {
                    found.add(&look_in(start.max(sure.saturating_add(1)), end));
                }
                found
            } else {
                look_in(start, end)
            };
            give(&base, found);
            if is_sample {
                look_again(&views, team, base.key, &looked, &mut again);
                looked.clear();
            }
            if *is_incremental && bases.peek().is_none_or(|next| next.key != base.key) {
                slide.trim(next_useful, |from, to| look(&views, team, base.key, (from, to), u64::MAX));
            }
        }
        again
    }

    /// Takes out what no joiner needs.
    fn expire(&mut self) {
        self.shared.needed[self.me].0.store(self.useful(self.settled), Ordering::Release);
        let needed = self.shared.needed.iter().map(|needed| needed.0.load(Ordering::Acquire)).min().unwrap_or(i64::MIN);
        if needed >= self.next_expiry {
            self.next_expiry = needed.saturating_add(self.step);
            self.writer.expire(needed);
        }
    }

    /// The times that were taken.
    pub fn times(&self) -> Option<Times> {
        self.times.map(Times::stopped)
    }
}

/// Until a member has stored what it was handed before.
fn wait(shared: &Shared, view: &View<'_>, handed: u64) {
    while view.frontier() < handed {
        assert!(!shared.has_failed.load(Ordering::Relaxed), "another joiner has failed");
        thread::yield_now();
    }
}

/// The rows of a key and a span of time at all members, of those that came before.
#[inline]
fn look(views: &[View<'_>], team: &[u32], key: u32, (from, to): (i64, i64), before: u64) -> Found {
    let mut found = Found::default();
    for member in team {
        for (_, value) in views[*member as usize].range(u64::from(key), from..=to) {
            found.visited += 1;
            if value >> 32 < before {
                found.count += 1;
                found.sum += i64::from(value as u32 as i32);
            }
        }
    }
    found
}

/// Which part of looking goes into finding the first row of each span: by looking again, with and without going on from there.
fn look_again(views: &[View<'_>], team: &[u32], key: u32, spans: &[(i64, i64)], times: &mut Times) {
    let start = thread_time();
    for _ in 0..LOOKS {
        for (from, to) in spans {
            black_box(look(views, team, key, black_box((*from, *to)), u64::MAX));
        }
    }
    let scanned = thread_time();
    for _ in 0..LOOKS {
        for (from, to) in spans {
            for member in team {
                black_box(views[*member as usize].range(u64::from(key), *from..=black_box(*to)).next());
            }
        }
    }
    let end = thread_time();
    times.scanned += scanned - start;
    times.looked_up += end - scanned;
    times.again += end - start;
}
