//! Exact sums of many values at once, in vectors as far as the values allow; each value that does not fit goes the long way.

use arrow_buffer::BooleanBuffer;

use super::{ExactSum, UNIT, WIDEST, dyadic::power_of_two};
use crate::simd::{Level, at_level, prefetch};

/// How many values are looked at together.
const LANES: usize = 64;

/// How many values go through the folds together: their sum has eight bits more than the largest of them.
const FOLDED: usize = 256;

/// How many sums go beside each other.
const CHAINS: usize = 32;

/// How many bytes ahead of the values that are added memory is asked for.
const AHEAD: usize = 2048;

/// Adds each value into the sum of its group; rows that are not `valid` are left out. Returns whether some value did not fit
/// the window of its sum, which keeps bytes beside itself then.
pub fn add_grouped(
    level: Level,
    sums: &mut [ExactSum],
    values: &[f64],
    valid: Option<&BooleanBuffer>,
    groups: &[u32],
) -> bool {
    assert_eq!(values.len(), groups.len(), "one group per value");
    let Some(valid) = valid else { return add_each(level, sums, values, groups) };
    assert_eq!(values.len(), valid.len(), "one bit per value");
    let rows = values.iter().zip(groups).zip(valid.iter());
    rows.fold(false, |is_beyond, ((value, group), is_in)| is_beyond | sums[*group as usize].add_if(*value, is_in))
}

at_level! {
    fn add_each(sums: &mut [ExactSum], values: &[f64], groups: &[u32]) -> bool = each, false, true
}

at_level! {
    /// Adds all values into one sum; returns whether some value did not fit its window.
    pub fn add_all(sum: &mut ExactSum, values: &[f64]) -> bool = all
}

/// Vectors help where each of their numbers can be shifted by bits of its own, which AVX2 does first.
#[inline(always)]
fn each(has_shifts: bool, sums: &mut [ExactSum], values: &[f64], groups: &[u32]) -> bool {
    let mut is_beyond = false;
    let (mut low, mut high) = ([0; LANES], [0; LANES]);
    for (values, groups) in values.chunks(LANES).zip(groups.chunks(LANES)) {
        if has_shifts
            && let (Some(values), Some(groups)) = (values.as_array(), groups.as_array::<LANES>())
            && fixed(values, &mut low, &mut high)
        {
            for lane in 0..LANES {
                let sum = &mut sums[groups[lane] as usize];
                sum.count = sum.count.wrapping_add(1);
                match sum.window.overflowing_add(i128::from(high[lane]) << 64 | i128::from(low[lane])) {
                    (window, false) => sum.window = window,
                    _ => {
                        sum.add_to_rest(values[lane]);
                        is_beyond = true;
                    }
                }
            }
        } else {
            let rows = values.iter().zip(groups);
            rows.for_each(|(value, group)| is_beyond |= sums[*group as usize].add_if(*value, true));
        }
    }
    is_beyond
}

/// A sum that is exact in any order.
#[inline(always)]
fn plain(values: &[f64; FOLDED]) -> f64 {
    let (rows, _) = values.as_chunks::<CHAINS>();
    let mut sums = [0.0; CHAINS];
    for row in rows {
        for lane in 0..CHAINS {
            sums[lane] += row[lane];
        }
    }
    sums.into_iter().sum()
}

