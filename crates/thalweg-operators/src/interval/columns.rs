//! What is known of rows that did not come together, in columns.

use std::ops::Range;

use thalweg_memory::{
    kernels::{
        bounds::{PART, bounds, bounds_of_parts},
        gather::of_rows,
    },
    simd::Level,
};

use super::entry::{Arrived, At, Entry};

/// The memory of so many rows at most stays when all leave.
const ROOM: usize = 1024;

/// Rows in the order in which they were put: what is known of each, in columns, so that who asks for times alone reads nothing else.
#[derive(Debug, Default)]
pub struct Columns {
    times: Vec<i64>,
    positions: Vec<i64>,
    keys: Vec<u32>,
    ranks: Vec<u32>,
    at: Vec<At>,
    /// Between which times each [`PART`] of them lies, while rows leave.
    parts: Vec<(i64, i64)>,
}

impl Columns {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Their event times, microseconds.
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// Where they stand among rows of equal time.
    pub fn positions(&self) -> &[i64] {
        &self.positions
    }

    /// The numbers of their keys.
    pub fn keys(&self) -> &[u32] {
        &self.keys
    }

    /// The same, to be changed.
    pub fn keys_mut(&mut self) -> &mut [u32] {
        &mut self.keys
    }

    /// Where their values lie.
    pub fn at(&self) -> &[At] {
        &self.at
    }

    /// The earliest and the latest time of those from one of them on.
    pub fn bounds_from(&self, first: usize) -> Option<(i64, i64)> {
        bounds(Level::best(), &self.times[first..])
    }

    /// How many have a time of `end` or later.
    pub fn count_from(&self, end: i64) -> usize {
        self.times.iter().filter(|time| **time >= end).count()
    }

    /// One of them.
    pub fn get(&self, row: usize) -> Entry {
        Entry {
            time: self.times[row],
            position: self.positions[row],
            key: self.keys[row],
            rank: self.ranks[row],
            at: self.at[row],
        }
    }

    /// Another one takes the place of one of them.
    pub fn set(&mut self, row: usize, entry: &Entry) {
        let Entry { time, position, key, rank, at } = *entry;
        (self.times[row], self.positions[row], self.keys[row]) = (time, position, key);
        (self.ranks[row], self.at[row]) = (rank, at);
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Entry> {
        self.some(0..self.len())
    }

    /// Some of them, one after the other.
    pub fn some(&self, rows: Range<usize>) -> impl Iterator<Item = Entry> {
        let (times, positions) = (self.times[rows.clone()].iter(), self.positions[rows.clone()].iter());
        let (keys, ranks) = (self.keys[rows.clone()].iter(), self.ranks[rows.clone()].iter());
        let known = times.zip(positions).zip(keys).zip(ranks).zip(&self.at[rows]);
        known.map(|((((time, position), key), rank), at)| Entry {
            time: *time,
            position: *position,
            key: *key,
            rank: *rank,
            at: *at,
        })
    }

    /// Puts rows as they arrive behind the others.
    pub fn put(&mut self, rows: &Arrived<'_>) {
        let count = rows.count();
        self.times.extend_from_slice(rows.times);
        self.positions.extend_from_slice(rows.positions);
        self.keys.extend_from_slice(rows.keys);
        self.ranks.resize(self.ranks.len() + count, rows.rank);
        self.at.extend((rows.at.row..rows.at.row + count as u32).map(|row| At { row, ..rows.at }));
    }

    /// Puts rows behind the others.
    pub fn put_rows(&mut self, rows: &[Entry]) {
        // A column at a time: all of a row lies together, and need not be written together.
        self.times.extend(rows.iter().map(|row| row.time));
        self.positions.extend(rows.iter().map(|row| row.position));
        self.keys.extend(rows.iter().map(|row| row.key));
        self.ranks.extend(rows.iter().map(|row| row.rank));
        self.at.extend(rows.iter().map(|row| row.at));
    }

    /// Puts some of other rows behind these.
    pub fn put_some(&mut self, others: &Self, rows: Range<usize>) {
        self.times.extend_from_slice(&others.times[rows.clone()]);
        self.positions.extend_from_slice(&others.positions[rows.clone()]);
        self.keys.extend_from_slice(&others.keys[rows.clone()]);
        self.ranks.extend_from_slice(&others.ranks[rows.clone()]);
        self.at.extend_from_slice(&others.at[rows]);
    }

    /// Those of these numbers, in this order.
    pub fn gathered(&self, rows: &[u32]) -> Self {
        let level = Level::best();
        Self {
            times: of_rows(level, &self.times, rows),
            positions: of_rows(level, &self.positions, rows),
            keys: of_rows(level, &self.keys, rows),
            ranks: of_rows(level, &self.ranks, rows),
            at: of_rows(level, &self.at, rows),
            parts: Vec::new(),
        }
    }

    /// Those before a time leave, and are given away in their order, some at a time that stand behind each other. Returns the earliest time of all.
    pub fn leave_before(&mut self, end: i64, mut give: impl FnMut(&Self, Range<usize>)) -> Option<i64> {
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        bounds_of_parts(Level::best(), &self.times, &mut parts);
        let mut stay = 0;
        for ((earliest, latest), first) in parts.iter().zip((0..).step_by(PART)) {
            let mut rest = first..self.len().min(first + PART);
            // As a rule all leave, or none does.
            if *latest < end {
                give(self, rest);
                continue;
            } else if *earliest >= end {
                stay = self.move_to(stay, rest);
                continue;
            }
            while let Some(time) = self.times[rest.clone()].first() {
                let leaves = *time < end;
                let alike = self.times[rest.clone()].iter().take_while(|time| (**time < end) == leaves).count();
                let some = rest.start..rest.start + alike;
                rest.start = some.end;
                if leaves {
                    give(self, some);
                } else {
                    stay = self.move_to(stay, some);
                }
            }
        }
        self.truncate(stay);
        let earliest = parts.iter().map(|(earliest, _)| *earliest).min();
        self.parts = parts;
        earliest
    }

    /// Moves some to an earlier place; returns where the next would go.
    fn move_to(&mut self, to: usize, rows: Range<usize>) -> usize {
        let end = to + rows.len();
        if to < rows.start {
            self.times.copy_within(rows.clone(), to);
            self.positions.copy_within(rows.clone(), to);
            self.keys.copy_within(rows.clone(), to);
            self.ranks.copy_within(rows.clone(), to);
            self.at.copy_within(rows, to);
        }
        end
    }

    /// Changes all rows, or drops them.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut Entry) -> bool) {
        let mut stay = 0;
        for row in 0..self.len() {
            let mut entry = self.get(row);
            if keep(&mut entry) {
                self.set(stay, &entry);
                stay += 1;
            }
        }
        self.truncate(stay);
    }

