//! Totals over the rows around each row without an index: whenever some rows are looked at, all that may be seen are sorted.
//!
//! ```text
//! may be seen     a 3   a 5   a 9   b 1   b 4   c 2        by key and time, each a word
//! look at them        a 6              b 3                 two pointers for each end of their frames
//! ```
//!
//! What a row costs does not depend on how many keys there are, and nothing is looked for in memory. But rows that are seen for long are
//! sorted again and again: where these are many, rows are kept by key, in [`Lines`](super::lines::Lines). [`Sweep::is_on`] says which it is.
//! While it is on, rows that come wait among the others until time has passed them, if these are not many.

use thalweg_core::{Interval, Result, Timestamp};
use thalweg_memory::{
    kernels::bounds::{PART, bounds, bounds_of_parts},
    simd::Level,
};
use thalweg_plan::node::FrameBounds;

use super::{
    asked::Asked,
    chunk::Chunk,
    columns::Columns,
    due::Due,
    entries::{Entries, Leaving, Piece},
    entry::Entry,
    kept::{Kept, Locations, Released},
    line::Line,
    words::{Patience, Words, bits},
};

/// What it costs to sort a row that has been sorted before, to put a row among those of its key in place of sorting it, and to go over from
/// the one to the other, for each row: nanoseconds, about.
const AGAIN: i64 = 25;
const BY_KEY: i64 = 12;
/// Tests go over whenever they can.
const OVER: i64 = if cfg!(test) { 0 } else { 40 };

/// So many rows wait here at most.
pub const MOST: usize = if cfg!(test) { 64 } else { 5 * 8192 };

/// That time passes counts as so many rows.
const PASSING: usize = 16;

/// Rows that are sorted whenever some of those that may see them are looked at.
#[derive(Debug, Default)]
pub struct Sweep {
    /// Rows that may be seen, in no order.
    rows: Entries,
    /// So many of them at most have a time that has not passed: nobody sees these yet. And so many had not when rows were last looked at.
    waiting: usize,
    left: usize,
    /// Between which times all of them lie.
    span: Span,
    /// Whether rows are here, and not by key.
    is_on: bool,
    /// How much less the other way would have cost since this one was gone.
    regret: i64,
    /// Whether rows have been looked at since some were dropped, and how many have come.
    is_swept: bool,
    grown: usize,
    seen: Words<u64>,
    looked: Words<u64>,
    /// Between which times each part of the rows lies, where it is looked whether time has passed them.
    parts: Vec<(i64, i64)>,
    /// Of rows that are seen, and of those that are looked at.
    patience: [Patience; 2],
    /// All rows as if they had one key, whose times tell keys apart.
    line: Line,
}

/// How rows become words: keys above times, above the rows' numbers.
struct Shape {
    earliest: i64,
    of_time: u32,
    of_key: u32,
    /// Of each of the two lists of rows.
    numbers: [u32; 2],
}

impl Shape {
    /// Of so many rows that are seen, between these times, and of those that are looked at, which have these; so many keys have a number. `None`
    /// if they do not fit.
    fn of(seen: (usize, Span), looked: &[i64], keys: usize, asked: &Asked) -> Option<Self> {
        let (count, mut span) = seen;
        let (first, last) = bounds(Level::best(), looked)?;
        span.widen(first, last);
        let Span { earliest, latest } = span;
        // The ends of a frame stay with the key.
        let (mut before, mut behind) = (0, 0);
        for looked in &asked.frames {
            let FrameBounds::Range { from: Some(from), to } = looked.frame.bounds else { return None };
            let to = to.0.checked_add(1)?;
            (before, behind) = (before.min(from.0).min(to), behind.max(from.0).max(to));
        }
        let earliest = earliest.checked_add(before)?;
        let of_time = bits(latest.checked_add(behind)?.checked_sub(earliest)? as u64);
        let [of_key, of_seen, of_looked] =
            [keys, count, looked.len()].map(|count| bits(count.saturating_sub(1) as u64));
        let numbers = [of_seen, of_looked];
        // A word without its number is a time as well.
        (of_time + of_key + numbers[0].max(numbers[1]).max(1) <= u64::BITS).then_some(Self {
            earliest,
            of_time,
            of_key,
            numbers,
        })
    }

