//! Whether a number is much less than one before it.

#[cfg(target_arch = "x86_64")]
use super::four::Avx2;
use super::four::{Four, Portable};
use crate::simd::{Level, at_level};

/// So many sequences are looked through side by side: each number waits for the one before it.
pub const SEQUENCES: usize = 4;

/// Whether a number of one of some sequences is less than a limit: than the one that the sequence begins with, or than a number before it
/// less `delay`. The differences must fit.
pub fn has_behind(level: Level, sequences: [&[i64]; SEQUENCES], limits: [i64; SEQUENCES], delay: i64) -> bool {
    let beside = sequences.map(<[i64]>::len).into_iter().min().unwrap_or(0);
    let mut limits = limits;
    let (mut is_behind, done) = behind(level, sequences.map(|numbers| &numbers[..beside]), &mut limits, delay);
    for (numbers, limit) in sequences.into_iter().zip(&mut limits) {
        for number in &numbers[done..] {
            is_behind |= number < limit;
            *limit = (*limit).max(number.wrapping_sub(delay));
        }
    }
    is_behind
}

at_level! {
    /// The same for sequences of one length, of which it goes through whole fours; raises the limits. Says how many these were, too.
    fn behind(sequences: [&[i64]; SEQUENCES], limits: &mut [i64; SEQUENCES], delay: i64) -> (bool, usize) = behind_of, Portable, Avx2::new()
}

#[inline(always)]
fn behind_of(
    by: impl Four,
    sequences: [&[i64]; SEQUENCES],
    limits: &mut [i64; SEQUENCES],
    delay: i64,
) -> (bool, usize) {
    let [one, two, three, four] = sequences.map(|numbers| numbers.as_chunks::<4>().0);
    let (mut latest, mut are_behind, delay) = (by.of(limits), by.all(0), by.all(delay));
    for (((one, two), three), four) in one.iter().zip(two).zip(three).zip(four) {
        for numbers in by.across([one, two, three, four].map(|numbers| by.of(numbers))) {
            are_behind = by.or(are_behind, by.less(numbers, latest));
            latest = by.larger(latest, by.minus(numbers, delay));
        }
    }
    *limits = by.to_array(latest);
    (by.negative(are_behind) > 0, 4 * one.len())
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn a_number_is_behind_where_a_loop_says_so() {
        let mut behind = 0;
        for seed in 0..400 {
            let random = &mut StdRng::seed_from_u64(seed);
            let (disorder, delay) = (random.random_range(1..50), random.random_range(-5..55));
            let sequences: [Vec<i64>; SEQUENCES] = std::array::from_fn(|_| {
                let count = random.random_range(0..90);
                (0..count).map(|number| number + random.random_range(0..disorder)).collect()
            });
            let limits = std::array::from_fn(|_| random.random_range(-60..5));
            let expected = sequences.iter().zip(limits).any(|(numbers, first)| {
                let before =
                    |number: usize| numbers[..number].iter().map(|before| before - delay).fold(first, i64::max);
                (0..numbers.len()).any(|number| numbers[number] < before(number))
            });
            for level in Level::all() {
                let found = has_behind(level, sequences.each_ref().map(|numbers| &numbers[..]), limits, delay);
                assert_eq!(found, expected, "seed {seed}, {level:?}");
            }
            behind += usize::from(expected);
        }
        assert!((100..300).contains(&behind), "{behind}");
    }
}
