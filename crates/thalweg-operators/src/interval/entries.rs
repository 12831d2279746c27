//! What is known of many rows that are kept.

use std::ops::Range;

use arrow_buffer::ScalarBuffer;
use thalweg_memory::{
    kernels::bounds::{PART, bounds_of_parts},
    simd::Level,
};

use super::{
    columns::Columns,
    entry::{Arrived, At, Entry},
    input::{Arrivals, Times},
    kept::Run,
};

/// Fewer rows than this do not stay together, nor do fewer than one in so many of those for which their memory is.
const TOGETHER: usize = if cfg!(test) { 4 } else { 256 };
const SHARE: usize = 4;

/// Rows that arrived together and lie behind each other: what is known of each, in memory that is for them alone; where they came in such, it is
/// that.
#[derive(Clone, Debug)]
pub struct Piece {
    times: ScalarBuffer<i64>,
    positions: ScalarBuffer<i64>,
    keys: ScalarBuffer<u32>,
    rank: u32,
    at: At,
    /// The earliest and the latest of the times.
    bounds: (i64, i64),
    memory: Memory,
}

/// The memory in which rows lie.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// For how many rows it is.
    pub rows: usize,
    /// Whether positions are there as well.
    pub has_positions: bool,
}

impl Memory {
    fn bytes(self) -> usize {
        let position = if self.has_positions { size_of::<i64>() } else { 0 };
        self.rows * (size_of::<i64>() + size_of::<u32>() + position)
    }
}

impl Piece {
    /// These rows, if there are any: their times, positions and the numbers of their keys; the rank of all of them, and where the values of the
    /// first lie. Nobody else waits for this memory.
    pub fn new(
        Arrivals { times: Times { values, bounds }, positions }: Arrivals,
        keys: ScalarBuffer<u32>,
        (rank, at): (u32, At),
        memory: Memory,
    ) -> Option<Self> {
        Some(Self { times: values, positions, keys, rank, at, bounds: bounds?, memory })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.times.len()
    }

    /// The earliest and the latest of their times.
    pub fn bounds(&self) -> (i64, i64) {
        self.bounds
    }

    /// Where their values lie.
    pub fn place(&self) -> Run {
        Run { first: self.at, rows: self.count() }
    }

    /// What is known of them.
    pub fn rows(&self) -> Arrived<'_> {
        let Self { times, positions, keys, rank, at, .. } = self;
        Arrived { times, positions, keys, rank: *rank, at: *at }
    }

    /// Some of them, between these times.
    fn part(&self, rows: Range<usize>, bounds: (i64, i64)) -> Self {
        Self {
            times: self.times.slice(rows.start, rows.len()),
            positions: self.positions.slice(rows.start, rows.len()),
            keys: self.keys.slice(rows.start, rows.len()),
            at: At { row: self.at.row + rows.start as u32, ..self.at },
            bounds,
            ..*self
        }
    }

    /// Whether so many of them may stay together.
    fn may_stay(&self, rows: usize) -> bool {
        rows >= TOGETHER && rows >= self.memory.rows / SHARE
    }
}

/// Rows that are kept: those that came together and have not been parted since, and others.
///
/// ```text
/// pieces   [ times ][ times ][ times ]      as they came, each with its bounds
/// others   times of single rows             where few came, or stay where time divides a piece
/// ```
#[derive(Debug, Default)]
pub struct Entries {
    others: Columns,
    pieces: Vec<Piece>,
    /// How many rows the pieces have.
    together: usize,
    /// Others that leave, and the bounds of parts of a piece.
    leaving: Columns,
    parts: Vec<(i64, i64)>,
}

/// Rows that leave.
pub enum Leaving<'a> {
    /// All of these.
    Piece(Piece),
    /// Some of these.
    Others(&'a Columns, Range<usize>),
}

