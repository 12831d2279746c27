//! Which rows of a batch a predicate keeps: comparisons, arithmetic and logic, fused, a block of rows at a time.
//!
//! A predicate is a tree. Each block of [`BLOCK`] rows goes through the whole tree while it lies in the fastest cache; what
//! travels between the nodes is bits (which rows are true, which are unknown), or a block of values. A value that cannot be
//! computed, for a row that was asked for, leaves the predicate [`Undecided`]: whoever asked has another way, and the words
//! for the error.
//!
//! * [`bits`]: rows as bits, and as numbers
//! * [`lane`]: comparison of numbers
//! * [`number`]: arithmetic, remainders
//! * [`column`]: a batch's columns as slices

pub mod bits;
pub mod column;
pub mod lane;
pub mod number;
#[cfg(test)]
mod tests;

use arrow_array::{ArrayRef, RecordBatch};
use thalweg_core::Selection;

use crate::simd::{Level, at_level};
use bits::Bits;
use column::{Column, with_lanes};
use lane::Lane;
use number::{Number, Residue};

/// How many rows go through a predicate together.
pub const BLOCK: usize = 1024;

/// A condition on rows. Columns are named by their number.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// A comparison of two values of one type.
    Compare(Comparison, Value, Value),
    /// A whole number that is one of these.
    In(usize, Vec<i64>),
    /// Whether a column's remainder is a certain one.
    Residue(usize, Residue),
    /// A column of booleans.
    Flag(usize),
    /// True where a column has no value.
    IsNull(usize),
    /// Always the same; `None` is unknown.
    Always(Option<bool>),
    /// True where all are; false where one is.
    And(Vec<Predicate>),
    /// True where one is; false where all are.
    Or(Vec<Predicate>),
    /// True where it is false.
    Not(Box<Predicate>),
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A value of each row. All parts of a value, and both sides of a comparison, have one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A column.
    Column(usize),
    /// A column of a narrower type, as numbers of this one.
    Widened(NumberType, usize),
    /// The same for all rows.
    Constant(Constant),
    /// Computed, by numbers of this type.
    Arithmetic(NumberType, Operation, Box<Value>, Box<Value>),
}

/// A constant, of the type of the column that it is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constant {
    /// A whole number, a date or a time.
    Whole(i64),
    /// A whole number that may be above all others.
    Unsigned(u64),
    /// A decimal's digits.
    Wide(i128),
    /// A float.
    Float(f64),
}

/// The types that are computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberType {
    /// INT.
    Int32,
    /// BIGINT.
    Int64,
    /// FLOAT.
    Float32,
    /// DOUBLE.
    Float64,
}

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
    /// `%`
    Modulo,
}

/// A value could not be computed for a row that it was asked for, or a column does not have the type that was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecided;

type Result<T> = std::result::Result<T, Undecided>;

/// The rows of a selection (`None` is all) for which the predicate is true.
pub fn select(
    predicate: &Predicate,
    rows: &RecordBatch,
    selection: Option<&Selection>,
    level: Level,
) -> Result<Selection> {
    let columns: Vec<Option<Column<'_>>> = rows.columns().iter().map(|column: &ArrayRef| Column::new(column)).collect();
    let evaluation = Evaluation { columns, level };
    let mask = selection.map(|selection| selection.to_mask(rows.num_rows()));
    let mut words = Vec::with_capacity(rows.num_rows().div_ceil(BLOCK) * (BLOCK / 64));
    for from in (0..rows.num_rows()).step_by(BLOCK) {
        let block = Block { from, rows: BLOCK.min(rows.num_rows() - from) };
        let asked = match &mask {
            None => bits::first(block.rows),
            Some(mask) => bits::of_buffer(mask.values(), from, block.rows),
        };
        let is_asked = mask.is_none() || bits::any(&asked);
        words.extend(if is_asked { evaluation.truth(predicate, block, &asked)?.is_true } else { bits::NONE });
    }
    let count = bits::count(&words);
    Ok(match selection {
        Some(before) if count == before.len() => before.clone(),
        _ => Selection::new(bits::numbers(level, &words, count)),
    })
}

/// Which rows a predicate is true for, and which it is not known for. Only bits of rows that were asked for are set.
#[derive(Clone, Copy)]
struct Truth {
    is_true: Bits,
    is_unknown: Bits,
}

