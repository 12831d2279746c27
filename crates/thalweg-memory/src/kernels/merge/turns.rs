//! Whose turn it is.
//!
//! Whose turn it is depends on whose turn it was: a chain of loads and comparisons, eight cycles a row. So a stretch of the result is divided
//! in four, where a search says of how many rows of each every quarter begins, and four chains run side by side.
//!
//! Source: Odeh, Green, Mwassi, Shmueli, Birk: "Merge Path: Parallel Merging Made Simple", IPDPS workshops 2012.

use std::hint::select_unpredictable;

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
