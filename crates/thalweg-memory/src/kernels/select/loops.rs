//! The loops over values, each compiled for every level of instructions.

use super::{
    Comparison, Constant, Operation,
    bits::Bits,
    constant::FromConstant,
    lane::Lane,
    number::{Number, Residue},
};
use crate::simd::{at_level, prefetch};

at_level! {
    /// Compares each value with a constant.
    pub fn compare_constant[T: Lane](values: &[T], constant: T, comparison: Comparison, is_true: &mut [u64]) = constants
}

at_level! {
    /// Compares each value with the other's.
    pub fn compare_columns[T: Lane](values: &[T], others: &[T], comparison: Comparison, is_true: &mut [u64]) = columns
}

at_level! {
    /// Which values have a remainder.
    pub fn residue_wide(values: &[i64], residue: Residue, is_true: &mut [u64]) = residues::<i64>
}

at_level! {
    /// Which values have a remainder.
    pub fn residue_narrow(values: &[i32], residue: Residue, is_true: &mut [u64]) = residues::<i32>
}

at_level! {
    /// Computes each value with a constant, and says where it does not fit.
    pub fn with_constant[T: Number](values: &mut [T], constant: T, operation: Operation, failed: &mut Bits) = computed_constant
}

at_level! {
    /// Computes each value with the other's, and says where it does not fit.
    pub fn with_others[T: Number](values: &mut [T], others: &[T], operation: Operation, failed: &mut Bits) = computed
}

/// How many bytes ahead of the values that are looked at memory is asked for. The machine does so itself, but only up to the
/// next page: asking costs an instruction for each eight numbers, and columns that do not lie in a cache come a quarter faster.
const AHEAD: usize = 2048;

/// One bit per value. Written so that the compiler makes vectors of it: a lane keeps its place in the word.
#[inline(always)]
fn each<T: Lane>(values: &[T], is_true: &mut [u64], test: impl Fn(T) -> bool) {
    let (words, rest) = values.as_chunks::<64>();
    for (word, bits) in words.iter().zip(is_true.iter_mut()) {
        prefetch(word, AHEAD);
        *bits = word_of(word, &test);
    }
    if let Some(bits) = is_true.get_mut(words.len()) {
        *bits = rest.iter().enumerate().fold(0, |bits, (lane, value)| bits | u64::from(test(*value)) << lane);
    }
}

#[inline(always)]
fn word_of<T: Lane>(values: &[T; 64], test: &impl Fn(T) -> bool) -> u64 {
    let mut bits = 0;
    for (lane, value) in values.iter().enumerate() {
        bits |= u64::from(test(*value)) << lane;
    }
    bits
}

#[inline(always)]
fn constants<T: Lane>(values: &[T], constant: T, comparison: Comparison, is_true: &mut [u64]) {
    if constant.is_nan() {
        return each(values, is_true, |value| match comparison {
            Comparison::Equal | Comparison::GreaterOrEqual => value.is_nan(),
            Comparison::NotEqual | Comparison::Less => !value.is_nan(),
            Comparison::LessOrEqual => true,
            Comparison::Greater => false,
        });
    }
    // A comparison with NaN is false; where a value that is NaN must be above, its negation is what is asked.
    #[allow(clippy::neg_cmp_op_on_partial_ord)]
    match comparison {
        Comparison::Equal => each(values, is_true, |value| value == constant),
        Comparison::NotEqual => each(values, is_true, |value| value != constant),
        Comparison::Less => each(values, is_true, |value| value < constant),
        Comparison::LessOrEqual => each(values, is_true, |value| value <= constant),
        Comparison::Greater => each(values, is_true, |value| !(value <= constant)),
        Comparison::GreaterOrEqual => each(values, is_true, |value| !(value < constant)),
    }
}

#[inline(always)]
fn columns<T: Lane>(values: &[T], others: &[T], comparison: Comparison, is_true: &mut [u64]) {
    match comparison {
        Comparison::Equal => pairs(values, others, is_true, |a, b| a.same(b)),
        Comparison::NotEqual => pairs(values, others, is_true, |a, b| !a.same(b)),
        Comparison::Less => pairs(values, others, is_true, |a, b| a.less(b)),
        Comparison::LessOrEqual => pairs(values, others, is_true, |a, b| !b.less(a)),
        Comparison::Greater => pairs(values, others, is_true, |a, b| b.less(a)),
        Comparison::GreaterOrEqual => pairs(values, others, is_true, |a, b| !a.less(b)),
    }
}

