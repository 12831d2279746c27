//! The rows of each key, in the order of time.

use std::ops::Range;

use arrow_array::UInt32Array;
use thalweg_core::{KeyGroup, KeyGroups, Result, aggregate::Amounts};

use super::{
    entry::{At, Entry},
    totals::{Running, Total},
};
use crate::aggregate::groups::{Groups, KeyEncoder, Keys, Numbers};

/// A key's rows are moved to the front of their memory once so many before them are gone, and as many as are left.
const GONE: usize = 256;

/// That time passes counts as so many rows.
const PASSING: usize = 16;

/// Keys with numbers, and the rows of each, which come in the order of time and leave in it.
pub struct Lines {
    encoder: KeyEncoder,
    groups: Groups,
    lines: Vec<Line>,
    /// How many running totals each has.
    totals: usize,
    rows: usize,
    /// How many rows came since all keys were last looked at.
    grown: usize,
    /// How many bytes of memory all lines take.
    bytes: usize,
}

/// The rows of a key.
#[derive(Debug, Default)]
pub struct Line {
    entries: Vec<Entry>,
    gone: usize,
    /// Running totals over all entries.
    running: Vec<Running>,
}

impl Line {
    /// The rows that are there, in the order of time.
    pub fn rows(&self) -> &[Entry] {
        &self.entries[self.gone..]
    }

    /// Those with a time in a range of which both ends are included. The search begins where one ended that was for a time not much
    /// earlier: it takes as long as what lies between is long in figures.
    pub fn between(&self, from: i64, to: i64, near: &Range<usize>) -> Range<usize> {
        let rows = self.rows();
        let start = search(rows, near.start, |entry| entry.time < from);
        let end = search(rows, near.end.max(start), |entry| entry.time <= to);
        start..end.max(start)
    }

    /// Where a row stands, or would.
    pub fn place(&self, entry: &Entry) -> usize {
        let rows = self.rows();
        let first = rows.partition_point(|other| other.by_time(entry).is_lt());
        let mut ties = rows[first..].iter().take_while(|other| other.by_time(entry).is_eq());
        first + ties.position(|other| other.at == entry.at).unwrap_or(0)
    }

    /// What some of the rows add up to in one of the totals, if it is a number for certain.
    pub fn total(&self, number: usize, rows: &Range<usize>) -> Option<Total> {
        if rows.is_empty() {
            return Some(Total::default());
        }
        self.running[number].of(rows.start + self.gone..rows.end + self.gone)
    }

    fn bytes(&self) -> usize {
        let running: usize = self.running.iter().map(Running::bytes).sum();
        self.entries.capacity() * size_of::<Entry>() + running
    }

    fn drop_first(&mut self, count: usize) {
        self.gone += count;
        if self.gone > GONE && self.gone > self.entries.len() / 2 {
            self.entries.drain(..self.gone);
            self.running.iter_mut().for_each(|running| running.drop_first(self.gone));
            self.gone = 0;
            if self.entries.capacity() > 4 * self.entries.len().max(GONE) {
                self.entries.shrink_to(2 * self.entries.len());
            }
        }
    }
}

/// How many of the first rows are before something, looked for in steps that double from `near` on.
fn search(rows: &[Entry], near: usize, is_before: impl Fn(&Entry) -> bool) -> usize {
    let near = near.min(rows.len());
    if near > 0 && !is_before(&rows[near - 1]) {
        return rows[..near].partition_point(is_before);
    }
    let (mut low, mut step) = (near, 1);
    while low + step <= rows.len() && is_before(&rows[low + step - 1]) {
        low += step;
        step *= 2;
    }
    let high = rows.len().min(low + step);
    low + rows[low..high].partition_point(is_before)
}

impl Lines {
    /// No keys of this kind, each with so many running totals.
    pub fn new(encoder: KeyEncoder, totals: usize) -> Self {
        Self { groups: encoder.groups(), encoder, lines: Vec::new(), totals, rows: 0, grown: 0, bytes: 0 }
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
        self.lines.resize_with(self.groups.count(), Line::default);
        numbers
    }

    /// The rows of a key.
    pub fn line(&self, key: u32) -> &Line {
        &self.lines[key as usize]
    }