/// Some neighbouring rows.
#[derive(Clone, Copy)]
struct Block {
    from: usize,
    rows: usize,
}

struct Evaluation<'a> {
    columns: Vec<Option<Column<'a>>>,
    level: Level,
}

impl<'a> Evaluation<'a> {
    fn column(&self, number: usize) -> Result<&Column<'a>> {
        self.columns.get(number).and_then(Option::as_ref).ok_or(Undecided)
    }

    fn truth(&self, predicate: &Predicate, block: Block, asked: &Bits) -> Result<Truth> {
        let is_known = |is_true, known| Truth {
            is_true: bits::and(is_true, bits::and(*asked, known)),
            is_unknown: bits::and_not(*asked, known),
        };
        match predicate {
            Predicate::Compare(comparison, left, right) => {
                let (is_true, known) = self.compare(*comparison, left, right, block, asked)?;
                Ok(is_known(is_true, known))
            }
            Predicate::In(column, list) => {
                let column = self.column(*column)?;
                let mut is_true = bits::NONE;
                with_lanes!(column, lanes => whole_in(&lanes[block.from..][..block.rows], list, &mut is_true)?);
                Ok(is_known(is_true, column.known(block.from, block.rows)))
            }
            Predicate::Residue(column, residue) => {
                let column = self.column(*column)?;
                let mut is_true = bits::NONE;
                match column {
                    Column::Int64(lanes, _) => {
                        residue_wide(self.level, &lanes[block.from..][..block.rows], *residue, &mut is_true)
                    }
                    Column::Int32(lanes, _) => {
                        residue_narrow(self.level, &lanes[block.from..][..block.rows], *residue, &mut is_true)
                    }
                    _ => return Err(Undecided),
                }
                Ok(is_known(is_true, column.known(block.from, block.rows)))
            }
            Predicate::Flag(column) => {
                let Column::Boolean(values, _) = self.column(*column)? else { return Err(Undecided) };
                let is_true = bits::of_buffer(values, block.from, block.rows);
                Ok(is_known(is_true, self.column(*column)?.known(block.from, block.rows)))
            }
            Predicate::IsNull(column) => {
                let known = self.column(*column)?.known(block.from, block.rows);
                Ok(Truth { is_true: bits::and_not(*asked, known), is_unknown: bits::NONE })
            }
            Predicate::Always(value) => Ok(match value {
                Some(true) => Truth { is_true: *asked, is_unknown: bits::NONE },
                Some(false) => Truth { is_true: bits::NONE, is_unknown: bits::NONE },
                None => Truth { is_true: bits::NONE, is_unknown: *asked },
            }),
            Predicate::Not(inner) => {
                let Truth { is_true, is_unknown } = self.truth(inner, block, asked)?;
                Ok(Truth { is_true: bits::and_not(bits::and_not(*asked, is_true), is_unknown), is_unknown })
            }
            Predicate::And(parts) => {
                // A row that is false already is not asked further.
                let (mut open, mut is_unknown) = (*asked, bits::NONE);
                for part in parts {
                    let truth = self.truth(part, block, &open)?;
                    open = bits::or(truth.is_true, truth.is_unknown);
                    is_unknown = bits::and(bits::or(is_unknown, truth.is_unknown), open);
                    if !bits::any(&open) {
                        break;
                    }
                }
                Ok(Truth { is_true: bits::and_not(open, is_unknown), is_unknown })
            }
            Predicate::Or(parts) => {
                let (mut open, mut is_true, mut is_unknown) = (*asked, bits::NONE, bits::NONE);
                for part in parts {
                    let truth = self.truth(part, block, &open)?;
                    is_true = bits::or(is_true, truth.is_true);
                    is_unknown = bits::and_not(bits::or(is_unknown, truth.is_unknown), is_true);
                    open = bits::and_not(open, truth.is_true);
                    if !bits::any(&open) {
                        break;
                    }
                }
                Ok(Truth { is_true, is_unknown })
            }
        }
    }

    /// For which rows a comparison holds, and for which both sides are known.
    fn compare(
        &self,
        comparison: Comparison,
        left: &Value,
        right: &Value,
        block: Block,
        asked: &Bits,
    ) -> Result<(Bits, Bits)> {
        match (left, right) {
            (Value::Column(column), Value::Constant(constant)) => {
                let column = self.column(*column)?;
                let mut is_true = bits::NONE;
                with_lanes!(column, lanes => {
                    let constant = constant.to_lane().ok_or(Undecided)?;
                    compare_constant(self.level, &lanes[block.from..][..block.rows], constant, comparison, &mut is_true);
                });
                Ok((is_true, column.known(block.from, block.rows)))
            }
            (Value::Column(left), Value::Column(right)) => {
                let (left, right) = (self.column(*left)?, self.column(*right)?);
                let mut is_true = bits::NONE;
                with_lanes!(left, lanes => {
                    let others = right.lanes_like(lanes).ok_or(Undecided)?;
                    let (lanes, others) = (&lanes[block.from..][..block.rows], &others[block.from..][..block.rows]);
                    compare_columns(self.level, lanes, others, comparison, &mut is_true);
                });
                Ok((is_true, bits::and(left.known(block.from, block.rows), right.known(block.from, block.rows))))
            }
            _ => match left.number_type().or(right.number_type()).ok_or(Undecided)? {
                NumberType::Int32 => self.compare_computed::<i32>(comparison, left, right, block, asked),
                NumberType::Int64 => self.compare_computed::<i64>(comparison, left, right, block, asked),
                NumberType::Float32 => self.compare_computed::<f32>(comparison, left, right, block, asked),
                NumberType::Float64 => self.compare_computed::<f64>(comparison, left, right, block, asked),
            },
        }
    }

    fn compare_computed<T: Number + FromConstant + FromColumn>(
        &self,
        comparison: Comparison,
        left: &Value,
        right: &Value,
        block: Block,
        asked: &Bits,
    ) -> Result<(Bits, Bits)> {
        let (mut one, mut other, mut is_true) = ([T::default(); BLOCK], [T::default(); BLOCK], bits::NONE);
        let known = self.compute(left, block, asked, &mut one)?;
        let known = bits::and(known, self.compute(right, block, asked, &mut other)?);
        compare_columns(self.level, &one[..block.rows], &other[..block.rows], comparison, &mut is_true);
        Ok((is_true, known))
    }

    /// Computes a block of values; returns which of them are known.
    fn compute<T: Number + FromConstant + FromColumn>(
        &self,
        value: &Value,
        block: Block,
        asked: &Bits,
        values: &mut [T; BLOCK],
    ) -> Result<Bits> {
        match value {
            Value::Column(column) | Value::Widened(_, column) => {
                let column = self.column(*column)?;
                T::copy(column, &mut values[..block.rows], block.from).ok_or(Undecided)?;
                Ok(column.known(block.from, block.rows))
            }
            Value::Constant(constant) => {
                values[..block.rows].fill(constant.to_lane().ok_or(Undecided)?);
                Ok(bits::first(block.rows))
            }
            Value::Arithmetic(_, operation, left, right) => {
                let known = self.compute(left, block, asked, values)?;
                let mut failed = bits::NONE;
                let known = if let Value::Constant(constant) = &**right {
                    let constant = constant.to_lane().ok_or(Undecided)?;
                    with_constant(self.level, &mut values[..block.rows], constant, *operation, &mut failed);
                    known
                } else {
                    let mut others = [T::default(); BLOCK];
                    let known = bits::and(known, self.compute(right, block, asked, &mut others)?);
                    with_others(self.level, &mut values[..block.rows], &others[..block.rows], *operation, &mut failed);
                    known
                };
                match bits::any(&bits::and(failed, bits::and(known, *asked))) {
                    true => Err(Undecided),
                    false => Ok(known),
                }
            }
        }
    }
}