    /// The words of rows with these keys and times, of which the first has this number.
    fn words<'a>(
        &self,
        rows: impl Iterator<Item = (&'a u32, &'a i64)>,
        first: usize,
        numbers: u32,
    ) -> impl Iterator<Item = u64> {
        let Self { earliest, of_time, .. } = *self;
        rows.zip(first as u64..).map(move |((key, time), number)| {
            let high = u64::from(*key) << of_time | time.wrapping_sub(earliest) as u64;
            high << numbers | number
        })
    }
}

/// Between which times rows lie.
#[derive(Clone, Copy, Debug)]
struct Span {
    earliest: i64,
    latest: i64,
}

impl Default for Span {
    fn default() -> Self {
        Self { earliest: i64::MAX, latest: i64::MIN }
    }
}

impl Span {
    fn widen(&mut self, earliest: i64, latest: i64) {
        (self.earliest, self.latest) = (self.earliest.min(earliest), self.latest.max(latest));
    }
}

impl Sweep {
    /// Without rows; that there is no index is where it begins.
    pub fn new() -> Self {
        Self { is_on: true, ..Self::default() }
    }

    /// Whether rows are here, and not by key.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Says whether rows are here from now on: so many are new, so many are looked at, and so many have been there for longer.
    pub fn choose(&mut self, new: usize, looked: usize, old: usize) -> bool {
        let [new, old] = [new + looked, old].map(|rows| i64::try_from(rows).unwrap_or(i64::MAX / 64));
        let again = if looked > 0 { AGAIN * old } else { 0 };
        let more = if self.is_on { again - BY_KEY * new } else { BY_KEY * new - again };
        self.regret = self.regret.saturating_add(more).max(0);
        if self.regret > OVER * old {
            (self.is_on, self.regret) = (!self.is_on, 0);
        }
        self.is_on
    }

    /// The rows that are here.
    pub fn rows(&self) -> &Entries {
        &self.rows
    }

    /// Takes rows, which may be seen.
    pub fn put(&mut self, due: &mut Due) {
        self.put_some(|rows| due.pieces().iter().for_each(|piece| rows.put_rows(piece)));
        due.clear();
    }

    /// Takes rows which are put behind those that are here, and may be seen.
    pub fn put_some(&mut self, put: impl FnOnce(&mut Entries)) {
        let before = self.rows.len();
        let bounds = self.rows.put_all(put);
        self.grown += self.rows.len() - before;
        if let Some((earliest, latest)) = bounds {
            self.span.widen(earliest, latest);
        }
    }

    /// Takes so many rows as they arrive, which nobody sees until time has passed them; whether it did. They are not taken where
    /// more rows wait than these are, since all are looked through each time.
    pub fn take_arrived(&mut self, count: usize, rows: impl FnOnce() -> Option<Piece>) -> bool {
        if !self.is_on || self.left > count || self.waiting + count > MOST {
            return false;
        }
        if let Some(piece) = rows() {
            let (earliest, latest) = piece.bounds();
            self.span.widen(earliest, latest);
            self.rows.put(piece);
        }
        (self.grown, self.waiting) = (self.grown + count, self.waiting + count);
        true
    }

    /// How many rows there are that time has not passed, as far as is known; they are fewer, as a rule.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many of these have come since rows were last looked at.
    pub fn arrived(&self) -> usize {
        self.waiting - self.left
    }

    /// How many others there are.
    pub fn passed(&self) -> usize {
        self.rows.len() - self.waiting
    }

    /// Counts those that time has not passed, which are at `end` and behind it.
    pub fn count_waiting(&mut self, end: i64) {
        self.waiting = self.not_passed(end);
        self.left = self.left.min(self.waiting);
    }

    /// How many rows there are at `end` and behind it.
    pub fn not_passed(&self, end: i64) -> usize {
        self.rows.count_from(end)
    }

