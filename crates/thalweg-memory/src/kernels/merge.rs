//! Two ascending sequences become one: whose turn it is, as a bit for each row, and then the values, column by column.
//!
//! ```text
//!   one   2 3 7 8       turns, the first in the lowest bit      0 1 0 0 1 1 0 0 …
//!   two   2 5 6 9                                               2 2 3 7 5 6 …  (with the numbers that tell the twos apart)
//! ```
//!
//! Whose turn it is depends on whose turn it was: a chain of loads and comparisons, eight cycles a row. So a stretch of the result is divided
//! in four, where a search says of how many rows of each every quarter begins, and four chains run side by side.
//!
//! Source: Odeh, Green, Mwassi, Shmueli, Birk: "Merge Path: Parallel Merging Made Simple", IPDPS workshops 2012.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::_pdep_u64;
use std::hint::select_unpredictable;

use arrow_buffer::NullBuffer;

use super::select::bits::word_at;
use crate::simd::{Level, at_level};

/// So many rows of the result are found together.
pub const STRETCH: usize = 256;

/// How many chains run side by side: each finds a word of turns.
const CHAINS: usize = STRETCH / 64;

/// Times that ascend, and the numbers of rows, by which those of one time ascend.
pub type Keys<'a> = [&'a [i64]; 2];

/// Adds whose turn it is in the order of both, [`STRETCH`] rows at a time: a set bit is the second one's. Returns how many rows of each
/// have had their turn.
///
/// It ends where either has fewer rows than that, after `limit` rows, where two rows have the same key, where keys are too far apart for one
/// word, and behind 64 rows in a row of one of both.
pub fn push_turns(level: Level, [mut one, mut two]: [Keys<'_>; 2], limit: usize, turns: &mut Vec<u64>) -> [usize; 2] {
    let mut taken = [0, 0];
    while taken[0] + taken[1] + STRETCH <= limit {
        let (Some(ones), Some(twos)) = (stretch(one), stretch(two)) else { break };
        let Some(found) = of_stretch(level, ones, twos) else { break };
        turns.extend(found);
        let of_two = found.iter().map(|word| word.count_ones() as usize).sum();
        one = one.map(|keys| &keys[STRETCH - of_two..]);
        two = two.map(|keys| &keys[of_two..]);
        taken = [taken[0] + STRETCH - of_two, taken[1] + of_two];
        if found.iter().any(|word| matches!(*word, 0 | u64::MAX)) {
            break;
        }
    }
    taken
}

type Stretch<'a> = [&'a [i64; STRETCH]; 2];

