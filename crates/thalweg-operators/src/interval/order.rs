//! Sorts rows by key and time.
//!
//! Few bits tell most rows apart: those of the number of a key, and of how far a time is behind the earliest one. They are sorted digit by
//! digit, with the rows' numbers below them in the same word, and the rows move once.

use std::{cmp::Ordering, ops::Range};

use super::entry::{At, Entry};

/// How many bits a digit has at most, and at least where more would only spread few rows: as many places as there are rows are looked
/// through.
const DIGIT: u32 = 12;
const FEW_BITS: u32 = 8;

/// Fewer rows than this are compared with each other.
const FEW: usize = 64;

/// By what rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Time, then the place among rows of one time.
    Time,
    /// Key, then as above.
    Key,
}

impl By {
    /// How two rows follow each other.
    pub fn compare(self, a: &Entry, b: &Entry) -> Ordering {
        match self {
            Self::Time => a.by_time(b),
            Self::Key => a.by_key(b),
        }
    }
}

/// Sorts rows, in memory that it keeps.
#[derive(Debug, Default)]
pub struct Sorter {
    short: Words<u64>,
    long: Words<u128>,
    sorted: Vec<Entry>,
}

impl Sorter {
    /// Sorts rows. Those that are equal, which stand at no place of their own, are sorted by their content, which `hashes` tells: then the
    /// order does not depend on how they arrived.
    pub fn sort<E>(
        &mut self,
        entries: &mut Vec<Entry>,
        by: By,
        hashes: impl Fn(&[At]) -> Result<Vec<u64>, E>,
    ) -> Result<(), E> {
        let Some(Spread { earliest, of_time, of_key }) = Spread::of(entries, by) else { return Ok(()) };
        let (bits, numbers) = (of_time + of_key, bits(entries.len() as u64 - 1));
        if entries.len() < FEW || bits.div_ceil(DIGIT) > numbers || numbers > u32::BITS {
            entries.sort_unstable_by(|a, b| by.compare(a, b));
            return tell_apart(entries, by, hashes);
        }
        let keys = if by == By::Key { u32::MAX } else { 0 };
        let high = |entry: &Entry| (entry.key & keys, entry.time.wrapping_sub(earliest) as u64);
        let mut unsure: Vec<Range<usize>> = Vec::new();
        self.sorted.clear();
        if bits + numbers <= u64::BITS {
            let words = entries.iter().zip(0..).map(|(entry, number)| {
                let (key, time) = high(entry);
                (u64::from(key) << of_time | time) << numbers | number
            });
            let words = self.short.sort(words, numbers, bits);
            let number = |word: &u64| *word as usize & ((1 << numbers) - 1);
            self.sorted.extend(words.iter().map(|word| entries[number(word)]));
            ties(words, |word| word >> numbers, &mut unsure);
        } else {
            let words = entries.iter().zip(0..).map(|(entry, number)| {
                let (key, time) = high(entry);
                (u128::from(key) << of_time | u128::from(time)) << u32::BITS | number
            });
            let words = self.long.sort(words, u32::BITS, bits);
            self.sorted.extend(words.iter().map(|word| entries[*word as u32 as usize]));
            ties(words, |word| word >> u32::BITS, &mut unsure);
        }
        std::mem::swap(entries, &mut self.sorted);
        for rows in unsure {
            entries[rows.clone()].sort_unstable_by(|a, b| by.compare(a, b));
            tell_apart(&mut entries[rows], by, &hashes)?;
        }
        Ok(())
    }

    /// The numbers of rows in the order of their keys; those of a key stay in the order that they have.
    pub fn by_key(&mut self, entries: &[Entry], order: &mut Vec<u32>) {
        let largest = entries.iter().map(|entry| entry.key).max().unwrap_or(0);
        let words = entries.iter().zip(0..).map(|(entry, number)| u64::from(entry.key) << u32::BITS | number);
        let words = self.short.sort(words, u32::BITS, bits(u64::from(largest)));
        order.clear();
        order.extend(words.iter().map(|word| *word as u32));
    }

    /// How many bytes of memory it keeps.
    pub fn bytes(&self) -> usize {
        self.short.bytes() + self.long.bytes() + self.sorted.capacity() * size_of::<Entry>()
    }
}

