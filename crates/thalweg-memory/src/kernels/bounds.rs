//! The smallest and the largest of many numbers, and whether they ascend.

use crate::simd::{Level, at_level, prefetch};

/// The smallest and the largest number; `None` if there is none.
pub fn bounds(level: Level, values: &[i64]) -> Option<(i64, i64)> {
    extent(level, values).map(|extent| (extent.least, extent.most))
}

/// The bounds of some numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The smallest.
    pub least: i64,
    /// The largest.
    pub most: i64,
    /// Whether none is less than the one before.
    pub ascends: bool,
}

/// The bounds of some numbers, and whether they ascend; `None` if there is none.
pub fn extent(level: Level, values: &[i64]) -> Option<Extent> {
    let (first, last) = (*values.first()?, *values.last()?);
    let sorted = ascending(level, values);
    if sorted == values.len() {
        return Some(Extent { least: first, most: last, ascends: true });
    }
    let (least, most) = extremes(level, &values[sorted..]);
    Some(Extent { least: least.min(first), most: most.max(values[sorted.max(1) - 1]), ascends: false })
}

/// So many numbers have bounds of their own.
pub const PART: usize = 64;

/// The bounds of some numbers as [`extent`] finds them. `parts` holds those of each [`PART`] of them then, or nothing if they ascend.
pub fn extent_in_parts(level: Level, values: &[i64], parts: &mut Vec<(i64, i64)>) -> Option<Extent> {
    parts.clear();
    let (first, last) = (*values.first()?, *values.last()?);
    if ascending(level, values) == values.len() {
        return Some(Extent { least: first, most: last, ascends: true });
    }
    bounds_of_parts(level, values, parts);
    let wider = |(least, most): (i64, i64), (low, high): &(i64, i64)| (least.min(*low), most.max(*high));
    let (least, most) = parts.iter().fold((first, first), wider);
    Some(Extent { least, most, ascends: false })
}

at_level! {
    /// Appends the bounds of each [`PART`] of some numbers.
    pub fn bounds_of_parts(values: &[i64], parts: &mut Vec<(i64, i64)>) = bounds_of_parts_of
}

#[inline(always)]
fn bounds_of_parts_of(values: &[i64], parts: &mut Vec<(i64, i64)>) {
    let first = parts.len();
    parts.resize(first + values.len().div_ceil(PART), (i64::MAX, i64::MIN));
    for (bounds, part) in parts[first..].iter_mut().zip(values.chunks(PART)) {
        prefetch(part, AHEAD);
        *bounds = extremes_in(part, *bounds);
    }
}

/// How many numbers are looked at together.
const CHUNK: usize = 256;

/// How many bytes ahead of the numbers that are looked at memory is asked for: often nobody has touched them before.
const AHEAD: usize = 2048;

at_level! {
    /// How many numbers at the start ascend, in whole chunks; all of them if all do.
    fn ascending(values: &[i64]) -> usize = ascending_of
}

at_level! {
    fn extremes(values: &[i64]) -> (i64, i64) = extremes_of
}

/// A chunk is looked at as a whole, together with the first number of the next.
#[inline(always)]
fn ascending_of(values: &[i64]) -> usize {
    let next = values.get(1..).unwrap_or_default();
    let mut chunks = values.chunks(CHUNK).zip(next.chunks(CHUNK));
    let ascends = |(values, next): (&[i64], &[i64])| {
        prefetch(values, AHEAD);
        values.iter().zip(next).fold(true, |ascends, (value, next)| ascends & (value <= next))
    };
    chunks.position(|chunk| !ascends(chunk)).map_or(values.len(), |chunk| chunk * CHUNK)
}

/// A plain loop: the compiler keeps several chains of its own, so that none waits for another. Arrays of chains, written out,
/// it takes apart into single numbers.
#[inline(always)]
fn extremes_of(values: &[i64]) -> (i64, i64) {
    values.chunks(CHUNK).fold((i64::MAX, i64::MIN), |so_far, chunk| {
        prefetch(chunk, AHEAD);
        extremes_in(chunk, so_far)
    })
}

#[inline(always)]
fn extremes_in(values: &[i64], so_far: (i64, i64)) -> (i64, i64) {
    values.iter().fold(so_far, |(least, most), value| (least.min(*value), most.max(*value)))
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
                let ascends = extent(level, &values).is_none_or(|extent| extent.ascends);
                assert_eq!(ascends, values.is_sorted(), "seed {seed}, {}", level.name());
                let mut parts = vec![(7, 7)];
                assert_eq!(extent_in_parts(level, &values, &mut parts), extent(level, &values));
                let of_parts =
                    values.chunks(PART).map(|part| (*part.iter().min().unwrap(), *part.iter().max().unwrap()));
                assert_eq!(parts, if ascends { Vec::new() } else { of_parts.collect() }, "seed {seed}");
            }
        }
    }
}
