//! Sums of many numbers at once.

use crate::simd::{at_level, prefetch};

at_level! {
    /// The exact sum of whole numbers, fewer than 2^63 of them.
    pub fn whole_sum(values: &[i64]) -> i128 = whole
}

at_level! {
    /// The sum of floats, in an order that suits the machine and is the same everywhere.
    pub fn plain_sum(values: &[f64]) -> f64 = plain
}

const LANES: usize = 16;

/// How many bytes ahead of the numbers that are added memory is asked for.
const AHEAD: usize = 2048;

/// The high and the low halves are added apart, where neither overflows before 2^31 values are added.
#[inline(always)]
fn whole(values: &[i64]) -> i128 {
    values.chunks(1 << 30).map(halves).sum()
}

#[inline(always)]
fn halves(values: &[i64]) -> i128 {
    let (mut high, mut low) = (0_u64, 0_u64);
    for value in values {
        // Offset by 2^63, a number is not negative, and its shift needs no sign.
        let value = (*value as u64) ^ (1 << 63);
        high += value >> 32;
        low += value & 0xffff_ffff;
    }
    (i128::from(high) << 32) + i128::from(low) - values.len() as i128 * (1 << 63)
}

#[inline(always)]
fn plain(values: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        prefetch(chunk, AHEAD);
        for lane in 0..LANES {
            sums[lane] += chunk[lane];
        }
    }
    sums.into_iter().chain(rest.iter().copied()).sum()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::simd::Level;

    #[test]
    fn sums_are_those_of_a_loop() {
        for seed in 0..100 {
            let mut random = StdRng::seed_from_u64(seed);
            let count = random.random_range(0..300);
            let wholes: Vec<i64> = (0..count)
                .map(|_| match random.random_range(0..4) {
                    0 => i64::MIN,
                    1 => i64::MAX,
                    2 => random.random_range(-9..9),
                    _ => random.random(),
                })
                .collect();
            let floats: Vec<f64> = (0..count).map(|_| f64::from(random.random_range(-1000..1000)) / 8.0).collect();
            let expected: i128 = wholes.iter().copied().map(i128::from).sum();
            for level in Level::all() {
                assert_eq!(whole_sum(level, &wholes), expected, "seed {seed}, {}", level.name());
                assert_eq!(plain_sum(level, &floats), floats.iter().sum::<f64>(), "seed {seed}, {}", level.name());
            }
        }
    }
}