/// How many bits a number has.
pub fn bits(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// By how many bits rows differ.
struct Spread {
    earliest: i64,
    of_time: u32,
    of_key: u32,
}

impl Spread {
    /// That of some rows; `None` if they are in order as they stand, each at a place of its own.
    fn of(entries: &[Entry], by: By) -> Option<Self> {
        if entries.is_sorted_by(|a, b| by.compare(a, b).is_lt()) {
            return None;
        }
        let (mut earliest, mut latest, mut largest) = (i64::MAX, i64::MIN, 0);
        for entry in entries {
            (earliest, latest, largest) = (earliest.min(entry.time), latest.max(entry.time), largest.max(entry.key));
        }
        let of_key = if by == By::Key { bits(u64::from(largest)) } else { 0 };
        Some(Self { earliest, of_time: bits(latest.wrapping_sub(earliest) as u64), of_key })
    }
}

/// The ranges of words that are the same but for the numbers of their rows.
fn ties<W: Copy, V: PartialEq>(words: &[W], value: impl Fn(W) -> V, found: &mut Vec<Range<usize>>) {
    for second in (1..words.len()).filter(|second| value(words[*second]) == value(words[second - 1])) {
        match found.last_mut() {
            Some(last) if last.end == second => last.end = second + 1,
            _ => found.push(second - 1..second + 1),
        }
    }
}

/// Sorts rows that are equal, of those that are sorted, by their content.
fn tell_apart<E>(entries: &mut [Entry], by: By, hashes: impl Fn(&[At]) -> Result<Vec<u64>, E>) -> Result<(), E> {
    for ties in entries.chunk_by_mut(|a, b| by.compare(a, b).is_eq()).filter(|ties| ties.len() > 1) {
        let places: Vec<At> = ties.iter().map(|entry| entry.at).collect();
        let mut hashed: Vec<_> = hashes(&places)?.into_iter().zip(ties.iter().copied()).collect();
        // Equal rows may have results that differ, as their numbers do: these follow each other as the rows do, by key and by time.
        hashed.sort_by_key(|(hash, entry)| (*hash, entry.at));
        ties.iter_mut().zip(hashed).for_each(|(tie, (_, entry))| *tie = entry);
    }
    Ok(())
}

/// Words that are sorted.
#[derive(Debug)]
pub struct Words<W> {
    words: Vec<W>,
    /// Where they go from.
    other: Vec<W>,
    /// Where the next word goes, by the value of a digit.
    places: Vec<u32>,
}

impl<W> Default for Words<W> {
    fn default() -> Self {
        Self { words: Vec::new(), other: Vec::new(), places: Vec::new() }
    }
}

/// What has digits.
pub trait Word: Copy + Default + Ord {
    /// The lowest bits of what is above so many.
    fn digit(self, shift: u32, mask: usize) -> usize;
}

impl Word for u64 {
    #[inline]
    fn digit(self, shift: u32, mask: usize) -> usize {
        (self >> shift) as usize & mask
    }
}

impl Word for u128 {
    #[inline]
    fn digit(self, shift: u32, mask: usize) -> usize {
        (self >> shift) as usize & mask
    }
}

impl<W: Word> Words<W> {
    /// Sorts words by so many of their bits above the lowest ones, the lowest digit first. Of words that are the same there the smaller one
    /// comes before.
    pub fn sort(&mut self, words: impl Iterator<Item = W>, lowest: u32, of: u32) -> &[W] {
        self.words.clear();
        self.words.extend(words);
        if self.words.len() < FEW {
            self.words.sort_unstable();
            return &self.words;
        }
        self.other.clear();
        self.other.resize(self.words.len(), W::default());
        let widest = bits(self.words.len() as u64).clamp(FEW_BITS, DIGIT);
        let digits = of.div_ceil(widest);
        let mut shift = lowest;
        for digit in 0..digits {
            // All digits have about as many bits.
            let width = of / digits + u32::from(digit < of % digits);
            scatter(&self.words, &mut self.other, &mut self.places, shift, width);
            std::mem::swap(&mut self.words, &mut self.other);
            shift += width;
        }
        &self.words
    }

    /// The same for words that are nearly in order but for their highest bits: only by these, and then the few that stand too far behind move.
    /// Sorts by all bits if they are not few.
    pub fn sort_nearly(&mut self, words: impl Iterator<Item = W>, lowest: u32, of: u32, highest: u32) -> (&[W], bool) {
        self.sort(words, lowest + of - highest, highest);
        let is_sorted = insert(&mut self.words);
        if !is_sorted {
            let words = std::mem::take(&mut self.words);
            self.sort(words.iter().copied(), lowest, of);
        }
        (&self.words, is_sorted)
    }

    /// How many bytes of memory it keeps.
    pub fn bytes(&self) -> usize {
        (self.words.capacity() + self.other.capacity()) * size_of::<W>() + self.places.capacity() * size_of::<u32>()
    }
}

/// Sorts words where each is few places behind its own, on the average; whether all are.
fn insert<W: Copy + Ord>(words: &mut [W]) -> bool {
    let mut left = 2 * words.len();
    for place in 1..words.len() {
        let word = words[place];
        let before = words[..place].iter().rev().take(left).take_while(|other| **other > word).count();
        if before > 0 {
            words.copy_within(place - before..place, place - before + 1);
            words[place - before] = word;
            left -= before;
            if left == 0 {
                return false;
            }
        }
    }
    true
}

/// Puts words in the order of a digit.
fn scatter<W: Word>(words: &[W], sorted: &mut [W], places: &mut Vec<u32>, shift: u32, width: u32) {
    places.clear();
    places.resize(1 << width, 0);
    let (places, mask) = (places.as_mut_slice(), (1 << width) - 1);
    words.iter().for_each(|word| places[word.digit(shift, mask)] += 1);
    let mut before = 0;
    for place in &mut *places {
        before += std::mem::replace(place, before);
    }
    for word in words {
        let place = &mut places[word.digit(shift, mask)];
        sorted[*place as usize] = *word;
        *place += 1;
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

    use super::{
        super::entry::{At, BASE},
        *,
    };

    #[test]
    fn rows_are_sorted_whatever_their_keys_and_times() {
        for seed in 0..200 {
            let random = &mut StdRng::seed_from_u64(seed);
            let spans = [1, 50, 5_000, 1 << 40, i64::MAX / 2];
            let (span, keys) = (*spans.choose(random).unwrap(), *[1, 7, 100_000, u32::MAX].choose(random).unwrap());
            let start = *[0, -(span / 2), i64::MIN / 2].choose(random).unwrap();
            let count = *[0, 1, FEW - 1, FEW, 3_000].choose(random).unwrap();
            let entry = |row: u32| Entry {
                time: start + random.random_range(0..span),
                position: random.random_range(0..3),
                key: random.random_range(0..keys),
                rank: *[1, BASE].choose(random).unwrap(),
                at: At { batch: 0, row },
            };
            let rows: Vec<Entry> = (0..count as u32).map(entry).collect();
            let mut sorter = Sorter::default();
            for by in [By::Time, By::Key] {
                let mut sorted = rows.clone();
                let hashes = |places: &[At]| Ok::<_, ()>(places.iter().map(|at| u64::from(!at.row)).collect());
                sorter.sort(&mut sorted, by, hashes).unwrap();
                let mut expected = rows.clone();
                expected.sort_by(|a, b| by.compare(a, b).then(b.at.cmp(&a.at)));
                assert_eq!(sorted, expected, "seed {seed}, {by:?}");
            }
            let mut expected: Vec<u32> = (0..count as u32).collect();
            expected.sort_by_key(|row| rows[*row as usize].key);
            let mut order = Vec::new();
            sorter.by_key(&rows, &mut order);
            assert_eq!(order, expected, "seed {seed}");
        }
    }

    #[test]
    fn words_that_are_nearly_in_order_are_sorted_and_others_too() {
        for (seed, disorder) in (0..60).zip([1, 5, 5_000].into_iter().cycle()) {
            let random = &mut StdRng::seed_from_u64(seed);
            let count = *[0, 1, FEW as u64, 4_000].choose(random).unwrap();
            let word = |number: u64| {
                let time = number + random.random_range(0..disorder);
                (random.random_range(0..7) << 20 | time) << 12 | number
            };
            let words: Vec<u64> = (0..count).map(word).collect();
            let mut sorted = words.clone();
            sorted.sort_unstable();
            let mut sorter = Words::default();
            let (found, were_nearly) = sorter.sort_nearly(words.into_iter(), 12, 23, 3);
            assert_eq!(found, sorted, "seed {seed}");
            assert!(count < 4_000 || were_nearly == (disorder < 5_000), "seed {seed}");
        }
    }

    #[test]
    fn rows_of_one_time_stand_by_input_then_by_position_then_by_content() {
        let entry = |time, rank, position, row| Entry { time, position, key: 0, rank, at: At { batch: 0, row } };
        let mut entries =
            vec![entry(1, BASE, 0, 0), entry(1, 0, 9, 1), entry(1, 0, 2, 2), entry(0, BASE, 5, 3), entry(1, 0, 9, 4)];
        let hashes = |places: &[At]| Ok::<_, ()>(places.iter().map(|at| 100 - u64::from(at.row)).collect());
        Sorter::default().sort(&mut entries, By::Time, hashes).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.at.row).collect::<Vec<_>>(), [3, 2, 4, 1, 0]);
    }
}
