//! The rows of each key, in the order of time.

use std::ops::Range;

use arrow_array::UInt32Array;
use thalweg_core::{Interval, KeyGroup, KeyGroups, Result, Timestamp, aggregate::Amounts};
use thalweg_memory::simd::prefetch;

use super::{
    due::Due,
    entry::{At, BASE, Entry},
    standing::Standing,
    totals::Running,
    walk::{passed, search},
};
use crate::aggregate::groups::{Groups, KeyEncoder, Keys, Numbers};

/// A key's rows are moved to the front of their memory once so many before them are gone, and as many as are left; few, so that the rows
/// of many keys stay in the caches.
const GONE: usize = 16;

/// Memory for so many rows of a key is kept however few there are.
const ROOM: usize = 64;

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

/// The rows of a key.
#[derive(Debug, Default)]
pub struct Line {
    /// What is known of them; empty where only times and totals are kept.
    entries: Vec<Entry>,
    /// The times of all rows, beside each other for those who look for one.
    times: Vec<i64>,
    gone: usize,
    /// Running totals over all rows.
    running: Vec<Running>,
    /// Those of them that are of other inputs than the first, with totals of their own, where some frames see these alone and others all.
    others: Option<Box<Line>>,
    /// What follows windows of these rows from batch to batch, if something does or might.
    standing: Option<Box<Standing>>,
}

impl Line {
    /// The rows that are there, in the order of time; none where only their times and totals are kept.
    pub fn rows(&self) -> &[Entry] {
        self.entries.get(self.gone..).unwrap_or_default()
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.times.len() - self.gone
    }

    /// Those that a frame may see, which sees rows of the first input or does not.
    pub fn seen(&self, with_base: bool) -> &Self {
        if with_base { self } else { self.others.as_deref().unwrap_or(self) }
    }

    /// Their times.
    pub fn times(&self) -> &[i64] {
        &self.times[self.gone..]
    }

    /// Those with a time in a range of which both ends are included. The search begins where one ended that was for a time not much
    /// earlier: it takes as long as what lies between is long in figures.
    pub fn between(&self, from: i64, to: i64, near: &Range<usize>) -> Range<usize> {
        let times = self.times();
        let start = search(times, near.start, |time| *time < from);
        let end = search(times, near.end.max(start), |time| *time <= to);
        start..end.max(start)
    }

    /// Appends for each of some times, which ascend, how many rows are earlier; does so for two lists of them, of as many times. `near` is
    /// what it was for times not much before the first: each row behind that is looked at once, or, where times are few, some of them.
    pub fn passed(&self, limits: [&[i64]; 2], near: [usize; 2], found: [&mut Vec<usize>; 2]) {
        passed(self.times(), limits, near, found);
    }

    /// Where a row stands, or would; looked for from `near` on.
    pub fn place(&self, entry: &Entry, near: usize) -> usize {
        let rows = self.rows();
        let first = search(rows, near, |other| other.by_time(entry).is_lt());
        let mut ties = rows[first..].iter().take_while(|other| other.by_time(entry).is_eq());
        first + ties.position(|other| other.at == entry.at).unwrap_or(0)
    }

    /// One of the running totals, and how many rows before the first are in it; `None` if no row has come yet.
    pub fn running(&self, number: usize) -> Option<(&Running, usize)> {
        Some((self.running.get(number)?, self.gone))
    }

    /// Begins anew with rows of these times, of which nothing else is known but what they add to each of the totals.
    pub fn fill(&mut self, times: impl Iterator<Item = i64>, amounts: &[Amounts]) {
        self.clear();
        self.times.extend(times);
        self.running.resize_with(amounts.len(), Running::default);
        self.running
            .iter_mut()
            .zip(amounts)
            .for_each(|(running, amounts)| running.append(amounts, 0..self.times.len()));
    }

    /// Drops all rows, and keeps their memory.
    fn clear(&mut self) {
        self.standing = None;
        self.entries.clear();
        self.times.clear();
        self.gone = 0;
        self.running.iter_mut().for_each(Running::clear);
        self.others.iter_mut().for_each(|others| others.clear());
    }

    /// Appends rows, with what these of some amounts add to each of so many totals.
    fn append(&mut self, entries: &[Entry], (totals, amounts): (usize, &[Amounts]), rows: Range<usize>) {
        self.entries.extend_from_slice(entries);
        self.times.extend(entries.iter().map(|entry| entry.time));
        self.add_up((totals, amounts), rows.clone());
        let Some(others) = &mut self.others else { return };
        for (entries, of) in of_others(entries) {
            others.append(entries, (totals, amounts), rows.start + of.start..rows.start + of.end);
        }
    }

