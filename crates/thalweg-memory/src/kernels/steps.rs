//! Numbers that grow by the same each time.

use crate::simd::{Level, at_level};

/// So many numbers, each of which is the one before it and `step`; they wrap around.
pub fn steps(level: Level, first: i64, step: i64, count: usize) -> Vec<i64> {
    let mut numbers = vec![0; count];
    fill(level, &mut numbers, first, step);
    numbers
}

at_level! {
    fn fill(numbers: &mut [i64], first: i64, step: i64) = fill_of
}

#[inline(always)]
fn fill_of(numbers: &mut [i64], first: i64, step: i64) {
    let mut next = first;
    for number in numbers {
        *number = next;
        next = next.wrapping_add(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_the_one_before_and_a_step() {
        for level in Level::all() {
            assert_eq!(steps(level, 5, 3, 70), (0..70).map(|number| 5 + 3 * number).collect::<Vec<_>>());
            assert_eq!(steps(level, i64::MAX, 1, 2), [i64::MAX, i64::MIN]);
            assert!(steps(level, 1, 1, 0).is_empty());
        }
    }
}
