//! Sorts rows by key and time.
//!
//! Few bits tell most rows apart: those of the number of a key, and of how far a time is behind the earliest one. They are sorted digit by
//! digit, with the rows' numbers beside them, and the rows move once.

use super::entry::Entry;

/// How many bits a digit has.
const DIGIT: u32 = 11;

/// Fewer rows than this are compared with each other.
const FEW: usize = 128;

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
    pub fn compare(self, a: &Entry, b: &Entry) -> std::cmp::Ordering {
        match self {
            Self::Time => a.by_time(b),
            Self::Key => a.by_key(b),
        }
    }
}

/// Sorts rows; those that are equal come in any order.
pub fn sort(entries: &mut Vec<Entry>, by: By) {
    let Some((words, bits)) = words(entries, by).filter(|_| entries.len() >= FEW) else {
        entries.sort_unstable_by(|a, b| by.compare(a, b));
        return;
    };
    let words = by_digits(words, bits);
    *entries = words.iter().map(|(_, number)| entries[*number as usize]).collect();
    let mut done = 0;
    for same in words.chunk_by(|(a, _), (b, _)| a == b) {
        let rows = done..done + same.len();
        done = rows.end;
        if rows.len() > 1 {
            entries[rows].sort_unstable_by(|a, b| by.compare(a, b));
        }
    }
}

/// For each row a word that compares as its key and its time do, and its number; and how many bits the words have. `None` where they
/// would have more than there are.
fn words(entries: &[Entry], by: By) -> Option<(Vec<(u64, u32)>, u32)> {
    u32::try_from(entries.len()).ok()?;
    let (mut earliest, mut latest, mut largest) = (i64::MAX, i64::MIN, 0);
    for entry in entries {
        (earliest, latest, largest) = (earliest.min(entry.time), latest.max(entry.time), largest.max(entry.key));
    }
    let span = u64::try_from(latest.checked_sub(earliest)?).ok()?;
    let of_time = u64::BITS - span.leading_zeros();
    let of_key = if by == By::Key { u32::BITS - largest.leading_zeros() } else { 0 };
    if of_time + of_key > u64::BITS || of_time == u64::BITS {
        return None;
    }
    let word = |entry: &Entry| {
        let key = if by == By::Key { u64::from(entry.key) } else { 0 };
        key << of_time | (entry.time - earliest) as u64
    };
    Some((entries.iter().map(word).zip(0..).collect(), of_time + of_key))
}

/// Sorts words of so many bits, the lowest digit first.
fn by_digits(mut words: Vec<(u64, u32)>, bits: u32) -> Vec<(u64, u32)> {
    let mut sorted = vec![(0, 0); words.len()];
    for shift in (0..bits).step_by(DIGIT as usize) {
        let digit = |word: u64| (word >> shift) as usize & ((1 << DIGIT) - 1);
        let mut places = [0_u32; 1 << DIGIT];
        words.iter().for_each(|(word, _)| places[digit(*word)] += 1);
        let mut before = 0;
        for place in &mut places {
            before += std::mem::replace(place, before);
        }
        for (word, number) in &words {
            let place = &mut places[digit(*word)];
            sorted[*place as usize] = (*word, *number);
            *place += 1;
        }
        std::mem::swap(&mut words, &mut sorted);
    }
    words
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
            for by in [By::Time, By::Key] {
                let mut sorted = rows.clone();
                sort(&mut sorted, by);
                assert!(sorted.is_sorted_by(|a, b| by.compare(a, b).is_le()), "seed {seed}, {by:?}");
                sorted.sort_by_key(|entry| entry.at);
                assert_eq!(sorted, rows, "seed {seed}: none is lost");
            }
        }
    }
}