    /// All of them leave; where they are many, with the memory that they took.
    pub fn take(&mut self) -> Vec<Entry> {
        let all = self.iter().collect();
        self.clear();
        all
    }

    /// Forgets all of them; where they are many, with the memory that they took.
    pub fn clear(&mut self) {
        match self.len() > ROOM {
            true => *self = Self::default(),
            false => self.truncate(0),
        }
    }

    /// Only so many of the first stay.
    pub fn truncate(&mut self, rows: usize) {
        self.times.truncate(rows);
        self.positions.truncate(rows);
        self.keys.truncate(rows);
        self.ranks.truncate(rows);
        self.at.truncate(rows);
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        (self.times.capacity() + self.positions.capacity()) * size_of::<i64>()
            + (self.keys.capacity() + self.ranks.capacity()) * size_of::<u32>()
            + self.at.capacity() * size_of::<At>()
            + self.parts.capacity() * size_of::<(i64, i64)>()
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

    use super::*;

    /// So many rows, by about so much out of order.
    fn rows(random: &mut StdRng, count: u32, disorder: i64) -> Vec<Entry> {
        let mut row = |row: u32| Entry {
            time: i64::from(row) + random.random_range(0..disorder),
            position: i64::from(row) - 7,
            key: random.random_range(0..9),
            rank: random.random_range(0..3),
            at: At { batch: row / 50, row },
        };
        (0..count).map(&mut row).collect()
    }

    #[test]
    fn those_before_a_time_leave_and_both_stay_in_order() {
        for seed in 0..300 {
            let random = &mut StdRng::seed_from_u64(seed);
            let (count, disorder) = (random.random_range(0..400), *[1, 20, 500].choose(random).unwrap());
            let all = rows(random, count, disorder);
            let end = random.random_range(-5..600);
            let mut entries = Columns::default();
            entries.put_rows(&all);
            let (mut given, mut taken) = (Vec::new(), Columns::default());
            let earliest = entries.leave_before(end, |rows, some| {
                given.extend(rows.some(some.clone()));
                taken.put_some(rows, some);
            });
            let (gone, stay): (Vec<Entry>, Vec<Entry>) = all.iter().partition(|row| row.time < end);
            assert_eq!(earliest, all.iter().map(|row| row.time).min(), "seed {seed}");
            assert_eq!((&given, &taken.take()), (&gone, &gone), "seed {seed}");
            assert_eq!(entries.count_from(end), stay.len(), "seed {seed}");
            let odd: Vec<Entry> =
                stay.iter().filter(|row| row.key % 2 == 1).map(|row| Entry { key: 3, ..*row }).collect();
            assert_eq!(entries.take(), stay, "seed {seed}");
            entries.put_rows(&stay);
            entries.retain(|row| std::mem::replace(&mut row.key, 3) % 2 == 1);
            assert_eq!(entries.take(), odd, "seed {seed}");
        }
    }

    #[test]
    fn rows_are_put_as_they_arrive() {
        let (times, positions, keys) = ([5, 3, 9], [1, 2, 3], [7, 7, 8]);
        let at = At { batch: 4, row: 20 };
        let arrived = Arrived { times: &times, positions: &positions, keys: &keys, rank: 2, at };
        let mut entries = Columns::default();
        entries.put(&arrived.slice(2..3));
        entries.put(&arrived);
        assert_eq!((entries.len(), entries.bounds_from(1)), (4, Some((3, 9))));
        let expected: Vec<Entry> = arrived.slice(2..3).entries().chain(arrived.entries()).collect();
        assert_eq!(entries.iter().collect::<Vec<_>>(), expected);
        assert_eq!(
            (entries.times(), entries.keys(), entries.at()[3]),
            (&[9, 5, 3, 9][..], &[8, 7, 7, 8][..], At { batch: 4, row: 22 })
        );
    }
}
