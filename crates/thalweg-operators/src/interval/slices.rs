//! Rows that wait for long, by slices of time: one or two of these are due at a time.

use std::collections::VecDeque;

use thalweg_core::Timestamp;

use super::{entry::Entry, waiting::Run};

/// There are no more slices than this; rows of later times wait as they came.
const MOST: usize = 1024;

/// The memory of so many slices stays for those to come.
const SPARE: usize = 4;

/// Where time goes so many times as far at once as a slice is long, or a slice is so many times as long, they get another length.
const UNLIKE: i64 = 8;

/// Slices of one length, one after the other.
#[derive(Debug, Default)]
pub struct Slices {
    slices: VecDeque<Run>,
    /// The number of the first one, and how long each is.
    first: i64,
    width: i64,
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
        let is_unlike = self.step / UNLIKE > self.width || self.width / UNLIKE > self.step;
        if is_unlike && !self.slices.is_empty() {
            for mut slice in std::mem::take(&mut self.slices) {
                self.divide(&mut slice);
                if !slice.entries.is_empty() {
                    self.others.push(slice);
                }
            }
        }
    }

    /// Takes rows, but for those that are due so late that there is no slice for them.
    pub fn divide(&mut self, run: &mut Run) {
        let Self { slices, first, width, step, spare, .. } = self;
        let Some(entry) = run.entries.first() else { return };
        if slices.is_empty() {
            *width = (*step).max(1);
            *first = entry.time.div_euclid(*width);
        }
        let mut next = || Run::new(spare.pop().unwrap_or_default());
        let mut span = (i64::MAX, i64::MIN);
        run.entries.retain(|entry| {
            let slice = entry.time.div_euclid(*width);
            let (before, place) = (first.saturating_sub(slice).max(0), slice.saturating_sub(*first).max(0));
            if place >= MOST as i64 || before.saturating_add(slices.len() as i64) > MOST as i64 {
                span = (span.0.min(entry.time), span.1.max(entry.time));
                return true;
            }
            (0..before).for_each(|_| slices.push_front(next()));
            *first -= before;
            while slices.len() <= place as usize {
                slices.push_back(next());
            }
            slices[place as usize].put_one(*entry);
            false
        });
        run.span = span;
    }

    /// Takes the rows with a time before `end`.
    pub fn take(&mut self, end: i64, due: &mut Vec<Entry>) {
        let Self { slices, first, width, spare, .. } = self;
        let count = end.div_euclid((*width).max(1)).saturating_sub(*first).saturating_add(1);
        let count = usize::try_from(count).unwrap_or(0).min(slices.len());
        slices.iter_mut().take(count).for_each(|slice| slice.take(end, due));
        while slices.front().is_some_and(|slice| slice.entries.is_empty()) {
            *first += 1;
            spare.extend(slices.pop_front().map(|slice| slice.entries).filter(|_| spare.len() < SPARE));
        }
    }

    /// Rows that wait as they came from now on.
    pub fn others(&mut self) -> impl Iterator<Item = Run> {
        self.others.drain(..)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.slices.iter()
    }

    /// Changes all rows, or drops them; not their times.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut Entry) -> bool) {
        self.slices.iter_mut().for_each(|slice| slice.entries.retain_mut(&mut keep));
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        let entries = self.slices.iter().map(|slice| &slice.entries).chain(&self.spare);
        let rows: usize = entries.map(|entries| entries.capacity() * size_of::<Entry>()).sum();
        rows + self.slices.capacity() * size_of::<Run>()
    }
}