/// The upper and lower halves of what [`super::fixed`] gives, if all values fit the window. A shift by 64 or more gives 0, as
/// vectors have it.
#[inline(always)]
fn fixed(values: &[f64; LANES], low: &mut [u64; LANES], high: &mut [i64; LANES]) -> bool {
    let left = |number: u64, bits: u64| if bits < 64 { number << (bits & 63) } else { 0 };
    let right = |number: u64, bits: u64| if bits < 64 { number >> (bits & 63) } else { 0 };
    let mut widest = 0;
    for lane in 0..LANES {
        let bits = values[lane].to_bits();
        let nonzero = if bits << 1 == 0 { 0 } else { u64::MAX };
        let mantissa = (bits & ((1 << 52) - 1)) | (nonzero & 1 << 52);
        let shift = ((bits >> 52) & 0x7ff).wrapping_sub((1075 + UNIT) as u64) & nonzero;
        widest |= if shift > WIDEST { u64::MAX } else { 0 };
        let (lower, upper) = (left(mantissa, shift), right(mantissa, 64_u64.wrapping_sub(shift)));
        let upper = upper | left(mantissa, shift.wrapping_sub(64));
        let sign = (bits as i64 >> 63) as u64;
        let carry = if lower == 0 { sign } else { 0 };
        low[lane] = (lower ^ sign).wrapping_sub(sign);
        high[lane] = (upper ^ sign).wrapping_sub(carry) as i64;
    }
    widest == 0
}

/// Folds each value into multiples of two units, so large that sums of so many multiples are floats without an error, and so
/// small that nothing is left.
///
/// ```text
/// value = a * 2^(e - 43) + b * 2^(e - 87), where 2^e is at most the largest value
/// ```
///
/// Source: Demmel and Nguyen, "Parallel Reproducible Summation", 2015.
#[inline(always)]
fn all(sum: &mut ExactSum, values: &[f64]) -> bool {
    let mut is_beyond = false;
    for values in values.chunks(FOLDED) {
        prefetch(values, AHEAD);
        let folded = values.as_array::<FOLDED>().and_then(folds);
        match folded.and_then(|part| sum.window.checked_add(part)) {
            Some(window) => {
                sum.window = window;
                sum.count = sum.count.wrapping_add(FOLDED as u64);
            }
            None => values.iter().for_each(|value| is_beyond |= sum.add_if(*value, true)),
        }
    }
    is_beyond
}

