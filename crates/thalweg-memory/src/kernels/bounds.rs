//! The smallest and the largest of many numbers, and whether they ascend.

use crate::simd::{Level, at_level};

/// The smallest and the largest number; `None` if there is none.
pub fn bounds(level: Level, values: &[i64]) -> Option<(i64, i64)> {
    if values.is_empty() {
        return None;
    }
    Some(extremes(level, values))
}

at_level! {
    /// Whether no number is less than the one before.
    pub fn ascends(values: &[i64]) -> bool = is_ascending
}

at_level! {
    fn extremes(values: &[i64]) -> (i64, i64) = extremes_of
}

/// A plain loop: the compiler keeps several chains of its own, so that none waits for another. Arrays of chains, written out,
/// it takes apart into single numbers.
#[inline(always)]
fn extremes_of(values: &[i64]) -> (i64, i64) {
    values.iter().fold((i64::MAX, i64::MIN), |(least, most), value| (least.min(*value), most.max(*value)))
}

#[inline(always)]
fn is_ascending(values: &[i64]) -> bool {
    let next = values.get(1..).unwrap_or_default();
    // A chunk is looked at as a whole, and the first that does not ascend ends it.
    values
        .chunks(256)
        .zip(next.chunks(256))
        .all(|(values, next)| values.iter().zip(next).fold(true, |ascends, (value, next)| ascends & (value <= next)))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn bounds_are_those_of_a_loop() {
        for seed in 0..200 {
            let mut random = StdRng::seed_from_u64(seed);
            let count = random.random_range(0..700);
            let width = [2, 1_000_000, i64::MAX][random.random_range(0..3)];
            let mut values: Vec<i64> = (0..count).map(|_| random.random_range(-width..=width)).collect();
            if random.random_bool(0.6) {
                values.sort_unstable();
            }
            if random.random_bool(0.3) && count > 1 {
                let at = random.random_range(0..count - 1);
                values.swap(at, at + 1);
            }
            let expected = values.iter().min().copied().zip(values.iter().max().copied());
            for level in Level::all() {
                assert_eq!(bounds(level, &values), expected, "seed {seed}, {}", level.name());
                assert_eq!(ascends(level, &values), values.is_sorted(), "seed {seed}, {}", level.name());
            }
        }
    }
}
