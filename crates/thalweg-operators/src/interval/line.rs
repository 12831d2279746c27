//! The rows of one key, in the order of time.

use std::ops::Range;

use thalweg_core::aggregate::Amounts;
use thalweg_memory::simd::prefetch;

use super::{
    entry::{BASE, Entry},
    standing::Standing,
    totals::Running,
    walk::{EVEN, guess_back, passed, search, search_by_time},
};

/// A key's rows are moved to the front of their memory once so many before them are gone, and as many as are left; few, so that the rows
/// of many keys stay in the caches.
const GONE: usize = 16;

/// Memory for so many rows of a key is kept however few there are.
const ROOM: usize = 64;

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
    /// No rows; those of other inputs than the first have totals of their own, if `are_apart`.
    pub fn new(are_apart: bool) -> Self {
        Self { others: are_apart.then(Box::default), ..Self::default() }
    }

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

    /// Gives those that a frame may see, with what follows windows of them from batch to batch.
    pub fn follow<R>(&mut self, with_base: bool, follow: impl FnOnce(&[Entry], &mut Option<Box<Standing>>) -> R) -> R {
        let Self { entries, gone, standing, .. } = match self {
            Self { others: Some(others), .. } if !with_base => others,
            line => line,
        };
        follow(entries.get(*gone..).unwrap_or_default(), standing)
    }

    /// How many bytes of memory what follows windows takes.
    pub fn followed_bytes(&self) -> usize {
        let others = self.others.as_ref().map_or(0, |others| others.followed_bytes());
        others + self.standing.as_ref().map_or(0, |standing| standing.bytes())
    }

    /// Appends where rows, which are in their order, belong among those that are here: how many are before each. Appends nothing and returns
    /// `false` if one has the time and position of one that is here.
    pub fn find_places(&self, rows: &[Entry], places: &mut Vec<usize>) -> bool {
        let (here, times, first) = (self.rows(), self.times(), places.len());
        let mut end = here.len();
        for row in rows.iter().rev() {
            // As a rule it stands at the end, or not far from there.
            let earlier = search_by_time(&times[..end], end, row.time, |time| *time, |time| *time < row.time);
            end = earlier + search(&here[earlier..end], 0, |other| other.by_time(row).is_lt());
            if here.get(end).is_some_and(|other| other.by_time(row).is_eq()) {
                places.truncate(first);
                return false;
            }
            places.push(self.gone + end);
        }
        places[first..].reverse();
        true
    }

    /// Keeps nothing of the rows but their times and totals.
    pub fn lighten(&mut self) {
        self.entries = Vec::new();
    }

    /// Whether it has memory for rows.
    pub fn has_room(&self) -> bool {
        self.times.capacity() > 0
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
    pub fn clear(&mut self) {
        self.standing = None;
        self.entries.clear();
        self.times.clear();
        self.gone = 0;
        self.running.iter_mut().for_each(Running::clear);
        self.others.iter_mut().for_each(|others| others.clear());
    }

    /// Appends rows, with what these of some amounts add to each of so many totals.
    pub fn append(&mut self, entries: &[Entry], (totals, amounts): (usize, &[Amounts]), rows: Range<usize>) {
        self.entries.extend_from_slice(entries);
        self.times.extend(entries.iter().map(|entry| entry.time));
        self.add_up((totals, amounts), rows.clone());
        let Some(others) = &mut self.others else { return };
        for (entries, of) in of_others(entries) {
            others.append(entries, (totals, amounts), rows.start + of.start..rows.start + of.end);
        }
    }

    /// Appends rows of which only the times are kept, and what these of some amounts add to each of so many totals; all frames see the same.
    pub fn append_light(&mut self, times: &[i64], amounts: (usize, &[Amounts]), rows: Range<usize>) {
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
    pub fn insert(
        &mut self,
        entries: &[Entry],
        places: &[usize],
        totals: usize,
        amounts: &[Amounts],
        rows: Range<usize>,
    ) {
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
    pub fn take_back(&mut self, time: i64, taken: &mut Vec<Entry>) {
        let stay = self.gone + self.times().partition_point(|other| *other < time);
        taken.extend(self.entries.drain(stay..));
        self.times.truncate(stay);
        let gone = self.gone;
        self.standing.iter_mut().for_each(|standing| standing.truncate(stay - gone));
        self.running.iter_mut().for_each(|running| running.truncate(stay));
        self.others.iter_mut().for_each(|others| others.take_back(time, &mut Vec::new()));
    }

    /// The rows of its key have another number now.
    pub fn renumber(&mut self, key: u32) {
        self.entries.iter_mut().for_each(|entry| entry.key = key);
        self.others.iter_mut().for_each(|others| others.renumber(key));
    }

    /// Asks for the memory of the last rows.
    pub fn prefetch_columns(&self) {
        let last = self.times.len().saturating_sub(1);
        prefetch(self.entries.get(last..).unwrap_or_default(), 0);
        prefetch(self.times.get(last..).unwrap_or_default(), 0);
        prefetch(&self.running, 0);
    }

    /// Asks for the memory that says where a row would be that came late.
    pub fn prefetch_end(&self) {
        let times = self.times();
        let first = times.len().saturating_sub(EVEN);
        prefetch(times.get(first..=first).unwrap_or_default(), 0);
        self.prefetch_columns();
    }

    /// Asks for the memory around the place of a row that came late, if rows there are evenly spread in time.
    pub fn prefetch_place(&self, time: i64) {
        let place = self.gone + guess_back(self.times(), time, |time| *time);
        prefetch(self.times.get(place..=place).unwrap_or_default(), 0);
        prefetch(self.entries.get(place..=place).unwrap_or_default(), 0);
        self.running.iter().for_each(|running| running.prefetch(place));
    }

    /// Asks for the memory that the columns lead to.
    pub fn prefetch_totals(&self) {
        let last = self.times.len();
        self.running.iter().for_each(|running| running.prefetch(last));
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

    /// Drops so many of the first rows.
    pub fn drop_first(&mut self, count: usize) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::{entry::At, standing::Wanted};

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
