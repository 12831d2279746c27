//! What a sender sent, of which rows wait.

use std::{collections::VecDeque, sync::Arc};

use thalweg_core::{Batch, Positions, Timestamp};

use super::{
    ordered::Woven,
    words::{NONE, word},
};

/// What a sender sent.
#[derive(Debug, Default)]
pub struct Sender {
    /// Its batches, of which rows wait.
    pub waiting: VecDeque<Waiting>,
    /// How many rows of the first batch have left.
    pub done: usize,
    /// Its first row, if it has one and that was looked for.
    pub head: Option<Head>,
    /// The number of its first batch among those that leave now.
    pub entered: Option<u32>,
    /// Whether rows do not wait for it.
    pub is_passed_over: bool,
    /// The words of the selected rows of its first batch, once they are asked for.
    pub words: Vec<u128>,
}

/// A batch of which rows wait.
#[derive(Debug)]
pub struct Waiting {
    /// The batch.
    pub batch: Batch,
    /// Where its rows stand.
    pub positions: Arc<Positions>,
    /// When what caused it arrived.
    pub arrived: u64,
    /// How many bytes of memory it takes.
    pub bytes: usize,
    /// How many rows are selected.
    pub rows: usize,
}

/// A sender's first row, with what decides most comparisons.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// The end and the start of its window.
    pub window: (Timestamp, Timestamp),
    /// The first bytes of the key.
    pub prefix: u64,
    /// The physical row.
    pub row: usize,
    /// When the window is over.
    pub over: Timestamp,
}

impl Sender {
    /// Its first batch.
    pub fn first(&self) -> Option<&Waiting> {
        self.waiting.front()
    }

    /// Where its first row stands.
    pub fn place(&self) -> Option<(&Positions, usize)> {
        Some((self.first()?.positions.as_ref(), self.head?.row))
    }

    /// The times of the rows of its first batch that have not left; `None` as [`Waiting::times`].
    pub fn times(&self) -> Option<&[i64]> {
        match self.first() {
            Some(first) => Some(&first.times()?[self.done..]),
            None => Some(&[]),
        }
    }

    /// Where the next row stands; other than [`Self::place`], also before that is looked for.
    pub fn next_place(&self) -> Option<(&Positions, usize)> {
        self.first().map(|first| (first.positions.as_ref(), first.physical(self.done)))
    }

    /// The word of its next row, [`NONE`] if it has none; `None` if that has no word.
    pub fn word(&mut self) -> Option<u128> {
        let Some(first) = self.waiting.front() else { return Some(NONE) };
        if self.words.is_empty() {
            let times = first.positions.times()?;
            let word = |row: usize| word(times[row], first.positions.key(row).prefix());
            self.words.extend((0..first.rows).map(|number| word(first.physical(number))));
        }
        self.words.get(self.done).copied()
    }

    /// Its next row is put to those that leave together; returns the word of the one behind it, as [`Self::word`] does.
    #[inline]
    pub fn leave(&mut self, woven: &mut Woven, bytes: &mut usize) -> Option<u128> {
        let row = self.waiting.front()?.physical(self.done);
        self.mix(row, woven);
        self.done += 1;
        if let Some(word) = self.words.get(self.done) {
            return Some(*word);
        }
        *bytes -= self.waiting.pop_front()?.bytes;
        (self.done, self.entered) = (0, None);
        self.words.clear();
        self.word()
    }

    /// Finds its first row after some have left; returns how many bytes of memory nobody needs any more.
    #[inline]
    pub fn go_on(&mut self) -> usize {
        let mut bytes = 0;
        if self.first().is_some_and(|first| self.done == first.rows) {
            bytes = self.waiting.pop_front().map_or(0, |first| first.bytes);
            (self.done, self.entered) = (0, None);
            self.words.clear();
        }
        self.find_head();
        bytes
    }

    /// Finds its first row.
    #[inline]
    pub fn find_head(&mut self) {
        self.head = self.first().map(|first| {
            let row = first.physical(self.done);
            let (window, over) = (first.positions.window(row), first.positions.over(row));
            Head { window: (window.end, window.start), prefix: first.positions.key(row).prefix(), row, over }
        });
    }

    /// Adds a physical row of its first batch to those that are copied.
    #[inline]
    pub fn mix(&mut self, row: usize, woven: &mut Woven) {
        if let Some(batch) = self.enter(woven) {
            woven.mixed.push(batch, row);
        }
    }

    /// The number of its first batch among those that leave now.
    #[inline]
    pub fn enter(&mut self, Woven { mixed, arrived, .. }: &mut Woven) -> Option<u32> {
        let first = self.waiting.front()?;
        Some(*self.entered.get_or_insert_with(|| {
            *arrived = Some(arrived.unwrap_or(u64::MAX).min(first.arrived));
            mixed.enter(&first.batch)
        }))
    }
}

impl Waiting {
    /// How many rows from this one on are of windows that are over at `until`; the first of them is.
    pub fn ready(&self, done: usize, until: Timestamp) -> usize {
        let left = self.rows - done;
        let is_ready = |number: usize| self.positions.over(self.physical(done + number)) <= until;
        if self.positions.is_of_one_window() || is_ready(left - 1) {
            return left;
        }
        let (mut ready, mut waits) = (0, left - 1);
        while waits - ready > 1 {
            let middle = ready + (waits - ready) / 2;
            if is_ready(middle) { ready = middle } else { waits = middle }
        }
        ready + 1
    }

    /// The times of all rows, where these are in the order of time, and none is left out.
    pub fn times(&self) -> Option<&[i64]> {
        self.positions.times().filter(|_| self.batch.selection().is_none())
    }

    /// The physical row of a selected one.
    #[inline]
    pub fn physical(&self, number: usize) -> usize {
        self.batch.selection().map_or(number, |selection| selection.rows()[number] as usize)
    }
}