    /// Gives away those that time has not passed, at `end` and behind it.
    pub fn give_waiting(&mut self, end: i64, mut put: impl FnMut(Entry)) {
        if self.waiting > 0 {
            self.rows.retain(|entry| {
                let stays = entry.time < end;
                if !stays {
                    put(*entry);
                }
                stays
            });
            (self.waiting, self.left) = (0, 0);
        }
    }

    /// Gives all rows away.
    pub fn give(&mut self, others: &mut Due) {
        others.take(&mut self.rows.take());
        (self.waiting, self.left, self.span) = (0, 0, Span::default());
    }

    /// Rows are by key from now on, and not here.
    pub fn end(&mut self, others: &mut Due) {
        self.give(others);
        (self.is_on, self.regret) = (false, 0);
    }

    /// Looks at rows, which are in the order of time or in any, and see none at `end` or behind it, and finds all that is asked for; whether it
    /// could. So many keys have a number.
    pub fn look(
        &mut self,
        (bases, are_in_order): (&Columns, bool),
        end: i64,
        keys: usize,
        asked: &Asked,
        kept: &Kept,
        chunk: &mut Chunk,
    ) -> Result<bool> {
        let mut span = self.span;
        if self.waiting > 0 {
            span.latest = span.latest.min(end.saturating_sub(1));
        }
        let Some(shape) = Shape::of((self.rows.len(), span), bases.times(), keys, asked) else { return Ok(false) };
        self.is_swept = true;
        let Self { rows, waiting, left, seen, looked, parts, line, patience, .. } = self;
        let number = |numbers: u32| move |word: &u64| *word as usize & ((1 << numbers) - 1);
        let [of_seen, of_looked] = shape.numbers;
        let of = shape.of_time + shape.of_key;
        // Those of a key are nearly in order as they come, unless it has many within lateness.
        seen.clear();
        let mut first = 0;
        for stretch in rows.stretches() {
            let words = shape.words(stretch.keys.iter().zip(stretch.times), first, of_seen);
            // As a rule time has passed all of them, or none.
            match stretch.bounds {
                _ if *waiting == 0 => seen.extend(words),
                Some((_, latest)) if latest < end => seen.extend(words),
                Some((earliest, _)) if earliest >= end => {}
                _ => {
                    parts.clear();
                    bounds_of_parts(Level::best(), stretch.times, parts);
                    let all = stretch.keys.chunks(PART).zip(stretch.times.chunks(PART)).zip((first..).step_by(PART));
                    for ((earliest, latest), ((keys, times), first)) in parts.iter().zip(all) {
                        let words = shape.words(keys.iter().zip(times), first, of_seen);
                        if *latest < end {
                            seen.extend(words);
                        } else if *earliest < end {
                            seen.extend(words.zip(times).filter(|(_, time)| **time < end).map(|(word, _)| word));
                        }
                    }
                }
            }
            first += stretch.times.len();
        }
        let sorted = seen.sort_nearly(&mut patience[0], of_seen, of, shape.of_key);
        if *waiting > 0 {
            *waiting = rows.len() - sorted.len();
        }
        *left = *waiting;
        // They are read as they lie, and only what they add is put in order.
        let (some, runs) = rows.places();
        let places = Locations { some, runs: &runs };
        let amounts = asked.kinds.iter().map(|kind| match sorted.is_empty() {
            true => Ok(Default::default()),
            false => Ok(asked.amounts_of(kind, kept, places)?.of(sorted.iter().map(number(of_seen)))),
        });
        line.fill(sorted.iter().map(|word| (word >> of_seen) as i64), &amounts.collect::<Result<Vec<_>>>()?);
        looked.clear();
        looked.extend(shape.words(bases.keys().iter().zip(bases.times()), 0, of_looked));
        let sorted = match are_in_order {
            true => looked.sort_all(of_looked + shape.of_time, shape.of_key),
            false => looked.sort_nearly(&mut patience[1], of_looked, of, shape.of_key),
        };
        let numbers = sorted.iter().map(|word| number(of_looked)(word) as u32);
        let times = sorted.iter().map(|word| (word >> of_looked) as i64);
        chunk.begin_swept(bases.at(), asked, kept, line, (numbers, times))
    }