impl Leaving<'_> {
    /// Each of them.
    pub fn put_to(&self, rows: &mut Vec<Entry>) {
        match self {
            Self::Piece(piece) => rows.extend(piece.rows().entries()),
            Self::Others(others, some) => rows.extend(others.some(some.clone())),
        }
    }

    /// Puts them behind others.
    pub fn put_behind(&self, rows: &mut Columns) {
        match self {
            Self::Piece(piece) => rows.put(&piece.rows()),
            Self::Others(others, some) => rows.put_some(others, some.clone()),
        }
    }
}

/// Rows of which times and keys lie behind each other, and between which times they are if that is known.
pub struct Stretch<'a> {
    /// Their event times, microseconds.
    pub times: &'a [i64],
    /// The numbers of their keys.
    pub keys: &'a [u32],
    /// The earliest and the latest of the times.
    pub bounds: Option<(i64, i64)>,
}

impl Entries {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.others.len() + self.together
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, in their order.
    pub fn stretches(&self) -> impl Iterator<Item = Stretch<'_>> {
        let Self { others, pieces, .. } = self;
        let pieces =
            pieces.iter().map(|piece| Stretch { times: &piece.times, keys: &piece.keys, bounds: Some(piece.bounds) });
        std::iter::once(Stretch { times: others.times(), keys: others.keys(), bounds: None }).chain(pieces)
    }

    /// Where the values of all of them lie, in the order of [`stretches`](Self::stretches): of each of the first, and of some that follow each other.
    pub fn places(&self) -> (&[At], Vec<Run>) {
        (self.others.at(), self.pieces.iter().map(Piece::place).collect())
    }

    /// The numbers of their keys.
    pub fn keys(&self) -> impl Iterator<Item = &u32> {
        self.stretches().flat_map(|stretch| stretch.keys)
    }

    /// Gives each key the number that it has now.
    pub fn renumber(&mut self, numbers: &[u32]) {
        self.others.keys_mut().iter_mut().for_each(|key| *key = numbers[*key as usize]);
        for piece in &mut self.pieces {
            piece.keys = piece.keys.iter().map(|key| numbers[*key as usize]).collect();
        }
    }

    /// The earliest and the latest time of those that were put since there were so many others and so many pieces.
    fn bounds_from(&self, others: usize, pieces: usize) -> Option<(i64, i64)> {
        let pieces = self.pieces[pieces..].iter().map(|piece| piece.bounds);
        let all = self.others.bounds_from(others).into_iter().chain(pieces);
        all.reduce(|(earliest, latest), (one, other)| (earliest.min(one), latest.max(other)))
    }

    /// Has rows put behind these; returns the earliest and the latest time of those.
    pub fn put_all(&mut self, put: impl FnOnce(&mut Self)) -> Option<(i64, i64)> {
        let (others, pieces) = (self.others.len(), self.pieces.len());
        put(self);
        self.bounds_from(others, pieces)
    }

    /// How many have a time of `end` or later.
    pub fn count_from(&self, end: i64) -> usize {
        let count = |piece: &Piece| match piece.bounds {
            (_, latest) if latest < end => 0,
            (earliest, _) if earliest >= end => piece.count(),
            _ => piece.times.iter().filter(|time| **time >= end).count(),
        };
        self.others.count_from(end) + self.pieces.iter().map(count).sum::<usize>()
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Entry> {
        self.others.iter().chain(self.pieces.iter().flat_map(|piece| piece.rows().entries()))
    }

    /// Puts rows that arrived together.
    pub fn put(&mut self, piece: Piece) {
        if piece.may_stay(piece.count()) {
            self.together += piece.count();
            self.pieces.push(piece);
        } else {
            self.others.put(&piece.rows());
        }
    }

    /// Puts rows that lie anywhere.
    pub fn put_rows(&mut self, rows: &[Entry]) {
        self.others.put_rows(rows);
    }

    /// Puts rows that leave others.
    pub fn put_leaving(&mut self, leaving: Leaving<'_>) {
        match leaving {
            Leaving::Piece(piece) => self.put(piece),
            Leaving::Others(others, some) => self.others.put_some(others, some),
        }
    }

    /// Those before a time leave, and are given away. Returns the earliest time of all.
    pub fn leave_before(&mut self, end: i64, mut give: impl FnMut(Leaving<'_>)) -> Option<i64> {
        let mut earliest = self.others.leave_before(end, |others, some| give(Leaving::Others(others, some)));
        if self.together == 0 {
            return earliest;
        }
        self.together = 0;
        let mut pieces = std::mem::take(&mut self.pieces);
        for piece in pieces.drain(..) {
            let (first, last) = piece.bounds;
            earliest = Some(earliest.map_or(first, |earliest| earliest.min(first)));
            // As a rule time has passed all of them, or none.
            if last < end {
                give(Leaving::Piece(piece));
            } else if first >= end {
                self.together += piece.count();
                self.pieces.push(piece);
            } else {
                self.divide(&piece, end, &mut give);
            }
        }
        if self.pieces.is_empty() {
            // Its memory stays.
            self.pieces = pieces;
        }
        earliest
    }

    /// Those of a piece leave that are before a time.
    fn divide(&mut self, piece: &Piece, end: i64, give: &mut impl FnMut(Leaving<'_>)) {
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        bounds_of_parts(Level::best(), &piece.times, &mut parts);
        self.leaving.truncate(0);
        let mut first = 0;
        // Whether all leave, or none does; `None` where some do.
        let leaves = |(earliest, latest): &(i64, i64)| match (*latest < end, *earliest >= end) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        };
        for alike in parts.chunk_by(|one, next| leaves(one) == leaves(next)) {
            let rows = first..piece.count().min(first + alike.len() * PART);
            first = rows.end;
            match leaves(&alike[0]).filter(|_| piece.may_stay(rows.len())) {
                None => self.part_rows(&piece.rows().slice(rows), end),
                Some(leaves) => {
                    let wider = |one: (i64, i64), other: &(i64, i64)| (one.0.min(other.0), one.1.max(other.1));
                    let part = piece.part(rows, alike.iter().fold(alike[0], wider));
                    if leaves {
                        give(Leaving::Piece(part));
                    } else {
                        self.together += part.count();
                        self.pieces.push(part);
                    }
                }
            }
        }
        if !self.leaving.is_empty() {
            give(Leaving::Others(&self.leaving, 0..self.leaving.len()));
        }
        self.parts = parts;
    }

    /// Puts rows among those that leave if they are before a time, and among the others if not.
    fn part_rows(&mut self, rows: &Arrived<'_>, end: i64) {
        let mut done = 0;
        for alike in rows.times.chunk_by(|one, next| (*one < end) == (*next < end)) {
            let some = rows.slice(done..done + alike.len());
            done += alike.len();
            if alike[0] < end { self.leaving.put(&some) } else { self.others.put(&some) }
        }
    }

    /// Changes all rows, or drops them.
    pub fn retain(&mut self, keep: impl FnMut(&mut Entry) -> bool) {
        self.together = 0;
        self.pieces.drain(..).for_each(|piece| self.others.put(&piece.rows()));
        self.others.retain(keep);
    }

    /// All of them leave; where they are many, with the memory that they took.
    pub fn take(&mut self) -> Vec<Entry> {
        let mut all = self.others.take();
        self.pieces.drain(..).for_each(|piece| all.extend(piece.rows().entries()));
        self.together = 0;
        self.leaving.clear();
        all
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        self.others.bytes()
            + self.leaving.bytes()
            + self.pieces.iter().map(|piece| piece.memory.bytes()).sum::<usize>()
            + self.pieces.capacity() * size_of::<Piece>()
            + self.parts.capacity() * size_of::<(i64, i64)>()
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

    use super::*;

    /// Rows that come together, about so much out of order, where so many came before.
    fn piece(random: &mut StdRng, count: u32, before: u32, disorder: i64) -> Option<Piece> {
        let rows = before..before + count;
        let times: Vec<i64> = rows.clone().map(|row| i64::from(row) + random.random_range(0..disorder)).collect();
        let times = Times::of(times.into());
        let arrivals = Arrivals { times, positions: rows.map(|row| i64::from(row) - 7).collect() };
        let keys = (0..count).map(|_| random.random_range(0..9)).collect();
        let memory = Memory { rows: count as usize * random.random_range(1..6), has_positions: true };
        Piece::new(arrivals, keys, (random.random_range(0..3), At { batch: before, row: 5 }), memory)
    }

    fn sorted(mut rows: Vec<Entry>) -> Vec<Entry> {
        rows.sort_unstable_by_key(|row| row.position);
        rows
    }

    #[test]
    fn those_before_a_time_leave_and_the_others_stay_however_they_came() {
        for seed in 0..300 {
            let random = &mut StdRng::seed_from_u64(seed);
            let disorder = *[1, 20, 500].choose(random).unwrap();
            let (mut entries, mut all) = (Entries::default(), Vec::new());
            for _ in 0..random.random_range(0..5) {
                let count = *[0, 1, 3, 70, 400].choose(random).unwrap();
                let Some(piece) = piece(random, count, all.len() as u32, disorder) else { continue };
                let rows: Vec<Entry> = piece.rows().entries().collect();
                let bounds = (rows.iter().map(|row| row.time).min(), rows.iter().map(|row| row.time).max());
                assert_eq!(piece.place().rows, rows.len());
                let put = entries.put_all(|entries| match random.random_bool(0.8) {
                    true => entries.put(piece),
                    false => entries.put_rows(&rows),
                });
                assert_eq!(put.unzip(), bounds, "seed {seed}");
                all.extend(rows);
            }
            for _ in 0..3 {
                let end = random.random_range(-5..1_500);
                let (mut rows, mut taken) = (Vec::new(), Entries::default());
                let earliest = entries.leave_before(end, |leaving| {
                    leaving.put_to(&mut rows);
                    taken.put_leaving(leaving);
                });
                assert_eq!(earliest, all.iter().map(|row| row.time).min(), "seed {seed}");
                let (gone, stay): (Vec<Entry>, Vec<Entry>) = all.iter().partition(|row| row.time < end);
                assert_eq!((sorted(rows), taken.len()), (gone.clone(), gone.len()), "seed {seed}");
                let known: Vec<(i64, u32)> =
                    taken.stretches().flat_map(|p| p.times.iter().copied().zip(p.keys.iter().copied())).collect();
                assert_eq!(known, taken.iter().map(|row| (row.time, row.key)).collect::<Vec<_>>(), "seed {seed}");
                let (some, runs) = taken.places();
                let of_run = |run: &Run| (0..run.rows as u32).map(move |row| (run.first, row)).collect::<Vec<_>>();
                let runs = runs.iter().flat_map(of_run).map(|(first, row)| At { row: first.row + row, ..first });
                let places: Vec<At> = some.iter().copied().chain(runs).collect();
                assert_eq!(places, taken.iter().map(|row| row.at).collect::<Vec<_>>(), "seed {seed}");
                let within = taken.stretches().all(|part| {
                    part.bounds.is_none_or(|(first, last)| part.times.iter().all(|time| (first..=last).contains(time)))
                });
                assert!(within && entries.count_from(end) == stay.len() && taken.count_from(end) == 0, "seed {seed}");
                assert_eq!(sorted(taken.take()), gone, "seed {seed}");
                all = stay;
            }
            assert_eq!((entries.len(), entries.is_empty()), (all.len(), all.is_empty()));
            let numbers: Vec<u32> = (10..19).collect();
            entries.renumber(&numbers);
            all.iter_mut().for_each(|row| row.key += 10);
            assert_eq!(sorted(entries.iter().collect()), all, "seed {seed}");
            entries.retain(|row| std::mem::replace(&mut row.key, 3) % 2 == 1);
            let odd: Vec<Entry> =
                all.iter().filter(|row| row.key % 2 == 1).map(|row| Entry { key: 3, ..*row }).collect();
            assert_eq!(sorted(entries.take()), odd, "seed {seed}");
            assert!(entries.is_empty() && entries.keys().count() == 0);
        }
    }
}
