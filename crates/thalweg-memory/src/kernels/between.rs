//! Rows whose time lies between two others: how many there are, and the sum of their values.

use crate::simd::at_level;

at_level! {
    /// How many of these times lie in `[from, to]`.
    pub fn count_between(times: &[i64], from: i64, to: i64) -> u64 = count
}

at_level! {
    /// How many of these times lie in `[from, to]`, and the sum of the values beside them, which wraps around.
    pub fn sum_between(times: &[i64], values: &[i64], from: i64, to: i64) -> (u64, i64) = sum
}

#[inline(always)]
fn count(times: &[i64], from: i64, to: i64) -> u64 {
    times.iter().fold(0, |count, time| count + u64::from((*time >= from) & (*time <= to)))
}

/// Without a branch: of a window's border nobody can tell on which side the next row lies.
#[inline(always)]
fn sum(times: &[i64], values: &[i64], from: i64, to: i64) -> (u64, i64) {
    times.iter().zip(values).fold((0, 0), |(count, sum), (time, value)| {
        let is_between = (*time >= from) & (*time <= to);
        (count + u64::from(is_between), sum.wrapping_add(if is_between { *value } else { 0 }))
    })
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::simd::Level;

    #[test]
    fn both_ends_are_between_and_sums_are_those_of_a_filter() {
        for seed in 0..100 {
            let mut random = StdRng::seed_from_u64(seed);
            let count = random.random_range(0..300);
            let times: Vec<i64> = (0..count).map(|_| random.random_range(-9..=9)).collect();
            let values: Vec<i64> = (0..count).map(|_| random.random()).collect();
            let (from, to) = (random.random_range(-10..=9), random.random_range(-9..=10));
            let is_between = |time: &i64| (from..=to).contains(time);
            let between = times.iter().zip(&values).filter(|(time, _)| is_between(time)).map(|(_, value)| *value);
            let sum = between.clone().fold(0i64, i64::wrapping_add);
            let count = between.count() as u64;
            for level in Level::all() {
                assert_eq!(count_between(level, &times, from, to), count, "seed {seed}, {}", level.name());
                assert_eq!(
                    sum_between(level, &times, &values, from, to),
                    (count, sum),
                    "seed {seed}, {}",
                    level.name()
                );
            }
        }
    }
}
