//! Rows as bits: 64 to a word, the first row in the lowest bit.

use arrow_buffer::{BooleanBuffer, NullBuffer};

use super::BLOCK;
use crate::simd::at_level;

/// One bit for each row of a block.
pub type Bits = [u64; BLOCK / 64];

/// No row.
pub const NONE: Bits = [0; BLOCK / 64];

/// The first `rows` rows of a block.
#[inline]
pub fn first(rows: usize) -> Bits {
    // As nearly all blocks are.
    if rows == BLOCK {
        return [u64::MAX; BLOCK / 64];
    }
    std::array::from_fn(|word| match rows.saturating_sub(word * 64) {
        0 => 0,
        rest @ 1..64 => (1 << rest) - 1,
        _ => u64::MAX,
    })
}

/// `rows` bits of a buffer from the one at `from` on, as words.
pub fn of_buffer(buffer: &BooleanBuffer, from: usize, rows: usize) -> Bits {
    let mut bits = NONE;
    let (bytes, from) = (buffer.values(), buffer.offset() + from);
    for (number, word) in bits.iter_mut().enumerate().take(rows.div_ceil(64)) {
        *word = word_at(bytes, from + number * 64);
    }
    and(bits, first(rows))
}

/// Which rows have a value; all, if nothing is said.
pub fn of_nulls(nulls: Option<&NullBuffer>, from: usize, rows: usize) -> Bits {
    nulls.map_or_else(|| first(rows), |nulls| of_buffer(nulls.inner(), from, rows))
}

/// The 64 bits from `bit` on; zeros behind the end.
pub fn word_at(bytes: &[u8], bit: usize) -> u64 {
    let (byte, shift) = (bit / 8, bit % 8);
    let mut near = [0; 16];
    match bytes.get(byte..byte + 16) {
        Some(there) => near.copy_from_slice(there),
        None => {
            let there = &bytes[byte.min(bytes.len())..];
            near[..there.len()].copy_from_slice(there);
        }
    }
    (u128::from_le_bytes(near) >> shift) as u64
}

/// Rows in both.
#[inline]
pub fn and(left: Bits, right: Bits) -> Bits {
    std::array::from_fn(|word| left[word] & right[word])
}

/// Rows in either.
#[inline]
pub fn or(left: Bits, right: Bits) -> Bits {
    std::array::from_fn(|word| left[word] | right[word])
}

/// Rows in the first and not in the second.
#[inline]
pub fn and_not(left: Bits, right: Bits) -> Bits {
    std::array::from_fn(|word| left[word] & !right[word])
}

/// Whether there is any.
#[inline]
pub fn any(bits: &Bits) -> bool {
    bits.iter().any(|word| *word != 0)
}

/// How many there are.
pub fn count(bits: &[u64]) -> usize {
    bits.iter().map(|word| word.count_ones() as usize).sum()
}

at_level! {
    /// Adds the numbers of the bits that are set, ascending, where the first bit's is `first`.
    pub fn push_numbers(words: &[u64], first: u32, numbers: &mut Vec<u32>) = expand
}

/// Eight bits at a time: the numbers of those that are set are written as eight, of which only so many are kept.
#[inline(always)]
#[allow(unsafe_code)]
fn expand(words: &[u64], first: u32, numbers: &mut Vec<u32>) {
    // Not zeroed before: where all rows are kept, that would take as long as the rest.
    numbers.reserve(words.len() * 64 + 8);
    let room = numbers.spare_capacity_mut();
    let mut kept = 0;
    for (position, word) in words.iter().enumerate() {
        let base = first + position as u32 * 64;
        match *word {
            0 => {}
            u64::MAX => {
                room[kept..kept + 64].iter_mut().zip(base..).for_each(|(number, row)| {
                    number.write(row);
                });
                kept += 64;
            }
            // A few are found faster one by one.
            mut few if few.count_ones() <= 2 => {
                while few != 0 {
                    room[kept].write(base + few.trailing_zeros());
                    kept += 1;
                    few &= few - 1;
                }
            }
            some => {
                for (eighth, byte) in some.to_le_bytes().into_iter().enumerate() {
                    let base = base + eighth as u32 * 8;
                    // By value: the compiler makes one vector of an array that cannot overlap another.
                    let eight = OFFSETS[byte as usize].map(|offset| base + u32::from(offset));
                    room[kept..kept + 8].write_copy_of_slice(&eight);
                    kept += byte.count_ones() as usize;
                }
            }
        }
    }
    // SAFETY: so many were written, one behind the other, into room that was reserved.
    unsafe { numbers.set_len(numbers.len() + kept) };
}

/// For each byte, the numbers of its bits that are set.
static OFFSETS: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut kept) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][kept] = bit;
                kept += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Level;

    #[test]
    fn numbers_are_those_of_the_bits_that_are_set() {
        let words = [0, u64::MAX, 1, 1 << 63, 0xff00_ff00_0f0f_3355, 0b1011, u64::MAX >> 1];
        let expected: Vec<u32> =
            (0..words.len() as u32 * 64).filter(|row| words[*row as usize / 64] >> (row % 64) & 1 == 1).collect();
        for level in Level::all() {
            let mut numbers = vec![7];
            push_numbers(level, &words, 0, &mut numbers);
            push_numbers(level, &words[4..], 4096, &mut numbers);
            let further = expected.iter().filter(|row| **row >= 256).map(|row| row - 256 + 4096);
            let all: Vec<u32> = [7].into_iter().chain(expected.iter().copied()).chain(further).collect();
            assert_eq!(numbers, all, "{}", level.name());
        }
    }

    #[test]
    fn bits_of_a_buffer_begin_anywhere() {
        let bools: Vec<bool> = (0..500).map(|row| row % 3 == 0 || row % 7 == 2).collect();
        let buffer = BooleanBuffer::from(bools.clone());
        for (offset, from, rows) in [(0, 0, 500), (3, 0, 490), (5, 64, 100), (1, 7, 1), (0, 499, 1), (0, 500, 0)] {
            let sliced = buffer.slice(offset, 500 - offset);
            let found = of_buffer(&sliced, from, rows);
            for row in 0..BLOCK {
                let expected = row < rows && bools[offset + from + row];
                assert_eq!(found[row / 64] >> (row % 64) & 1 == 1, expected, "{offset} {from} {rows}: {row}");
            }
        }
    }
}