    /// Appends rows of which only the times are kept, and what these of some amounts add to each of so many totals; all frames see the same.
    fn append_light(&mut self, times: &[i64], amounts: (usize, &[Amounts]), rows: Range<usize>) {
        debug_assert!(self.entries.is_empty() && self.others.is_none(), "nothing else is kept of rows");
        self.times.extend_from_slice(times);
        self.add_up(amounts, rows);
    }

    /// Appends to each of so many totals what these rows of some amounts add.
    fn add_up(&mut self, (totals, amounts): (usize, &[Amounts]), rows: Range<usize>) {
        if self.running.len() < totals {
            self.running.resize_with(totals, Running::default);
        }
        self.running.iter_mut().zip(amounts).for_each(|(running, amounts)| running.append(amounts, rows.clone()));
    }

    /// Puts rows between others, so many of which are before each.
    fn insert(&mut self, entries: &[Entry], places: &[usize], totals: usize, amounts: &[Amounts], rows: Range<usize>) {
        if self.running.len() < totals {
            self.running.resize_with(totals, Running::default);
        }
        let gone = self.gone;
        self.standing.iter_mut().for_each(|standing| standing.insert(places.iter().map(|place| place - gone)));
        put_between(&mut self.entries, entries.iter().copied(), places);
        put_between(&mut self.times, entries.iter().map(|entry| entry.time), places);
        let all = self.running.iter_mut().zip(amounts);
        all.for_each(|(running, amounts)| running.insert(amounts, rows.clone(), places));
        let Some(others) = &mut self.others else { return };
        for (entries, of) in of_others(entries) {
            let here = others.rows();
            let place = |entry: &Entry| others.gone + search(here, here.len(), |other| other.by_time(entry).is_lt());
            let places: Vec<usize> = entries.iter().map(place).collect();
            others.insert(entries, &places, totals, amounts, rows.start + of.start..rows.start + of.end);
        }
    }

    /// Takes the rows from a time on back.
    fn take_back(&mut self, time: i64, taken: &mut Vec<Entry>) {
        let stay = self.gone + self.times().partition_point(|other| *other < time);
        taken.extend(self.entries.drain(stay..));
        self.times.truncate(stay);
        let gone = self.gone;
        self.standing.iter_mut().for_each(|standing| standing.truncate(stay - gone));
        self.running.iter_mut().for_each(|running| running.truncate(stay));
        self.others.iter_mut().for_each(|others| others.take_back(time, &mut Vec::new()));
    }

    /// The rows of its key have another number now.
    fn renumber(&mut self, key: u32) {
        self.entries.iter_mut().for_each(|entry| entry.key = key);
        self.others.iter_mut().for_each(|others| others.renumber(key));
    }

    /// Asks for the memory of the last rows.
    fn prefetch_columns(&self) {
        let last = self.times.len().saturating_sub(1);
        prefetch(self.entries.get(last..).unwrap_or_default(), 0);
        prefetch(self.times.get(last..).unwrap_or_default(), 0);
        prefetch(&self.running, 0);
    }

    /// How many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        let running: usize = self.running.iter().map(Running::bytes).sum();
        let others = self.others.as_ref().map_or(0, |others| size_of::<Self>() + others.bytes());
        let beside = others + self.standing.as_ref().map_or(0, |standing| standing.bytes());
        self.entries.capacity() * size_of::<Entry>() + self.times.capacity() * size_of::<i64>() + running + beside
    }

    /// How many of its first rows a frame may see, which sees rows of the first input or does not.
    pub fn first(&self, count: usize, with_base: bool) -> usize {
        match self.others {
            Some(_) if !with_base => self.rows()[..count].iter().filter(|entry| entry.rank != BASE).count(),
            _ => count,
        }
    }

    fn drop_first(&mut self, count: usize) {
        let of_others = self.first(count, false);
        self.others.iter_mut().for_each(|others| others.drop_first(of_others));
        self.standing.iter_mut().for_each(|standing| standing.drop_first(count));
        self.gone += count;
        if self.gone == self.times.len() || self.gone > GONE && self.gone > self.times.len() / 2 {
            self.entries.drain(..self.gone.min(self.entries.len()));
            self.times.drain(..self.gone);
            self.running.iter_mut().for_each(|running| running.drop_first(self.gone));
            self.gone = 0;
            let room = self.times.len().max(ROOM);
            if self.times.capacity() > 4 * room {
                self.entries.shrink_to(2 * room);
                self.times.shrink_to(2 * room);
            }
        }
    }
}

/// The rows of other inputs than the first, those that follow each other, and where they are.
fn of_others(entries: &[Entry]) -> impl Iterator<Item = (&[Entry], Range<usize>)> {
    let mut end = 0;
    let runs = entries.chunk_by(|a, b| (a.rank == BASE) == (b.rank == BASE)).map(move |run| {
        end += run.len();
        (run, end - run.len()..end)
    });
    runs.filter(|(run, _)| run[0].rank != BASE)
}

