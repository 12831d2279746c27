//! Rows that wait for long, by slices of time: one or two of these are due at a time.

use std::collections::VecDeque;

use thalweg_core::Timestamp;
use thalweg_memory::simd::prefetch;

use super::{due::Due, entry::Entry, waiting::Run};

/// There are no more slices than this; rows of later times wait as they came.
const MOST: usize = 4096;

/// The memory of so many slices stays for those to come.
const SPARE: usize = 16;

/// The memory of a row so many rows ahead is asked for.
const AHEAD: usize = 2;

/// Time goes over so many slices at once, at least, so that few rows are looked at before they are due.
const PARTS: i64 = 4;

/// Where time goes so many times as far as it did when slices got their length, or this is so many times as far, they get another.
const UNLIKE: i64 = 8;

/// Rows wait for long if time has to go on so many times.
const LONG: i64 = 4;

/// Moves the rows with a time before `end`: those at the beginning that all are, and others among the rest up to where all stay. Nobody could
/// foretell a branch in between.
pub fn split(rows: &mut Vec<Entry>, end: i64, due: &mut Due) {
    let first = rows.iter().position(|entry| entry.time >= end).unwrap_or(rows.len());
    let last = rows.iter().rposition(|entry| entry.time < end).map_or(first, |last| (last + 1).max(first));
    let mut stay = first;
    for row in first..last {
        let entry = rows[row];
        (rows[row], rows[stay]) = (rows[stay], entry);
        stay += usize::from(entry.time >= end);
    }
    due.copy(&rows[..first]);
    due.copy(&rows[stay..last]);
    rows.drain(stay..last);
    rows.drain(..first);
}

/// Slices of one length, one after the other.
#[derive(Debug, Default)]
pub struct Slices {
    slices: VecDeque<Vec<Entry>>,
    /// The number of the first one, and how long each is, as a power of two.
    first: i64,
    width: u32,
    /// How far time has come, and how far it goes at once, about.
    reached: Option<i64>,
    step: i64,
    /// Rows that do not fit any more since slices are shorter.
    others: Vec<Run>,
    spare: Vec<Vec<Entry>>,
}

impl Slices {
    /// Time has come so far.
    pub fn go(&mut self, end: i64) {
        let reached = self.reached.replace(end).filter(|reached| Timestamp(*reached).is_in_range());
        let step = reached.map_or(0, |reached| end.saturating_sub(reached));
        if step <= 0 {
            return;
        }
        // A gap is no pace.
        self.step = match self.step {
            0 => step,
            last => (last / 4 * 3 + step.min(last.saturating_mul(UNLIKE)) / 4).max(1),
        };
        self.fit(false);
    }

    /// Time goes over rows between these times in so many steps from now on, or in fewer where there were too many slices.
    pub fn pace(&mut self, (first, last): (i64, i64), steps: usize) {
        let span = last.abs_diff(first);
        let step = (span / steps.max(1) as u64).max(span / (MOST as u64 / (4 * PARTS as u64)));
        self.step = i64::try_from(step).unwrap_or(i64::MAX).clamp(1, i64::MAX / UNLIKE);
        self.fit((last >> self.width).saturating_sub(self.first) >= MOST as i64);
    }

    /// Slices get another length, if theirs is unlike the one that they should have, or they do not reach; rows that do not fit then are
    /// others.
    fn fit(&mut self, are_short: bool) {
        let width = (1_i64 << self.width).saturating_mul(PARTS);
        let is_unlike = self.step / UNLIKE > width || width / UNLIKE > self.step.max(PARTS);
        if (is_unlike || are_short) && !self.slices.is_empty() {
            for slice in std::mem::take(&mut self.slices) {
                let mut run = Run::new(Vec::new());
                slice.into_iter().for_each(|entry| run.put_one(entry));
                self.divide(&mut run);
                if !run.entries.is_empty() {
                    self.others.push(run);
                }
            }
        }
    }

    /// Whether the last of some rows, one of this time, waits for long once time has come to `end`.
    pub fn waits_long(&self, time: i64, end: i64) -> bool {
        self.step > 0 && time.saturating_sub(end) > self.step.saturating_mul(LONG)
    }

