//! The rows of each key, in the order of time.

use std::ops::Range;

use arrow_array::UInt32Array;
use thalweg_core::{Interval, KeyGroup, KeyGroups, Result, Timestamp, aggregate::Amounts};
use thalweg_memory::simd::prefetch;

use super::{
    due::Due,
    entry::{At, Entry},
    line::Line,
    standing::Standing,
    walk::RARE,
};
use crate::aggregate::groups::{Groups, KeyEncoder, Keys, Numbers};

/// So many keys ahead their memory is asked for, where there are too many for the caches: what is known of a key, then its columns, then
/// what these lead to.
const AHEAD: [usize; 3] = [24, 16, 8];

/// So few keys stay in the caches.
const FEW: usize = 4096;

/// For each key that has rows the memory of so many that have none is kept for those to come.
const SPARE: usize = 3;

/// That time passes counts as so many rows.
const PASSING: usize = 16;

/// Keys with numbers, and the rows of each, which come in the order of time and leave in it.
pub struct Lines {
    encoder: KeyEncoder,
    groups: Groups,
    lines: Vec<Line>,
    /// Memory of keys that were forgotten.
    spare: Vec<Line>,
    /// For each key and frame which rows the last row saw that looked at them.
    near: Vec<Range<usize>>,
    /// How many running totals each key has.
    totals: usize,
    /// For each frame whether it sees rows of the first input.
    frames: Vec<bool>,
    rows: usize,
    /// How many rows came since all keys were last looked at.
    grown: usize,
    /// How many bytes of memory all lines take.
    bytes: usize,
    /// Whether nothing is kept of rows but their times and totals.
    is_light: bool,
}

/// How many of some rows of a key come before those that are spared.
pub type Before<'a> = &'a dyn Fn(&[Entry]) -> usize;

impl Lines {
    /// No keys of this kind, each with so many running totals, and with frames that follow its rows, of which each sees rows of the first
    /// input or does not.
    pub fn new(encoder: KeyEncoder, totals: usize, frames: Vec<bool>) -> Self {
        let (lines, near) = (Vec::new(), Vec::new());
        let spare = Vec::new();
        Self {
            groups: encoder.groups(),
            encoder,
            lines,
            spare,
            near,
            totals,
            frames,
            rows: 0,
            grown: 0,
            bytes: 0,
            is_light: false,
        }
    }

    /// A key without rows, whose bytes are counted from now on.
    fn empty(&mut self) -> Line {
        let differ = self.frames.windows(2).any(|frames| frames[0] != frames[1]);
        let line = Line::new(differ);
        self.bytes += line.bytes();
        line
    }

    /// Takes a key's rows.
    fn take(&mut self, key: usize) -> Line {
        let empty = self.empty();
        let line = std::mem::replace(&mut self.lines[key], empty);
        self.rows -= line.count();
        self.bytes -= line.bytes();
        line
    }

    /// What brings keys into the form in which they are looked up.
    pub fn encoder(&self) -> &KeyEncoder {
        &self.encoder
    }

    /// The number of each row's key.
    pub fn number(&mut self, keys: &Keys, rows: usize) -> Vec<u32> {
        let numbers = match self.groups.number(keys, None) {
            Numbers::One(number) => vec![number; rows],
            Numbers::Each(numbers) => numbers,
        };
        while self.lines.len() < self.groups.count() {
            // The bytes of those that were forgotten are counted.
            let line = self.spare.pop().unwrap_or_else(|| self.empty());
            self.lines.push(line);
        }
        self.near.resize(self.lines.len() * self.frames.len(), 0..0);
        numbers
    }

    /// The rows of a key that one of the frames may see.
    pub fn seen(&self, key: u32, frame: usize) -> &Line {
        self.lines[key as usize].seen(self.frames[frame])
    }

    /// The rows of a key that one of the frames may see, and those that the last row saw in it, as far as they are there.
    pub fn followed(&mut self, key: u32, frame: usize) -> (&Line, &mut Range<usize>) {
        let Self { lines, near, frames, .. } = self;
        (lines[key as usize].seen(frames[frame]), &mut near[key as usize * frames.len() + frame])
    }

    /// Gives the rows of a key that one of the frames may see, with what follows windows of them from batch to batch.
    pub fn follow<R>(
        &mut self,
        key: u32,
        frame: usize,
        follow: impl FnOnce(&[Entry], &mut Option<Box<Standing>>) -> R,
    ) -> R {
        let line = &mut self.lines[key as usize];
        self.bytes -= line.followed_bytes();
        let found = line.follow(self.frames[frame], follow);
        self.bytes += line.followed_bytes();
        found
    }

    /// Asks for the memory of some of the keys that are next, by how far these are ahead.
    pub fn prefetch(&self, key: impl Fn(usize) -> Option<u32>) {
        if self.lines.len() <= FEW {
            return;
        }
        let [far, near, nearest] = AHEAD.map(|ahead| key(ahead).map(|key| key as usize));
        if let Some(far) = far {
            prefetch(&self.lines[far..=far], 0);
            let frames = self.frames.len();
            prefetch(&self.near[far * frames..][..frames], 0);
        }
        near.into_iter().for_each(|near| self.lines[near].prefetch_columns());
        nearest.into_iter().for_each(|nearest| self.lines[nearest].prefetch_totals());
    }

