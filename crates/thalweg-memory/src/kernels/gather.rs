//! The values of some rows, and which rows have a value.

use super::select::{BLOCK, Comparison, compare_constant};
use crate::simd::{Level, at_level, prefetch};

/// So many rows are read at a time, and a hint is given for so many of these: where every other row is read they lie in two lines.
const STEP: usize = 8;
const HINTED: usize = 4;

/// How many bytes ahead of the values that are read memory is asked for: others wrote them, and rows may leap.
const AHEAD: usize = 4096;

/// The values of these rows, one behind the other. Panics if there is no such row.
#[allow(unsafe_code)]
pub fn of_rows<T: Copy>(level: Level, values: &[T], rows: &[u32]) -> Vec<T> {
    assert!(rows.is_empty() || (largest(level, rows) as usize) < values.len(), "rows that are there");
    let mut found = Vec::with_capacity(rows.len());
    let room = &mut found.spare_capacity_mut()[..rows.len()];
    let ((steps, last), (room_of_steps, room_of_last)) = (rows.as_chunks::<STEP>(), room.as_chunks_mut::<STEP>());
    for (room, rows) in room_of_steps.iter_mut().zip(steps) {
        for row in rows.iter().step_by(HINTED) {
            prefetch(&values[*row as usize..][..1], AHEAD);
        }
        for (room, row) in room.iter_mut().zip(rows) {
            // SAFETY: the largest row is less than the values are many.
            room.write(unsafe { *values.get_unchecked(*row as usize) });
        }
    }
    for (room, row) in room_of_last.iter_mut().zip(last) {
        room.write(values[*row as usize]);
    }
    // SAFETY: as many were written.
    unsafe { found.set_len(rows.len()) };
    found
}

at_level! {
    fn largest(rows: &[u32]) -> u32 = largest_of
}

#[inline(always)]
fn largest_of(rows: &[u32]) -> u32 {
    rows.iter().copied().fold(0, u32::max)
}

/// Adds the numbers of the values that are this one, ascending.
pub fn push_equal(level: Level, values: &[u32], value: u32, numbers: &mut Vec<u32>) {
    let mut first = 0;
    for block in values.chunks(BLOCK) {
        let mut is_equal = super::select::bits::NONE;
        compare_constant(level, block, value, Comparison::Equal, &mut is_equal);
        super::select::bits::push_numbers(level, &is_equal[..block.len().div_ceil(64)], first, numbers);
        first += block.len() as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_rows_and_rows_those_of_the_value_at_every_level() {
        for (count, level) in
            [0, 1, 63, 64, 65, 1000, 1024, 5000].into_iter().flat_map(|n| Level::all().into_iter().map(move |l| (n, l)))
        {
            let values: Vec<u32> = (0..count).map(|row: u32| row.wrapping_mul(2_654_435_761) >> 30).collect();
            for value in 0..5 {
                let expected: Vec<u32> = (0..count).filter(|row| values[*row as usize] == value).collect();
                let mut found = vec![7];
                push_equal(level, &values, value, &mut found);
                assert_eq!((found[0], &found[1..]), (7, &expected[..]), "{count} {level:?}");
                let reversed: Vec<u32> = expected.iter().rev().copied().collect();
                let wide: Vec<i64> = (0..i64::from(count)).map(|row| row * row).collect();
                let squares: Vec<i64> = reversed.iter().map(|row| i64::from(*row).pow(2)).collect();
                assert_eq!(of_rows(level, &wide, &reversed), squares);
            }
        }
    }

    #[test]
    #[should_panic(expected = "rows that are there")]
    fn a_row_that_is_not_there_is_not_read() {
        of_rows(Level::best(), &[1_u64, 2, 3], &[0, 3, 1]);
    }
}
