//! Which rows have a value, put together.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::_pdep_u64;

use arrow_buffer::NullBuffer;

use super::super::select::bits::word_at;
use crate::simd::at_level;

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