    /// Whether rows that wait for long are here.
    pub fn are_some(&self) -> bool {
        !self.slices.is_empty()
    }

    /// Whether the last of some rows, one of this time, waits for long from now on, and others that do are here.
    pub fn wait_long(&self, time: i64) -> bool {
        self.are_some() && self.reached.is_some_and(|reached| self.waits_long(time, reached))
    }

    /// Takes rows, but for those that are due so late that there is no slice for them.
    pub fn divide(&mut self, run: &mut Run) {
        let mut others = Run::new(Vec::new());
        self.put(run.entries.iter().copied(), run.span, &mut others);
        run.entries.clear();
        run.entries.append(&mut others.entries);
        run.span = others.span;
    }

    /// The same for rows from the earliest to the latest time of a span, which need not be the first and the last.
    pub fn put(&mut self, rows: impl Iterator<Item = Entry>, span: (i64, i64), others: &mut Run) {
        let Self { slices, first, width, step, spare, .. } = self;
        if slices.is_empty() {
            *width = (*step / PARTS).max(1).ilog2();
            *first = span.0 >> *width;
        }
        // Those before the first slice come first, which is then where they are.
        let earliest = (span.0 >> *width).min(*first);
        if first.saturating_sub(earliest).saturating_add(slices.len() as i64) <= MOST as i64 {
            (earliest..*first).for_each(|_| slices.push_front(spare.pop().unwrap_or_default()));
            *first = earliest;
        }
        let has_slice = *first..first.saturating_add(MOST as i64);
        let last = has_slice.end.min((span.1 >> *width).saturating_add(1));
        while first.saturating_add(slices.len() as i64) < last {
            slices.push_back(spare.pop().unwrap_or_default());
        }
        let (slices, first, width) = (slices.make_contiguous(), *first, *width);
        for entry in rows {
            // One before the first slice has a very large number.
            match slices.get_mut((entry.time >> width).wrapping_sub(first) as usize) {
                Some(slice) => {
                    slice.push(entry);
                    // A slice gets its next row after others have got theirs: by then it has left the nearer caches.
                    prefetch(slice.spare_capacity_mut().get(AHEAD..=AHEAD).unwrap_or_default(), 0);
                }
                None => others.put_one(entry),
            }
        }
    }

    /// Takes the rows with a time before `end`.
    pub fn take(&mut self, end: i64, due: &mut Due) {
        while self.first < end >> self.width
            && let Some(mut slice) = self.slices.pop_front()
        {
            due.take(&mut slice);
            self.keep(slice);
            self.first += 1;
        }
        if let Some(slice) = self.slices.front_mut().filter(|_| self.first == end >> self.width) {
            split(slice, end, due);
        }
    }

    /// Takes memory for rows to come.
    pub fn keep(&mut self, memory: Vec<Entry>) {
        if memory.capacity() > 0 && self.spare.len() < SPARE {
            self.spare.push(memory);
        }
    }

    /// The time by which so many rows are due, or all that are here: where a slice ends.
    pub fn end_of(&self, rows: usize) -> i64 {
        let mut count = 0;
        let before = self.slices.iter().position(|slice| {
            count += slice.len();
            count >= rows
        });
        let end = |slice: usize| i128::from(self.first + slice as i64 + 1) << self.width;
        before.map_or(i64::MAX, |slice| i64::try_from(end(slice)).unwrap_or(i64::MAX))
    }

    /// Rows that wait as they came from now on.
    pub fn others(&mut self) -> impl Iterator<Item = Run> {
        self.others.drain(..)
    }

    /// The rows of each.
    pub fn iter(&self) -> impl Iterator<Item = &Vec<Entry>> {
        self.slices.iter()
    }

    /// Changes all rows, or drops them; not their times.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut Entry) -> bool) {
        self.slices.iter_mut().for_each(|slice| slice.retain_mut(&mut keep));
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        let rows: usize = self.slices.iter().chain(&self.spare).map(|rows| rows.capacity() * size_of::<Entry>()).sum();
        rows + self.slices.capacity() * size_of::<Vec<Entry>>()
    }
}