fn stretch([times, numbers]: Keys<'_>) -> Option<Stretch<'_>> {
    Some([times.first_chunk()?, numbers.first_chunk()?])
}

at_level! {
    /// Whose turn it is, if no key is in both, and all of them fit into words.
    fn of_stretch(one: Stretch<'_>, two: Stretch<'_>) -> Option<[u64; CHAINS]> = find
}

#[inline(always)]
fn find(one: Stretch<'_>, two: Stretch<'_>) -> Option<[u64; CHAINS]> {
    let [one, two] = packed(one, two)?;
    let mut next: [usize; CHAINS] = std::array::from_fn(|chain| before(&one, &two, chain * 64));
    let (mut turns, mut ties) = ([0; CHAINS], 0);
    for step in 0..64 {
        for chain in 0..CHAINS {
            // Neither is ever as large as the stretch is long.
            let row = next[chain];
            let other = chain * 64 + step - row;
            let (left, right) = (one[row % STRETCH], two[other % STRETCH]);
            let is_first = left < right;
            ties |= u64::from(left == right);
            turns[chain] = turns[chain] >> 1 | u64::from(!is_first) << 63;
            next[chain] = row + usize::from(is_first);
        }
    }
    (ties == 0).then_some(turns)
}

/// The keys as words that compare as they do, if there are enough bits: the time's distance to the earliest one, and the bits of the number
/// in which numbers differ.
#[inline(always)]
fn packed(one: Stretch<'_>, two: Stretch<'_>) -> Option<[[u64; STRETCH]; 2]> {
    let ([times, numbers], [others, of_others]) = (one, two);
    let earliest = times[0].min(others[0]);
    let span = times[STRETCH - 1].max(others[STRETCH - 1]).checked_sub(earliest)?;
    let mut differ = 0;
    for (number, other) in numbers.iter().zip(of_others) {
        differ |= (number ^ numbers[0]) | (other ^ numbers[0]);
    }
    let bits = u64::BITS - differ.leading_zeros();
    // Where numbers with and without a sign differ in all bits, none is left for the time.
    if bits >= u64::BITS || bits > span.leading_zeros() {
        return None;
    }
    let mask = (1 << bits) - 1;
    let pack = |times: &[i64; STRETCH], numbers: &[i64; STRETCH]| -> [u64; STRETCH] {
        std::array::from_fn(|row| ((times[row] - earliest) as u64) << bits | (numbers[row] as u64 & mask))
    };
    Some([pack(times, numbers), pack(others, of_others)])
}

/// How many of the first so many rows of the result are of the first one.
#[inline(always)]
fn before(one: &[u64; STRETCH], two: &[u64; STRETCH], rows: usize) -> usize {
    let (mut least, mut unknown) = (0, rows);
    while unknown > 0 {
        let half = unknown / 2;
        let middle = least + half;
        let is_before = one[middle] < two[rows - 1 - middle];
        least = select_unpredictable(is_before, middle + 1, least);
        unknown = select_unpredictable(is_before, unknown - half - 1, half);
    }
    least
}

/// What has the width of a column of numbers.
pub trait Value: Copy + private::Expand {}

impl Value for u32 {}
impl Value for u64 {}

/// Adds the values of both, as it is their turn. Panics if there are fewer than turns.
pub fn push_values<T: Value>(level: Level, turns: &[u64], [one, two]: [&[T]; 2], values: &mut Vec<T>) {
    let of_two: usize = turns.iter().map(|word| word.count_ones() as usize).sum();
    let (mut one, mut two) = (&one[..turns.len() * 64 - of_two], &two[..of_two]);
    values.reserve(turns.len() * 64);
    if T::expand(level, turns, one, two, values) {
        return;
    }
    for word in turns {
        let (ones, twos);
        (twos, two) = two.split_at(word.count_ones() as usize);
        (ones, one) = one.split_at(word.count_zeros() as usize);
        if ones.is_empty() || twos.is_empty() {
            values.extend_from_slice(ones);
            values.extend_from_slice(twos);
            continue;
        }
        let (mut left, mut right) = (0, 0);
        values.extend((0..64).map(|bit| {
            let is_two = word >> bit & 1 == 1;
            // The one that has no more is not the one whose turn it is.
            let value = (ones[left.min(ones.len() - 1)], twos[right.min(twos.len() - 1)]);
            (left, right) = (left + usize::from(!is_two), right + usize::from(is_two));
            select_unpredictable(is_two, value.1, value.0)
        }));
    }
}

at_level! {
    /// Adds which of both rows have a value, as it is their turn: a word for each. Of both it is said which have one, all where nothing is said,
    /// and from which row on it is their turn.
    pub fn push_valid(turns: &[u64], of: [(Option<&NullBuffer>, usize); 2], valid: &mut Vec<u64>) = deposit_all,
    deposit, |bits, places| _pdep_u64(bits, places)
}

#[inline(always)]
fn deposit_all(
    deposit: impl Fn(u64, u64) -> u64,
    turns: &[u64],
    [(one, mut left), (two, mut right)]: [(Option<&NullBuffer>, usize); 2],
    valid: &mut Vec<u64>,
) {
    let next = |nulls: Option<&NullBuffer>, row: usize| {
        nulls.map_or(u64::MAX, |nulls| word_at(nulls.validity(), nulls.offset() + row))
    };
    valid.extend(turns.iter().map(|of_two| {
        let word = deposit(next(one, left), !of_two) | deposit(next(two, right), *of_two);
        left += of_two.count_zeros() as usize;
        right += of_two.count_ones() as usize;
        word
    }));
}

/// The first bits, one for each bit that is set, at the places of these.
fn deposit(mut bits: u64, mut places: u64) -> u64 {
    let mut word = 0;
    while places != 0 {
        let place = places & places.wrapping_neg();
        word |= place * (bits & 1);
        bits >>= 1;
        places &= places - 1;
    }
    word
}

mod private {
    use crate::simd::Level;

    /// What AVX-512 can put at the places of bits.
    pub trait Expand: Sized {
        /// Adds the values of both if this machine can, which are as many as there are bits, with room for them; whether it could.
        fn expand(level: Level, turns: &[u64], one: &[Self], two: &[Self], values: &mut Vec<Self>) -> bool;
    }

    macro_rules! expand {
        ($value:ident, $lanes:literal, $mask:ident, $place:ident, $place_others:ident, $store:ident) => {
            impl Expand for $value {
                #[allow(unsafe_code)]
                fn expand(level: Level, turns: &[u64], one: &[Self], two: &[Self], values: &mut Vec<Self>) -> bool {
                    #[cfg(target_arch = "x86_64")]
                    {
                        use std::arch::x86_64::{$place, $place_others, $store};

                        #[target_feature(enable = "avx512f,popcnt")]
                        fn push(turns: &[u64], one: &[$value], two: &[$value], values: &mut Vec<$value>) {
                            let rows = turns.len() * 64;
                            let of_two: usize = turns.iter().map(|word| word.count_ones() as usize).sum();
                            assert!(two.len() == of_two && one.len() == rows - of_two, "a value for each turn");
                            values.reserve(rows);
                            let (mut left, mut right) = (one.as_ptr(), two.as_ptr());
                            let mut to = values.spare_capacity_mut().as_mut_ptr();
                            for word in turns {
                                for lanes in 0..64 / $lanes {
                                    let of_two = (word >> (lanes * $lanes)) as $mask;
                                    let count = of_two.count_ones() as usize;
                                    // SAFETY: as many values are read of each as there are bits of it, and all of these together are as
                                    // many as there are values; there is room for them.
                                    unsafe {
                                        let ones = $place(!of_two, left.cast());
                                        $store(to.cast(), $place_others(ones, of_two, right.cast()));
                                        (left, right, to) =
                                            (left.add($lanes - count), right.add(count), to.add($lanes));
                                    }
                                }
                            }
                            // SAFETY: so many were written behind those that were there.
                            unsafe { values.set_len(values.len() + rows) };
                        }

                        if level.kind() == crate::simd::Kind::Avx512 {
                            // SAFETY: a level is only made where the machine has its instructions.
                            unsafe { push(turns, one, two, values) };
                            return true;
                        }
                    }
                    let _ = (level, turns, one, two, values);
                    false
                }
            }
        };
    }

    expand!(u32, 16, u16, _mm512_maskz_expandloadu_epi32, _mm512_mask_expandloadu_epi32, _mm512_storeu_epi32);
    expand!(u64, 8, u8, _mm512_maskz_expandloadu_epi64, _mm512_mask_expandloadu_epi64, _mm512_storeu_epi64);
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

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
        assert!(all > 2000, "{all} words of turns");
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn values_that_are_not_there_are_not_read() {
        push_values(Level::best(), &[5], [&[0_u64; 62], &[0]], &mut vec![]);
    }
}
