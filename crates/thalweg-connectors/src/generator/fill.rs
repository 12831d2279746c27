//! Fills columns with values in tight loops, each value a pure function of a key and a row's number.

use thalweg_core::Timestamp;

use super::rate::Rate;

/// The numbers of the rows of one partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub(super) first: u64,
    pub(super) step: u64,
}

impl Numbers {
    /// The number of the partition's row at this place.
    pub(super) fn at(self, place: u64) -> u64 {
        self.first + self.step * place
    }

    /// How many rows of the partition have numbers below `end`.
    pub(super) fn below(self, end: u64) -> u64 {
        end.saturating_sub(self.first).div_ceil(self.step)
    }

    /// The same rows without the first ones.
    pub(super) fn skip(self, places: u64) -> Self {
        Self { first: self.at(places), ..self }
    }

    /// The numbers of the first rows.
    fn take(self, rows: usize) -> impl Iterator<Item = u64> {
        (0..rows as u64).map(move |place| self.first.wrapping_add(self.step.wrapping_mul(place)))
    }
}

/// Where a column's random numbers come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key(u64);

impl Key {
    /// A key of a seed; each `stream` has its own.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        Self(mix(mix(seed, 0), stream))
    }

    fn at(self, number: u64) -> u64 {
        mix(self.0, number)
    }
}

/// The `n`th number of the SplitMix64 generator that begins at `key` (Steele et al., "Fast Splittable Pseudorandom Number
/// Generators").
fn mix(key: u64, n: u64) -> u64 {
    let z = key.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A share of `range`, which is one more than the largest result; 0 stands for 2^64.
fn below(random: u64, range: u64) -> u64 {
    if range == 0 { random } else { ((u128::from(random) * u128::from(range)) >> 64) as u64 }
}

/// Whole numbers from `min` to `max`.
pub(super) fn integers(key: Key, numbers: Numbers, rows: usize, min: i64, max: i64) -> Vec<i64> {
    let range = (max.wrapping_sub(min) as u64).wrapping_add(1);
    numbers.take(rows).map(|n| min.wrapping_add(below(key.at(n), range) as i64)).collect()
}

/// Numbers from `min` up to `max`.
pub(super) fn doubles(key: Key, numbers: Numbers, rows: usize, min: f64, max: f64) -> Vec<f64> {
    let scale = (max - min) / (1u64 << 53) as f64;
    numbers.take(rows).map(|n| (min + (key.at(n) >> 11) as f64 * scale).min(max)).collect()
}

/// Unscaled decimals from `min` to `max`.
pub(super) fn decimals(key: Key, numbers: Numbers, rows: usize, min: i128, max: i128) -> Vec<i128> {
    let range = max.wrapping_sub(min) as u128 + 1;
    let wide = |n: u64| u128::from(key.at(n)) << 64 | u128::from(mix(key.at(n), n));
    numbers.take(rows).map(|n| min.wrapping_add((wide(n) % range) as i128)).collect()
}

/// Truth values, true as often as false.
pub(super) fn booleans(key: Key, numbers: Numbers, rows: usize) -> Vec<bool> {
    numbers.take(rows).map(|n| key.at(n) >> 63 == 1).collect()
}

/// `start + step × number`, which is known to fit.
pub(super) fn sequence(numbers: Numbers, rows: usize, start: i64, step: i64) -> Vec<i64> {
    numbers.take(rows).map(|n| start.wrapping_add(step.wrapping_mul(n as i64))).collect()
}

/// Places in a list of `count`.
pub(super) fn choices(key: Key, numbers: Numbers, rows: usize, count: u32) -> Vec<u32> {
    numbers.take(rows).map(|n| below(key.at(n), count.into()) as u32).collect()
}

/// Which rows have no value, `threshold` in 2^64 of them.
pub(super) fn nulls(key: Key, numbers: Numbers, rows: usize, threshold: u64) -> Vec<bool> {
    numbers.take(rows).map(|n| key.at(n) < threshold).collect()
}

/// Letters and digits, five bits each, `length` for each row end to end.
pub(super) fn letters(key: Key, numbers: Numbers, rows: usize, length: usize) -> Vec<u8> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
    const PER_WORD: usize = 12;
    let words = length.div_ceil(PER_WORD) as u64;
    let mut bytes = vec![0; rows * length];
    for (n, text) in numbers.take(rows).zip(bytes.chunks_exact_mut(length.max(1))) {
        for (word, letters) in text.chunks_mut(PER_WORD).enumerate() {
            let mut bits = key.at(n.wrapping_mul(words).wrapping_add(word as u64));
            for letter in letters {
                *letter = LETTERS[(bits & 31) as usize];
                bits >>= 5;
            }
        }
    }
    bytes
}

/// When events happen: one after another, evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spacing {
    /// So many microseconds apart.
    Micros(i64),
    /// So many in a second.
    PerSecond(Rate),
}

impl Spacing {
    /// How many rows have times below the largest one, from `start` on.
    pub(super) fn rows(self, start: i64) -> u64 {
        let room = (i128::from(Timestamp::LIMIT) - i128::from(start)).max(0) as u128;
        let rows = match self {
            Self::Micros(0) => u128::MAX,
            Self::Micros(step) => room / u128::from(step.unsigned_abs()) + 1,
            Self::PerSecond(rate) => rate.rows(room, 1_000_000) + 1,
        };
        u64::try_from(rows).unwrap_or(u64::MAX)
    }

    fn at(self, number: u64) -> i64 {
        match self {
            Self::Micros(step) => step * number as i64,
            Self::PerSecond(rate) => rate.parts(number, 1_000_000).0 as i64,
        }
    }
}

/// Event times, each set back by at most `disorder` microseconds.
pub(super) fn times(key: Key, numbers: Numbers, rows: usize, start: i64, spacing: Spacing, disorder: i64) -> Vec<i64> {
    let times = numbers.take(rows).map(|n| (n, start + spacing.at(n)));
    match disorder {
        0 => times.map(|(_, time)| time).collect(),
        _ => times.map(|(n, time)| time - below(key.at(n), disorder as u64 + 1) as i64).collect(),
    }
}