impl Value {
    fn number_type(&self) -> Option<NumberType> {
        match self {
            Self::Arithmetic(number_type, ..) | Self::Widened(number_type, _) => Some(*number_type),
            Self::Column(_) | Self::Constant(_) => None,
        }
    }
}

impl Constant {
    fn to_lane<T: FromConstant>(self) -> Option<T> {
        T::from_constant(self)
    }
}

/// A lane that a constant may be turned into, exactly.
pub trait FromConstant: Lane {
    /// The constant as a lane, if it is one.
    fn from_constant(constant: Constant) -> Option<Self>;
}

macro_rules! from_constant {
    ($($kind:ty),*) => { $(
        impl FromConstant for $kind {
            fn from_constant(constant: Constant) -> Option<Self> {
                match constant {
                    Constant::Whole(value) => value.try_into().ok(),
                    Constant::Unsigned(value) => value.try_into().ok(),
                    Constant::Wide(value) => value.try_into().ok(),
                    Constant::Float(_) => None,
                }
            }
        }
    )* };
}

from_constant!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

impl FromConstant for f64 {
    fn from_constant(constant: Constant) -> Option<Self> {
        if let Constant::Float(value) = constant { Some(value) } else { None }
    }
}

impl FromConstant for f32 {
    fn from_constant(constant: Constant) -> Option<Self> {
        let Constant::Float(value) = constant else { return None };
        (f64::from(value as f32).same(value)).then_some(value as f32)
    }
}