/// The sum in units of the window, if the values do not differ too much.
#[inline(always)]
fn folds(values: &[f64; FOLDED]) -> Option<i128> {
    let (rows, _) = values.as_chunks::<CHAINS>();
    let mut largest = [0.0_f64; CHAINS];
    for row in rows {
        for lane in 0..CHAINS {
            let size = row[lane].abs();
            largest[lane] = if size > largest[lane] { size } else { largest[lane] };
        }
    }
    let largest = largest.into_iter().fold(0.0, f64::max);
    if largest == 0.0 {
        // NaN is not larger than zero either.
        return values.iter().all(|value| *value == 0.0).then_some(0);
    }
    let exponent = (largest.to_bits() >> 52) as i32 - 1023;
    if !(-22..=43).contains(&exponent) {
        return None;
    }
    // A number of this size has no bits below the unit, so that adding it rounds, and subtracting it again is exact.
    let rounding = |unit: i32| 1.5 * power_of_two(52 + unit);
    let (coarse, fine) = (rounding(exponent - 43), rounding((exponent - 87).max(UNIT)));
    let (mut first, mut second) = ([0.0; FOLDED], [0.0; FOLDED]);
    // One thing a loop, or the compiler takes the chains apart.
    for i in 0..FOLDED {
        first[i] = values[i] + coarse - coarse;
    }
    for i in 0..FOLDED {
        second[i] = values[i] - first[i] + fine - fine;
    }
    let mut left = [0; CHAINS];
    for row in 0..FOLDED / CHAINS {
        for (lane, left) in left.iter_mut().enumerate() {
            let i = row * CHAINS + lane;
            *left |= (values[i] - first[i] - second[i]).to_bits();
        }
    }
    let units = |parts: &[f64; FOLDED]| (plain(parts) * power_of_two(-UNIT)) as i128;
    left.into_iter().all(|left| left == 0).then(|| units(&first) + units(&second))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    /// Values of a kind: their sizes are near each other, near a bound of the window or of the folds, or anything.
    fn values(random: &mut StdRng) -> Vec<f64> {
        let count = [3, 64, 256, 300, 1100][random.random_range(0..5)];
        let exponents = match random.random_range(0..9) {
            0 => 0..1,
            1 => -30..30,
            2 => -23..-20,
            3 => 42..47,
            7 => -45..-38,
            4 => 50..55,
            5 => -22..43,
            6 => -60..60,
            _ => 0..30,
        };
        let special = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 5e-324, 2.0_f64.powi(-74)];
        let share = [0.0, 0.0, 0.003, 0.5][random.random_range(0..4)];
        let zeros = random.random_bool(0.1);
        // Of both signs, or as large as a sum of this size can become; with few bits or with all.
        let (smallest, cut) = ([-2.0, 1.9][random.random_range(0..2)], [0, 9, 30, 45][random.random_range(0..4)]);
        let one = |random: &mut StdRng| match () {
            () if random.random_bool(share) => special[random.random_range(0..special.len())],
            () if zeros => 0.0,
            () => {
                let size = random.random_range(smallest..2.0) * 2.0_f64.powi(random.random_range(exponents.clone()));
                f64::from_bits(size.to_bits() >> cut << cut)
            }
        };
        (0..count).map(|_| one(random)).collect()
    }

    fn written(sum: &ExactSum) -> (Vec<u8>, u64) {
        let mut bytes = Vec::new();
        sum.write(&mut bytes);
        (bytes, sum.count())
    }

    #[test]
    fn many_at_once_are_the_same_as_one_by_one() {
        let mut random = StdRng::seed_from_u64(5);
        for round in 0..3000 {
            let level = Level::all()[round % Level::all().len()];
            let (mut all, mut each) = (ExactSum::default(), ExactSum::default());
            let mut sums = vec![ExactSum::default(); random.random_range(1..20)];
            let mut expected = sums.clone();
            for _ in 0..3 {
                let values = values(&mut random);
                let had_bytes = all.bytes() > 0;
                let is_beyond = add_all(level, &mut all, &values);
                values.iter().for_each(|value| each.add(*value));
                assert_eq!(written(&all), written(&each), "round {round}, {}", level.name());
                assert!(is_beyond || had_bytes || all.bytes() == 0, "round {round}: bytes that nobody was told of");

                let groups: Vec<u32> = values.iter().map(|_| random.random_range(0..sums.len() as u32)).collect();
                let valid = random.random_bool(0.3);
                let valid: Option<BooleanBuffer> =
                    valid.then(|| values.iter().map(|_| random.random_bool(0.7)).collect());
                let was_beyond = sums.iter().any(|sum| sum.bytes() > 0);
                let is_beyond = add_grouped(level, &mut sums, &values, valid.as_ref(), &groups);
                for (row, (value, group)) in values.iter().zip(groups).enumerate() {
                    if valid.as_ref().is_none_or(|valid| valid.value(row)) {
                        expected[group as usize].add(*value);
                    }
                }
                let all_written = |sums: &[ExactSum]| sums.iter().map(written).collect::<Vec<_>>();
                assert_eq!(all_written(&sums), all_written(&expected), "round {round}, {}", level.name());
                let has_bytes = sums.iter().any(|sum| sum.bytes() > 0);
                assert!(is_beyond || was_beyond || !has_bytes, "round {round}: bytes that nobody was told of");
            }
        }
    }

    #[test]
    fn what_is_not_valid_is_left_out() {
        let mut sums = vec![ExactSum::default(); 3];
        let valid = BooleanBuffer::from(vec![true, false, true, true]);
        add_grouped(Level::best(), &mut sums, &[1.0, f64::NAN, 2.5, 1e-300], Some(&valid), &[0, 0, 2, 0]);
        add_grouped(Level::best(), &mut sums, &[4.0], None, &[2]);
        let found: Vec<_> = sums.iter().map(|sum| (sum.value(), sum.count())).collect();
        assert_eq!(found, [(1.0, 2), (0.0, 0), (6.5, 2)]);
    }
}