    /// Asks for the memory around the places of rows, if these are few beside all that are here: it is in no cache then, as a rule.
    pub fn prefetch_places(&self, rows: &[Entry]) {
        if rows.len() * RARE > self.rows {
            return;
        }
        rows.iter().for_each(|row| self.lines[row.key as usize].prefetch_end());
        rows.iter().for_each(|row| self.lines[row.key as usize].prefetch_place(row.time));
    }

    /// Appends rows of these keys and times, as [`Lines::append`] does, where nothing else is kept of rows.
    pub fn append_light(&mut self, keys: &[u32], times: &[i64], amounts: &[Amounts]) {
        let mut done = 0;
        for same in keys.chunk_by(|a, b| a == b) {
            self.prefetch(|ahead| keys.get(done + ahead).copied());
            let (line, rows) = (&mut self.lines[same[0] as usize], done..done + same.len());
            self.bytes -= line.bytes();
            line.append_light(&times[rows.clone()], (self.totals, amounts), rows);
            done += same.len();
            self.bytes += line.bytes();
        }
        self.rows += keys.len();
        self.grown += keys.len();
    }

    /// Appends rows, which are behind all of their key that are here, with what they add to each of the totals.
    pub fn append(&mut self, entries: &[Entry], amounts: &[Amounts]) {
        debug_assert!(!self.is_light, "rows are kept");
        let mut done = 0;
        for same in entries.chunk_by(|a, b| a.key == b.key) {
            self.prefetch(|ahead| entries.get(done + ahead).map(|entry| entry.key));
            let line = &mut self.lines[same[0].key as usize];
            self.bytes -= line.bytes();
            line.append(same, (self.totals, amounts), done..done + same.len());
            done += same.len();
            self.bytes += line.bytes();
        }
        self.rows += entries.len();
        self.grown += entries.len();
    }

    /// Whether all rows of its key are before a row in time.
    pub fn are_before(&self, row: &Entry) -> bool {
        self.lines[row.key as usize].times().last().is_none_or(|last| *last < row.time)
    }

    /// Appends where rows of a key, which are in their order, belong among those that are here: how many are before each. Appends nothing and
    /// returns `false` if one has the time and position of one that is here.
    pub fn find_places(&self, rows: &[Entry], places: &mut Vec<usize>) -> bool {
        rows.first().is_none_or(|row| self.lines[row.key as usize].find_places(rows, places))
    }

    /// Puts rows, which are in the order of their keys, at places that [`Lines::find_places`] found, with what they add to each of the totals.
    pub fn insert(&mut self, entries: &[Entry], places: &[usize], amounts: &[Amounts]) {
        let mut done = 0;
        for same in entries.chunk_by(|a, b| a.key == b.key) {
            let line = &mut self.lines[same[0].key as usize];
            self.bytes -= line.bytes();
            let rows = done..done + same.len();
            done = rows.end;
            line.insert(same, &places[rows.clone()], self.totals, amounts, rows);
            self.bytes += line.bytes();
        }
        self.rows += entries.len();
        self.grown += entries.len();
    }

    /// Takes the rows of a key from a time on back, so that others may be put between them.
    pub fn take_back(&mut self, key: u32, time: i64, taken: &mut Vec<Entry>) {
        let (before, line) = (taken.len(), &mut self.lines[key as usize]);
        self.bytes -= line.bytes();
        line.take_back(time, taken);
        self.bytes += line.bytes();
        // They come again, and are no more rows than there were.
        self.rows -= taken.len() - before;
        self.grown = self.grown.saturating_sub(taken.len() - before);
    }

    /// Keeps nothing but times and totals of the rows from now on, until there are none; `gone` is told where each row lies that is here.
    pub fn lighten(&mut self, mut gone: impl FnMut(&[Entry])) {
        if std::mem::replace(&mut self.is_light, true) {
            return;
        }
        for line in self.lines.iter_mut().chain(&mut self.spare) {
            self.bytes -= line.bytes();
            gone(line.rows());
            line.lighten();
            self.bytes += line.bytes();
        }
    }

    /// Whether nothing is kept of rows but their times and totals.
    pub fn is_light(&self) -> bool {
        self.is_light
    }

    /// Rows that come are kept as such, where there are none; says whether it is so then.
    pub fn keep_rows(&mut self) -> bool {
        self.is_light &= self.rows > 0;
        !self.is_light
    }

    /// Takes all rows, key by key.
    pub fn take_all(&mut self, taken: &mut Due) {
        for key in 0..self.lines.len() {
            taken.copy(self.take(key).rows());
        }
        self.near.fill(0..0);
        self.grown = 0;
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many keys have a number.
    pub fn keys(&self) -> usize {
        self.lines.len()
    }

    /// All rows, key by key.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.lines.iter().flat_map(Line::rows)
    }

    /// So many rows have come that were put elsewhere: what time has passed is dropped the sooner.
    pub fn pass(&mut self, rows: usize) {
        self.grown += rows;
    }

