//! Two ascending sequences become one: whose turn it is, as a bit for each row, and then the values, column by column.
//!
//! ```text
//!   one   2 3 7 8       turns, the first in the lowest bit      0 1 0 0 1 1 0 0 …
//!   two   2 5 6 9                                               2 2 3 7 5 6 …  (with the numbers that tell the twos apart)
//! ```
//!
//! * [`turns`]: whose turn it is
//! * [`values`]: columns of numbers
//! * [`valid`]: which rows have a value

mod turns;
mod valid;
mod values;

pub use turns::{Keys, STRETCH, push_turns};
pub use valid::push_valid;
pub use values::{Value, push_values};

#[cfg(test)]
mod tests {
    use arrow_buffer::NullBuffer;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::simd::Level;

    /// Sorted keys of both, which are all different.
    fn keys(random: &mut StdRng, rows: usize, step: i64, numbers: i64, share: f64) -> [Vec<(i64, i64)>; 2] {
        let (mut time, mut keys) = (random.random_range(-1000..1000), [vec![], vec![]]);
        let mut last = None;
        for _ in 0..rows {
            time += random.random_range(0..=step);
            // With a sign they differ in all bits.
            let number = random.random_range(if numbers > 1000 { -numbers } else { 0 }..=numbers);
            let of = &mut keys[usize::from(random.random_bool(share))];
            if last.is_none_or(|last| last < (time, number)) {
                of.push((time, number));
                last = Some((time, number));
            }
        }
        keys
    }

    #[test]
    fn turns_are_those_of_the_order_and_values_follow_them() {
        let random = &mut StdRng::seed_from_u64(1);
        let mut all = 0;
        for case in 0..400 {
            let step = [1, 3, 1000, 1 << 40][case % 4];
            let numbers = [1, 1000, 1 << 33, i64::MAX - 1][case / 4 % 4];
            let share = [0.5, 0.1, 0.9, 0.01][case / 16 % 4];
            let mut keys = keys(random, [0, 300, 1000, 5000][case / 64 % 4], step, numbers, share);
            let is_tied = case % 5 == 0 && keys[0].len() > 400;
            if is_tied {
                let at = keys[0][random.random_range(0..400)];
                let place = keys[1].partition_point(|key| *key < at);
                keys[1].insert(place, at);
            }
            let [one, two] = keys.each_ref().map(|keys| keys.iter().copied().unzip::<_, _, Vec<i64>, Vec<i64>>());
            let limit = random.random_range(0..6000);
            let mut sorted: Vec<(i64, i64, u64)> = [&keys[0], &keys[1]]
                .into_iter()
                .zip(0..)
                .flat_map(|(keys, of)| keys.iter().map(move |(time, number)| (*time, *number, of)))
                .collect();
            sorted.sort();
            for level in Level::all() {
                let mut turns = vec![7];
                let both = [[&one.0[..], &one.1], [&two.0[..], &two.1]];
                let taken = push_turns(level, both, limit, &mut turns);
                assert_eq!(turns.remove(0), 7);
                assert_eq!((taken[0] + taken[1], taken[0] + taken[1] <= limit), (turns.len() * 64, true));
                let found = (0..turns.len() * 64).map(|row| turns[row / 64] >> (row % 64) & 1);
                assert!(
                    found.eq(sorted.iter().map(|row| row.2).take(turns.len() * 64)),
                    "case {case}, {}",
                    level.name()
                );
                let is_at_its_end = taken[0] + STRETCH > one.0.len() || taken[1] + STRETCH > two.0.len();
                let is_streak = turns.iter().any(|word| [0, u64::MAX].contains(word));
                let is_wide = step > 1000 || numbers > 1000;
                let is_full = taken[0] + taken[1] + STRETCH > limit;
                assert!(is_at_its_end || is_streak || is_wide || is_tied || is_full, "case {case} goes on");
                all += turns.len();
                let narrow = |keys: &[i64]| keys.iter().map(|key| *key as u32).collect::<Vec<_>>();
                let wide = |keys: &[i64]| keys.iter().map(|key| *key as u64).collect::<Vec<_>>();
                let (mut words, mut halves) = (vec![1], vec![1]);
                push_values(level, &turns, [&wide(&one.1), &wide(&two.1)], &mut words);
                push_values(level, &turns, [&narrow(&one.1), &narrow(&two.1)], &mut halves);
                let rows = &sorted[..turns.len() * 64];
                assert!(words[1..].iter().copied().eq(rows.iter().map(|row| row.1 as u64)), "case {case}");
                let nulls =
                    |keys: &[i64]| NullBuffer::from_iter([true].into_iter().chain(keys.iter().map(|key| key % 3 == 0)));
                let (ones, twos) = (nulls(&one.0), nulls(&two.0));
                let mut valid = vec![3];
                push_valid(level, &turns, [(Some(&ones), 1), (Some(&twos), 1)], &mut valid);
                let bits = |valid: &[u64]| {
                    (0..rows.len()).map(|row| valid[1 + row / 64] >> (row % 64) & 1 == 1).collect::<Vec<_>>()
                };
                assert!(bits(&valid).into_iter().eq(rows.iter().map(|row| row.0 % 3 == 0)), "case {case}");
                valid.truncate(1);
                push_valid(level, &turns, [(Some(&ones), 1), (None, 1)], &mut valid);
                assert!(
                    bits(&valid).into_iter().eq(rows.iter().map(|row| row.2 == 1 || row.0 % 3 == 0)),
                    "case {case}"
                );
                assert!(halves[1..].iter().copied().eq(rows.iter().map(|row| row.1 as u32)), "case {case}");
            }
        }
        assert!(all > 650 * Level::all().len(), "{all} words of turns");
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn values_that_are_not_there_are_not_read() {
        push_values(Level::best(), &[5], [&[0_u64; 62], &[0]], &mut vec![]);
    }
}