    /// Appends rows, which are behind all of their key that are here, with what they add to each of the totals.
    pub fn append(&mut self, entries: &[Entry], amounts: &[Amounts]) {
        let mut done = 0;
        for same in entries.chunk_by(|a, b| a.key == b.key) {
            let line = &mut self.lines[same[0].key as usize];
            self.bytes -= line.bytes();
            line.entries.extend_from_slice(same);
            let rows = done..done + same.len();
            done = rows.end;
            line.running.resize_with(self.totals, Running::default);
            line.running.iter_mut().zip(amounts).for_each(|(running, amounts)| running.append(amounts, rows.clone()));
            self.bytes += line.bytes();
        }
        self.rows += entries.len();
        self.grown += entries.len();
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

    /// Drops rows with a time before `end`, but for the last of each key before `next` that `spared` of those does not count; `gone`
    /// is told of each. Not all at once: rows of a key that gets no others stay for some time.
    pub fn expire(&mut self, end: i64, next: i64, spared: impl Fn(&[Entry]) -> usize, mut gone: impl FnMut(&Entry)) {
        // All keys are looked at once for as many rows as there were, so that it costs little for each of these; and now and then
        // where time passes and no rows come.
        self.grown += PASSING;
        if self.grown < self.rows.max(self.lines.len()) / 2 {
            return;
        }
        self.grown = 0;
        for line in &mut self.lines {
            let rows = line.rows();
            let before = |time: i64| rows.partition_point(|entry| entry.time < time);
            let old = before(end);
            let old = if old == 0 { 0 } else { old.min(spared(&rows[..before(next)])) };
            rows[..old].iter().for_each(&mut gone);
            self.rows -= old;
            self.bytes -= line.bytes();
            line.drop_first(old);
            self.bytes += line.bytes();
        }
    }

    /// Whether there are many keys without rows; `waiting` is how many rows wait that are not here.
    pub fn is_sparse(&self, waiting: usize) -> bool {
        self.lines.len() > 1024 && (self.rows + waiting) * 4 < self.lines.len()
    }

    /// Forgets keys for which `is_wanted` is not true; returns the new number of each, [`u32::MAX`] where there is none.
    pub fn forget_keys(&mut self, is_wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        let kept: Vec<u32> =
            (0..self.lines.len() as u32).filter(|key| is_wanted(*key) || !self.line(*key).rows().is_empty()).collect();
        let mut moved = vec![u32::MAX; self.lines.len()];
        let mut lines = Vec::with_capacity(kept.len());
        for (new, old) in kept.iter().enumerate() {
            moved[*old as usize] = new as u32;
            let mut line = std::mem::take(&mut self.lines[*old as usize]);
            line.entries.iter_mut().for_each(|entry| entry.key = new as u32);
            lines.push(line);
        }
        self.groups = self.groups.only(&UInt32Array::from(kept));
        self.bytes = lines.iter().map(Line::bytes).sum();
        self.lines = lines;
        moved
    }

    /// The key group of each key.
    pub fn key_groups(&self, groups: KeyGroups) -> Result<Vec<KeyGroup>> {
        let hashes = self.groups.hashes(&self.encoder)?;
        Ok(hashes.into_iter().map(|hash| groups.of(hash)).collect())
    }

    /// The key group of each key, by these of its columns.
    pub fn key_groups_by(&self, groups: KeyGroups, by: &[usize]) -> Result<Vec<KeyGroup>> {
        let hashes = self.groups.hashes_by(&self.encoder, by)?;
        Ok(hashes.into_iter().map(|hash| groups.of(hash)).collect())
    }

    /// The columns of these keys.
    pub fn columns(&self, keys: Vec<u32>) -> Result<Vec<arrow_array::ArrayRef>> {
        self.groups.columns(&self.encoder, &keys.into())
    }

    /// Drops the rows of the keys for which `is_gone` is true; `gone` is told where each lies.
    pub fn forget(&mut self, is_gone: impl Fn(u32) -> bool, mut gone: impl FnMut(At)) {
        for (key, line) in self.lines.iter_mut().enumerate().filter(|(key, _)| is_gone(*key as u32)) {
            debug_assert!(line.rows().iter().all(|entry| entry.key as usize == key));
            line.rows().iter().for_each(|entry| gone(entry.at));
            self.rows -= line.rows().len();
            self.bytes -= line.bytes();
            *line = Line::default();
        }
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        self.bytes + self.lines.capacity() * size_of::<Line>() + self.groups.size()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::entry::BASE, *};

    fn line(times: &[i64]) -> Line {
        let entry = |(row, time): (u32, &i64)| Entry {
            time: *time,
            position: i64::from(row),
            key: 0,
            rank: BASE,
            at: At { batch: 0, row },
        };
        Line { entries: (0..).zip(times).map(entry).collect(), gone: 0, running: Vec::new() }
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
}