    /// Drops rows of a time before `end`. Returns how much earlier than `end` the first of them was. Not all at once, where nobody looks at
    /// rows meanwhile.
    pub fn expire(&mut self, end: i64, kept: &mut Kept) -> Interval {
        self.grown += PASSING;
        if !std::mem::take(&mut self.is_swept) && self.grown < self.rows.len() / 2 {
            return Interval::ZERO;
        }
        self.grown = 0;
        let mut released = Released::default();
        let oldest = self.rows.leave_before(end, |leaving| match leaving {
            Leaving::Piece(piece) => released.put_some(piece.place().first.batch, piece.count(), kept),
            Leaving::Others(rows, some) => {
                let some = &rows.at()[some];
                let batch = some.first().map_or(0, |at| at.batch);
                // As a rule they came together.
                match some.iter().fold(0, |others, at| others | at.batch ^ batch) {
                    0 => released.put_some(batch, some.len(), kept),
                    _ => some.iter().for_each(|at| released.put(*at, kept)),
                }
            }
        });
        let oldest = oldest.map_or(end, |oldest| oldest.min(end));
        released.done(kept);
        self.stay(end);
        // At the end of a stream time makes a leap.
        if Timestamp(end).is_in_range() { Interval(end.saturating_sub(oldest)) } else { Interval::ZERO }
    }

    /// Changes all rows, or drops them; not their times.
    pub fn retain(&mut self, keep: impl FnMut(&mut Entry) -> bool) {
        self.rows.retain(keep);
        self.stay(i64::MIN);
    }

    /// Gives each key the number that it has now.
    pub fn renumber(&mut self, numbers: &[u32]) {
        self.rows.renumber(numbers);
    }

    /// Rows have left, all of those before `end` among them.
    fn stay(&mut self, end: i64) {
        self.waiting = self.waiting.min(self.rows.len());
        self.left = self.left.min(self.waiting);
        self.span.earliest = self.span.earliest.max(end);
        if self.rows.is_empty() {
            self.span = Span::default();
        }
    }

    /// How many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        let parts = self.parts.capacity() * size_of::<(i64, i64)>();
        self.rows.bytes() + parts + self.seen.bytes() + self.looked.bytes() + self.line.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            entries::Memory,
            entry::At,
            input::{Arrivals, Times},
        },
        *,
    };

    fn piece() -> Option<Piece> {
        let times: Vec<i64> = (0..8).collect();
        let arrivals = Arrivals { times: Times::of(times.clone().into()), positions: times.into() };
        let memory = Memory { rows: 8, has_positions: true };
        Piece::new(arrivals, vec![0; 8].into(), (1, At { batch: 0, row: 0 }), memory)
    }

    #[test]
    fn rows_are_taken_as_long_as_no_more_are_left_and_those_that_time_has_passed_are_not() {
        let mut sweep = Sweep::new();
        assert!(sweep.take_arrived(8, piece) && sweep.take_arrived(8, piece));
        sweep.left = 9;
        assert!(!sweep.take_arrived(8, piece));
        sweep.count_waiting(6);
        assert_eq!((sweep.waiting(), sweep.passed(), sweep.arrived()), (4, 12, 0));
        assert!(sweep.take_arrived(8, piece));
        let mut given = Vec::new();
        sweep.give_waiting(6, |entry| given.push(entry.time));
        assert_eq!(given, [6, 7].repeat(3));
        assert_eq!((sweep.waiting(), sweep.rows().len()), (0, 18));
        assert!((0..9).any(|_| !sweep.take_arrived(8, piece)), "there is a bound");
    }

    #[test]
    fn rows_are_by_key_while_many_are_seen_for_long_and_are_sorted_while_few_are() {
        let mut sweep = Sweep::new();
        assert!((0..9).all(|_| sweep.choose(100, 100, 50)), "few are sorted again");
        assert!((0..9).all(|_| sweep.choose(100, 0, 10_000)), "nobody looks at them");
        assert!((0..9).all(|_| !sweep.choose(100, 100, 10_000)));
        assert!(sweep.choose(100, 100, 50));
    }
}