#[inline(always)]
fn pairs<T: Lane>(values: &[T], others: &[T], is_true: &mut [u64], test: impl Fn(T, T) -> bool) {
    let chunks = values.chunks(64).zip(others.chunks(64));
    for ((values, others), bits) in chunks.zip(is_true.iter_mut()) {
        prefetch(values, AHEAD);
        prefetch(others, AHEAD);
        *bits = match (values.as_array::<64>(), others.as_array::<64>()) {
            (Some(values), Some(others)) => {
                let mut bits = 0;
                for lane in 0..64 {
                    bits |= u64::from(test(values[lane], others[lane])) << lane;
                }
                bits
            }
            _ => {
                let tests = values.iter().zip(others).map(|(a, b)| test(*a, *b));
                tests.enumerate().fold(0, |bits, (lane, is_true)| bits | u64::from(is_true) << lane)
            }
        };
    }
}

/// Several loops over a word's values, each so simple that the compiler makes vectors of it.
#[inline(always)]
fn residues<T: Lane + Into<i64>>(values: &[T], residue: Residue, is_true: &mut [u64]) {
    let (words, rest) = values.as_chunks::<64>();
    let mut quotients = [0; 64];
    for (word, bits) in words.iter().zip(is_true.iter_mut()) {
        prefetch(word, AHEAD);
        let multiples = match residue.low_bits() {
            Some(mask) => word_of(word, &|value| (value.into().wrapping_sub(residue.remainder())) & mask == 0),
            None => {
                for lane in 0..64 {
                    quotients[lane] = residue.quotient(word[lane].into());
                }
                word_of(&quotients, &|quotient| residue.is_multiple(quotient))
            }
        };
        *bits = match residue.remainder() {
            0 => multiples,
            1.. => multiples & word_of(word, &|value| value.into() > 0),
            _ => multiples & word_of(word, &|value| value.into() < 0),
        };
    }
    if let Some(bits) = is_true.get_mut(words.len()) {
        *bits = (0..).zip(rest).fold(0, |bits, (lane, value)| bits | u64::from(residue.holds((*value).into())) << lane);
    }
}

#[inline(always)]
fn computed_constant<T: Number>(values: &mut [T], constant: T, operation: Operation, failed: &mut Bits) {
    match operation {
        Operation::Plus => apply(values, failed, |_, value| value.plus(constant)),
        Operation::Minus => apply(values, failed, |_, value| value.minus(constant)),
        Operation::Times => apply(values, failed, |_, value| value.times(constant)),
        Operation::Modulo => apply(values, failed, |_, value| value.modulo(constant)),
    }
}

#[inline(always)]
fn computed<T: Number>(values: &mut [T], others: &[T], operation: Operation, failed: &mut Bits) {
    let others = &others[..values.len()];
    match operation {
        Operation::Plus => apply(values, failed, |row, value| value.plus(others[row])),
        Operation::Minus => apply(values, failed, |row, value| value.minus(others[row])),
        Operation::Times => apply(values, failed, |row, value| value.times(others[row])),
        Operation::Modulo => apply(values, failed, |row, value| value.modulo(others[row])),
    }
}

#[inline(always)]
fn apply<T: Number>(values: &mut [T], failed: &mut Bits, compute: impl Fn(usize, T) -> (T, bool)) {
    for (word, (values, failed)) in values.chunks_mut(64).zip(failed.iter_mut()).enumerate() {
        let mut bits = 0;
        for (lane, value) in values.iter_mut().enumerate() {
            let (result, is_failed) = compute(word * 64 + lane, *value);
            *value = result;
            bits |= u64::from(is_failed) << lane;
        }
        *failed = bits;
    }
}

/// Whether each whole number is one of a list.
pub fn whole_in<T: FromConstant>(values: &[T], list: &[i64], is_true: &mut [u64]) {
    // What does not fit the column's type is not in the column.
    let list: Vec<T> = list.iter().filter_map(|value| T::from_constant(Constant::Whole(*value))).collect();
    each(values, is_true, |value| list.contains(&value));
}