/// Puts some between others: each where so many of those that are there are before it. Those behind are moved once.
fn put_between<T: Copy>(
    all: &mut Vec<T>,
    some: impl ExactSizeIterator<Item = T> + DoubleEndedIterator + Clone,
    places: &[usize],
) {
    let mut end = all.len();
    all.extend(some.clone());
    for (number, (one, place)) in some.zip(places).enumerate().rev() {
        all.copy_within(*place..end, place + number + 1);
        all[place + number] = one;
        end = *place;
    }
}

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
        let line = Line { others: differ.then(Box::default), ..Line::default() };
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
        let line = match &mut self.lines[key as usize] {
            Line { others: Some(others), .. } if !self.frames[frame] => others,
            line => line,
        };
        let bytes = |line: &Line| line.standing.as_ref().map_or(0, |standing| standing.bytes());
        let before = bytes(line);
        let found = follow(line.entries.get(line.gone..).unwrap_or_default(), &mut line.standing);
        self.bytes = self.bytes + bytes(line) - before;
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
        nearest.into_iter().for_each(|nearest| self.lines[nearest].running.iter().for_each(Running::prefetch));
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
        let Some(line) = rows.first().map(|row| &self.lines[row.key as usize]) else { return true };
        let (here, first) = (line.rows(), places.len());
        let mut end = here.len();
        for row in rows.iter().rev() {
            // As a rule it stands at the end, or not far from there.
            end = search(&here[..end], end, |other| other.by_time(row).is_lt());
            if here.get(end).is_some_and(|other| other.by_time(row).is_eq()) {
                places.truncate(first);
                return false;
            }
            places.push(line.gone + end);
        }
        places[first..].reverse();
        true
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
            line.entries = Vec::new();
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
        self.spare.extend(self.lines.drain(..).filter(|line| line.times.capacity() > 0));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::standing::Wanted;

    fn line(times: &[i64]) -> Line {
        let entry = |(row, time): (u32, &i64)| Entry {
            time: *time,
            position: i64::from(row),
            key: 0,
            rank: BASE,
            at: At { batch: 0, row },
        };
        let entries = (0..).zip(times).map(entry).collect();
        Line { entries, times: times.to_vec(), ..Line::default() }
    }

    #[test]
    fn a_range_of_time_is_found_from_anywhere() {
        let times: Vec<i64> = (0..500).map(|i| i / 3 * 7).collect();
        let mut line = line(&times);
        line.drop_first(5);
        let rows: Vec<i64> = line.rows().iter().map(|entry| entry.time).collect();
        for (from, to) in [(-5, -1), (0, 0), (7, 7), (8, 13), (70, 900), (0, 5000), (2000, 3000), (50, 20)] {
            let start = rows.iter().filter(|time| **time < from).count();
            let end = rows.iter().filter(|time| **time <= to).count().max(start);
            for near in [0..0, 3..9, 100..200, 400..495, 600..600] {
                assert_eq!(line.between(from, to, &near), start..end, "{from} to {to} near {near:?}");
            }
        }
    }

    #[test]
    fn what_follows_windows_of_a_key_goes_with_its_rows() {
        let mut line = line(&[1, 2, 3]);
        let wanted = Wanted { starts: &[0], ends: &[3], anew: 1_000, moves: true };
        assert!(Standing::choose(&mut line.standing, 0, wanted, 3));
        line.clear();
        assert!(line.standing.is_none(), "its memory is for another key");
    }

    #[test]
    fn it_is_found_how_many_rows_are_earlier_than_times_that_ascend() {
        let mut line = line(&(0..500).map(|i| i / 3 * 7).collect::<Vec<_>>());
        line.drop_first(5);
        let rows: Vec<i64> = line.rows().iter().map(|entry| entry.time).collect();
        for (first, step, count) in [(-9, 1, 3000), (0, 100, 4), (70, 7, 100), (600, 900, 3), (5000, 0, 2), (3, 3, 0)] {
            let limits: Vec<i64> = (0..count).map(|i| first + i * step).collect();
            let later: Vec<i64> = limits.iter().map(|limit| limit + 90).collect();
            let [expected, expected_later] = [&limits, &later].map(|limits| {
                let earlier = limits.iter().map(|limit| rows.iter().filter(|time| *time < limit).count());
                [77].into_iter().chain(earlier).collect::<Vec<_>>()
            });
            for near in [[0, 0], [9, 3], [200, 300], [495, 0], [600, 600]] {
                let (mut found, mut found_later) = (vec![77], vec![77]);
                line.passed([&limits, &later], near, [&mut found, &mut found_later]);
                assert_eq!(found, expected, "{count} times from {first} by {step} near {near:?}");
                assert_eq!(found_later, expected_later, "{count} times from {first} by {step} near {near:?}");
            }
        }
    }
}