/// A number that a column may hold, or be widened to.
pub trait FromColumn: Sized {
    /// Copies a column's values from a row on.
    fn copy(column: &Column<'_>, values: &mut [Self], from: usize) -> Option<()>;
}

macro_rules! from_column {
    ($kind:ty: $($variant:ident),*) => {
        impl FromColumn for $kind {
            fn copy(column: &Column<'_>, values: &mut [Self], from: usize) -> Option<()> {
                match column {
                    $(Column::$variant(lanes, _) => {
                        let lanes = &lanes[from..from + values.len()];
                        values.iter_mut().zip(lanes).for_each(|(value, lane)| *value = (*lane).into());
                    })*
                    _ => return None,
                }
                Some(())
            }
        }
    };
}

from_column!(i32: Int8, Int16, Int32, UInt8, UInt16);
from_column!(i64: Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32);
from_column!(f32: Int8, Int16, UInt8, UInt16, Float32);
from_column!(f64: Int8, Int16, Int32, UInt8, UInt16, UInt32, Float32, Float64);

at_level! {
    /// Compares each value with a constant.
    fn compare_constant[T: Lane](values: &[T], constant: T, comparison: Comparison, is_true: &mut Bits) = constants
}

at_level! {
    /// Compares each value with the other's.
    fn compare_columns[T: Lane](values: &[T], others: &[T], comparison: Comparison, is_true: &mut Bits) = columns
}

at_level! {
    fn residue_wide(values: &[i64], residue: Residue, is_true: &mut Bits) = residues::<i64>
}

at_level! {
    fn residue_narrow(values: &[i32], residue: Residue, is_true: &mut Bits) = residues::<i32>
}

at_level! {
    fn with_constant[T: Number](values: &mut [T], constant: T, operation: Operation, failed: &mut Bits) = computed_constant
}

at_level! {
    fn with_others[T: Number](values: &mut [T], others: &[T], operation: Operation, failed: &mut Bits) = computed
}

/// One bit per value. Written so that the compiler makes vectors of it: a lane keeps its place in the word.
#[inline(always)]
fn each<T: Lane>(values: &[T], is_true: &mut Bits, test: impl Fn(T) -> bool) {
    let (words, rest) = values.as_chunks::<64>();
    for (word, bits) in words.iter().zip(is_true.iter_mut()) {
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
fn constants<T: Lane>(values: &[T], constant: T, comparison: Comparison, is_true: &mut Bits) {
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
fn columns<T: Lane>(values: &[T], others: &[T], comparison: Comparison, is_true: &mut Bits) {
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
fn pairs<T: Lane>(values: &[T], others: &[T], is_true: &mut Bits, test: impl Fn(T, T) -> bool) {
    let chunks = values.chunks(64).zip(others.chunks(64));
    for ((values, others), bits) in chunks.zip(is_true.iter_mut()) {
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

#[inline(always)]
fn residues<T: Lane + Into<i64>>(values: &[T], residue: Residue, is_true: &mut Bits) {
    each(values, is_true, |value| residue.holds(value.into()));
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
fn whole_in<T: FromConstant>(values: &[T], list: &[i64], is_true: &mut Bits) -> Result<()> {
    // What does not fit the column's type is not in the column.
    let list: Vec<T> = list.iter().filter_map(|value| T::from_constant(Constant::Whole(*value))).collect();
    if list.is_empty() {
        *is_true = bits::NONE;
        return Ok(());
    }
    each(values, is_true, |value| list.iter().any(|one| *one == value));
    Ok(())
}
