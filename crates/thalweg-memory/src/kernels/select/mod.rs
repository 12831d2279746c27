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
//! * [`constant`]: constants and columns as numbers of the type that is asked for
//! * [`loops`]: the loops over values

pub mod bits;
pub mod column;
pub mod constant;
pub mod lane;
mod loops;
pub mod number;
#[cfg(test)]
mod tests;

use arrow_array::{ArrayRef, RecordBatch};
use thalweg_core::Selection;

use crate::simd::Level;
use bits::Bits;
use column::{Column, with_lanes};
use constant::{FromColumn, FromConstant};
pub(super) use loops::compare_constant;
use loops::{compare_columns, residue_narrow, residue_wide, whole_in, with_constant, with_others};
use number::{Number, Residue};

/// How many rows go through a predicate together.
pub const BLOCK: usize = 1024;

/// How many rows go at a time through a predicate without parts.
const STEP: usize = 256;

/// Which numbers are larger than this one: a bit for each, 64 of them in a word.
pub fn above(level: Level, numbers: &[u64], limit: u64) -> Vec<u64> {
    let mut are_above = vec![0; numbers.len().div_ceil(64)];
    compare_constant(level, numbers, limit, Comparison::Greater, &mut are_above);
    are_above
}

/// Which numbers are less than the one before: a bit for each, 64 of them in a word.
pub fn falls(level: Level, numbers: &[u64], falls: &mut Vec<u64>) {
    falls.clear();
    falls.resize(numbers.len().div_ceil(64), 0);
    let Some(behind) = numbers.get(1..) else { return };
    compare_columns(level, behind, numbers, Comparison::Less, falls);
    // Who is compared stands one place further on.
    let mut last = 0;
    for bits in falls {
        last = std::mem::replace(bits, *bits << 1 | last) >> 63;
    }
}

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

/// The rows of a selection (`None` is all) for which the predicate is true; `None` where all of them stay.
pub fn select(
    predicate: &Predicate,
    rows: &RecordBatch,
    selection: Option<&Selection>,
    level: Level,
) -> Result<Option<Selection>> {
    let columns: Vec<Option<Column<'_>>> = rows.columns().iter().map(|column: &ArrayRef| Column::new(column)).collect();
    let evaluation = Evaluation { columns, level };
    let mut kept = Kept { level, all: 0, numbers: Vec::new() };
    if selection.is_some() || !evaluation.alone(predicate, rows.num_rows(), &mut kept)? {
        evaluation.fused(predicate, rows.num_rows(), selection, &mut kept)?;
    }
    Ok(kept.selection(selection.map_or(rows.num_rows(), Selection::len)))
}

/// The rows that stay, as they are found.
struct Kept {
    level: Level,
    /// So many rows from the first on stay all: as long as that is so, none has its number written down.
    all: usize,
    numbers: Vec<u32>,
}

impl Kept {
    /// The rows of the next block that stay.
    fn add(&mut self, words: &[u64], block: Block) {
        if self.all == block.from {
            if bits::count(words) == block.rows {
                self.all += block.rows;
                return;
            }
            self.numbers.extend(0..block.from as u32);
        }
        bits::push_numbers(self.level, words, block.from as u32, &mut self.numbers);
    }

    /// `None` if all of the rows that were in stay.
    fn selection(self, before: usize) -> Option<Selection> {
        (self.all.max(self.numbers.len()) < before).then(|| Selection::new(self.numbers))
    }
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

    /// Finds where a predicate without parts is true; false for others. The next rows are fetched while the numbers of these
    /// are written: what needs nothing but a column from far memory comes nearly as fast as the column.
    fn alone(&self, predicate: &Predicate, rows: usize, kept: &mut Kept) -> Result<bool> {
        for from in (0..rows).step_by(STEP) {
            let block = Block { from, rows: STEP.min(rows - from) };
            let mut words = [0; STEP / 64];
            let Some(column) = self.leaf(predicate, block, &mut words)? else { return Ok(false) };
            if column.has_nulls() {
                let known = column.known(from, block.rows);
                words.iter_mut().zip(known).for_each(|(word, known)| *word &= known);
            }
            kept.add(&words, block);
        }
        Ok(true)
    }

    /// Finds where a predicate is true among the rows of a selection, all of it for a block of rows before the next block.
    fn fused(&self, predicate: &Predicate, rows: usize, selection: Option<&Selection>, kept: &mut Kept) -> Result<()> {
        let mask = selection.map(|selection| selection.to_mask(rows));
        for from in (0..rows).step_by(BLOCK) {
            let block = Block { from, rows: BLOCK.min(rows - from) };
            let asked = match &mask {
                None => bits::first(block.rows),
                Some(mask) => bits::of_buffer(mask.values(), from, block.rows),
            };
            let is_true = match mask.is_none() || bits::any(&asked) {
                true => self.truth(predicate, block, &asked)?.is_true,
                false => bits::NONE,
            };
            kept.add(&is_true, block);
        }
        Ok(())
    }

    /// Where a predicate that looks at one column alone is true, if it is such, and the column: what it says of rows without
    /// value means nothing.
    fn leaf(&self, predicate: &Predicate, rows: Block, is_true: &mut [u64]) -> Result<Option<&Column<'a>>> {
        let rows = rows.from..rows.from + rows.rows;
        let column = match predicate {
            Predicate::Compare(comparison, Value::Column(column), Value::Constant(constant)) => {
                let column = self.column(*column)?;
                with_lanes!(column, lanes => {
                    let constant = constant.to_lane().ok_or(Undecided)?;
                    compare_constant(self.level, &lanes[rows], constant, *comparison, is_true);
                });
                column
            }
            Predicate::In(column, list) => {
                let column = self.column(*column)?;
                with_lanes!(column, lanes => whole_in(&lanes[rows], list, is_true));
                column
            }
            Predicate::Residue(column, residue) => {
                let column = self.column(*column)?;
                match column {
                    Column::Int64(lanes, _) => residue_wide(self.level, &lanes[rows], *residue, is_true),
                    Column::Int32(lanes, _) => residue_narrow(self.level, &lanes[rows], *residue, is_true),
                    _ => return Err(Undecided),
                }
                column
            }
            _ => return Ok(None),
        };
        Ok(Some(column))
    }

    fn truth(&self, predicate: &Predicate, block: Block, asked: &Bits) -> Result<Truth> {
        let is_known = |is_true, known| Truth {
            is_true: bits::and(is_true, bits::and(*asked, known)),
            is_unknown: bits::and_not(*asked, known),
        };
        let mut is_true = bits::NONE;
        if let Some(column) = self.leaf(predicate, block, &mut is_true)? {
            return Ok(is_known(is_true, column.known(block.from, block.rows)));
        }
        match predicate {
            Predicate::In(..) | Predicate::Residue(..) => Err(Undecided),
            Predicate::Compare(comparison, left, right) => {
                let (is_true, known) = self.compare(*comparison, left, right, block, asked)?;
                Ok(is_known(is_true, known))
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