    /// Drops rows with a time before `end`, but for the last of each key before `next` that `spared`, if there is such, does not count of
    /// those; `gone` is told how many of each line go. Returns how much
    /// earlier than `end` the first of them was. Not all at once: rows of a key that gets no others stay for some time.
    pub fn expire(
        &mut self,
        end: i64,
        next: i64,
        spared: Option<Before<'_>>,
        mut gone: impl FnMut(&Line, usize),
    ) -> Interval {
        // All keys are looked at once for as many rows as there were, so that it costs little for each of these; and now and then
        // where time passes and no rows come.
        self.grown += PASSING;
        let mut oldest = end;
        if self.grown < self.rows.max(self.lines.len()) / 2 {
            return Interval::ZERO;
        }
        self.grown = 0;
        // What nobody needs goes bit by bit.
        for line in self.spare.drain(self.spare.len() - self.spare.len().div_ceil(8)..) {
            self.bytes -= line.bytes();
        }
        for (key, line) in self.lines.iter_mut().enumerate() {
            let times = line.times();
            let before = |limit: i64| match (times.first(), times.last()) {
                (_, Some(last)) if *last < limit => times.len(),
                (Some(first), _) if *first < limit => times.partition_point(|time| *time < limit),
                _ => 0,
            };
            let mut old = before(end);
            if let Some(spared) = spared.filter(|_| old > 0) {
                old = old.min(spared(&line.rows()[..before(next)]));
            }
            if old == 0 {
                continue;
            }
            oldest = oldest.min(times[0]);
            gone(line, old);
            for (near, with_base) in self.near[key * self.frames.len()..].iter_mut().zip(&self.frames) {
                let old = line.first(old, *with_base);
                *near = near.start.saturating_sub(old)..near.end.saturating_sub(old);
            }
            self.rows -= old;
            self.bytes -= line.bytes();
            line.drop_first(old);
            self.bytes += line.bytes();
        }
        // At the end of a stream time makes a leap.
        if Timestamp(end).is_in_range() { Interval(end.saturating_sub(oldest)) } else { Interval::ZERO }
    }

    /// Whether there are many keys without rows; `waiting` is how many rows wait that are not here.
    pub fn is_sparse(&self, waiting: usize) -> bool {
        self.lines.len() > 1024 && (self.rows + waiting) * 4 < self.lines.len()
    }

    /// Forgets keys for which `is_wanted` is not true; returns the new number of each, [`u32::MAX`] where there is none.
    pub fn forget_keys(&mut self, is_wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        let kept: Vec<u32> = (0..self.lines.len() as u32)
            .filter(|key| is_wanted(*key) || self.lines[*key as usize].count() > 0)
            .collect();
        let mut moved = vec![u32::MAX; self.lines.len()];
        let mut lines = Vec::with_capacity(kept.len());
        for (new, old) in kept.iter().enumerate() {
            moved[*old as usize] = new as u32;
            let mut line = std::mem::take(&mut self.lines[*old as usize]);
            line.renumber(new as u32);
            lines.push(line);
        }
        // Those that are kept have left nothing behind.
        let most = SPARE * lines.len();
        self.spare.extend(self.lines.drain(..).filter(Line::has_room));
        self.spare.truncate(most);
        self.spare.iter_mut().for_each(Line::clear);
        self.groups = self.groups.only(&UInt32Array::from(kept));
        self.bytes = lines.iter().chain(&self.spare).map(Line::bytes).sum();
        self.lines = lines;
        // Where rows were seen is found again.
        self.near = vec![0..0; self.lines.len() * self.frames.len()];
        moved
    }

    /// For each key, by these of its columns, the place of its key group among some; `None` if it is in none of them.
    pub fn places(&self, all: KeyGroups, by: &[usize], some: &[KeyGroup]) -> Result<Vec<Option<usize>>> {
        let mut places = vec![None; all.count()];
        some.iter().enumerate().for_each(|(place, group)| places[group.0 as usize] = Some(place));
        let hashes = self.groups.hashes_by(&self.encoder, by)?;
        Ok(hashes.into_iter().map(|hash| places[all.of(hash).0 as usize]).collect())
    }

    /// The columns of these keys.
    pub fn columns(&self, keys: Vec<u32>) -> Result<Vec<arrow_array::ArrayRef>> {
        self.groups.columns(&self.encoder, &keys.into())
    }

    /// Drops the rows of the keys for which `is_gone` is true; `gone` is told where each lies.
    pub fn forget(&mut self, is_gone: impl Fn(u32) -> bool, mut gone: impl FnMut(At)) {
        for key in (0..self.lines.len()).filter(|key| is_gone(*key as u32)) {
            let line = self.take(key);
            debug_assert!(line.rows().iter().all(|entry| entry.key as usize == key));
            line.rows().iter().for_each(|entry| gone(entry.at));
        }
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        let near = self.near.capacity() * size_of::<Range<usize>>();
        let lines = (self.lines.capacity() + self.spare.capacity()) * size_of::<Line>();
        self.bytes + lines + near + self.groups.size()
    }
}
