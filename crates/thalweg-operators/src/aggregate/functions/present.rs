//! The distinct values in windows: how many there are, or what they come to, while rows come and go.

use std::{iter::repeat_n, ops::Range, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BooleanArray, UInt32Array,
    builder::{ArrayBuilder, PrimitiveBuilder},
    cast::AsArray,
    types::*,
};
use arrow_schema::DataType;
use thalweg_core::{
    Error, Result,
    aggregate::{Aggregate, Follower, Totals, Windows, builder},
    moving::{Bag, Moving},
};
use thalweg_memory::kernels::exact_sum::ExactSum;

use super::{Function, extreme::canonical, float::doubles, rows::counted};
use crate::aggregate::groups::{Groups, KeyEncoder, Numbers};

/// How many distinct values there are in the windows of a key, or what they come to, from batch to batch.
pub struct Following {
    encoder: KeyEncoder,
    /// What is made of them.
    function: Arc<Function>,
    /// Each value's number.
    values: Groups,
    moving: Moving<Times>,
    /// How many numbers have no row.
    unused: usize,
}

/// How often each value, by its number, is in a window, how many are there, and their sum.
struct Times {
    of: Vec<u32>,
    distinct: u64,
    sum: Sum,
    /// How many rows have it, in the window or not.
    rows: Vec<u32>,
}

/// What each value adds to the sum of those that are there, and this sum.
enum Sum {
    /// Nobody asks for it.
    Nothing,
    /// Whole numbers: the sum as 128 bits hold it, and how often it has left these, above or below.
    Whole {
        amounts: Vec<i128>,
        low: i128,
        high: i64,
    },
    Floats {
        values: Vec<f64>,
        sum: ExactSum,
    },
}

/// What the distinct values of a window come to.
enum Found {
    /// So many, and their sum as in [`Sum::Whole`].
    Whole(u64, i128, i64),
    /// The result.
    Float(Option<f64>),
}

impl Bag for Times {
    type Value = u32;

    fn change(&mut self, value: u32, comes: bool) {
        let times = &mut self.of[value as usize];
        let is_one = if comes { *times == 0 } else { *times == 1 };
        *times = if comes { *times + 1 } else { *times - 1 };
        if !is_one {
            return;
        }
        let sign = if comes { 1 } else { -1 };
        self.distinct = self.distinct.wrapping_add_signed(sign);
        match &mut self.sum {
            Sum::Nothing => {}
            Sum::Whole { amounts, low, high } => {
                let amount = amounts[value as usize];
                let (sum, leaves) = if comes { low.overflowing_add(amount) } else { low.overflowing_sub(amount) };
                (*low, *high) = (sum, *high + i64::from(leaves) * sign * amount.signum() as i64);
            }
            Sum::Floats { values, sum } if comes => sum.add(values[value as usize]),
            Sum::Floats { values, sum } => sum.subtract(values[value as usize]),
        }
    }

    fn bytes(&self) -> usize {
        let sum = match &self.sum {
            Sum::Nothing => 0,
            Sum::Whole { amounts, .. } => amounts.capacity() * size_of::<i128>(),
            Sum::Floats { values, sum } => values.capacity() * size_of::<f64>() + sum.bytes(),
        };
        size_of::<Self>() + (self.of.capacity() + self.rows.capacity()) * size_of::<u32>() + sum
    }
}

impl Times {
    fn found(&self, function: &Function) -> Found {
        match (&self.sum, function.floats) {
            (Sum::Floats { sum, .. }, Some(shape)) => Found::Float(shape.value(sum)),
            (Sum::Whole { low, high, .. }, _) => Found::Whole(self.distinct, *low, *high),
            _ => Found::Whole(self.distinct, 0, 0),
        }
    }

    /// Values have come that have the next numbers.
    fn extend(&mut self, values: &ArrayRef, function: &Function) -> Result<()> {
        match &mut self.sum {
            Sum::Nothing => {}
            Sum::Whole { amounts, .. } => {
                let found = totals(function)?.amounts(std::slice::from_ref(values), None, values.len())?.amounts;
                amounts.extend((0..values.len()).map(|row| found.get(row)));
            }
            Sum::Floats { values: all, .. } => all.extend(doubles(values).values()),
        }
        for counts in [&mut self.of, &mut self.rows] {
            counts.resize(counts.len() + values.len(), 0);
        }
        Ok(())
    }

    /// Only the values of these numbers are left.
    fn keep(&mut self, numbers: &[u32]) {
        fn kept<T: Copy>(all: &mut Vec<T>, numbers: &[u32]) {
            *all = numbers.iter().map(|number| all[*number as usize]).collect();
        }
        kept(&mut self.of, numbers);
        kept(&mut self.rows, numbers);
        match &mut self.sum {
            Sum::Nothing => {}
            Sum::Whole { amounts, .. } => kept(amounts, numbers),
            Sum::Floats { values, .. } => kept(values, numbers),
        }
    }
}

fn totals(function: &Function) -> Result<&dyn Totals> {
    function.totals().ok_or_else(|| Error::bug("a function without totals follows windows"))
}

/// The results of a function of distinct values.
fn results(function: &Function, found: &[Found]) -> Result<ArrayRef> {
    if let Some(shape) = function.floats {
        return Ok(shape.column(found.iter().map(|found| if let Found::Float(value) = found { *value } else { None })));
    }
    let (count, mut accumulator) = (found.len(), function.accumulator()?);
    let (mut groups, mut counts, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    for (group, found) in (0..).zip(found) {
        let Found::Whole(count, low, high) = found else { continue };
        groups.push(group);
        counts.push(*count);
        sums.push(*low);
        // A sum that 128 bits do not hold is one of several that they hold.
        let more = 4 * high.unsigned_abs() as usize;
        groups.extend(repeat_n(group, more));
        counts.extend(repeat_n(0, more));
        sums.extend(repeat_n(i128::from(high.signum()) << 126, more));
    }
    accumulator.merge(&totals(function)?.states(&counts, &sums)?, &groups, count)?;
    accumulator.take_result()
}

/// So many numbers may have no row, however few have one.
const UNUSED: usize = if cfg!(test) { 3 } else { 1_024 };

impl Following {
    /// Without rows: what a function comes to of distinct values of this kind.
    ///
    /// Errors: if these cannot be told apart.
    pub fn new(function: &Arc<Function>, kind: &DataType) -> Result<Self> {
        let sum = match (function.name.as_str(), function.floats) {
            ("count", _) => Sum::Nothing,
            (_, None) => Sum::Whole { amounts: Vec::new(), low: 0, high: 0 },
            (_, Some(_)) => Sum::Floats { values: Vec::new(), sum: ExactSum::default() },
        };
        let times = Times { of: Vec::new(), distinct: 0, sum, rows: Vec::new() };
        let encoder = KeyEncoder::new(std::slice::from_ref(kind))?;
        let (function, moving) = (Arc::clone(function), Moving::new(times));
        Ok(Self { values: encoder.groups(), encoder, function, moving, unused: 0 })
    }

    /// The results of windows of rows that are all there, once.
    pub fn once(mut self, windows: &Windows<'_>) -> Result<ArrayRef> {
        let numbers = self.numbers(windows.arguments, windows.filter)?;
        let change = |times: &mut Times, rows: Range<usize>, comes: bool| {
            numbers[rows].iter().flatten().for_each(|number| times.change(*number, comes));
            Ok(())
        };
        let found = windows.follow(&mut self.moving.bag, change, |times| Ok(times.found(&self.function)))?;
        results(&self.function, &found)
    }

    fn numbers(&mut self, arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<Option<u32>>> {
        let Self { values, encoder, moving: Moving { bag: times, .. }, .. } = self;
        let numbers = each_number(values, encoder, canonical(&arguments[0])?)?;
        let new = UInt32Array::from_iter_values(times.rows.len() as u32..values.count() as u32);
        if !new.is_empty() {
            times.extend(&values.columns(encoder, &new)?[0], &self.function)?;
            self.unused += new.len();
        }
        Ok(counted(arguments, filter, numbers.into_iter()))
    }

    /// Forgets values that no row has, if they are many.
    fn forget_unused(&mut self) {
        let rows = &self.moving.bag.rows;
        if self.unused <= UNUSED.max(rows.len() / 2) {
            return;
        }
        let used: Vec<u32> = (0..rows.len() as u32).filter(|number| rows[*number as usize] > 0).collect();
        let mut new = vec![0; rows.len()];
        used.iter().zip(0..).for_each(|(number, place)| new[*number as usize] = place);
        self.moving.bag.keep(&used);
        self.values = self.values.only(&used.into());
        self.moving.map(|number| new[number as usize]);
        self.unused = 0;
    }
}

impl Follower for Following {
    fn insert(&mut self, arguments: &[ArrayRef], filter: Option<&BooleanArray>, places: &[usize]) -> Result<()> {
        let numbers = self.numbers(arguments, filter)?;
        for number in numbers.iter().flatten() {
            let rows = &mut self.moving.bag.rows[*number as usize];
            self.unused -= usize::from(*rows == 0);
            *rows += 1;
        }
        self.moving.insert(numbers, places);
        Ok(())
    }

    fn drop_first(&mut self, rows: usize) {
        let unused = &mut self.unused;
        self.moving.drop_first(rows, |times, number| {
            let rows = &mut times.rows[number as usize];
            *rows -= 1;
            *unused += usize::from(*rows == 0);
        });
        self.forget_unused();
    }

    fn results(&mut self, windows: &Windows<'_>, found: &mut dyn ArrayBuilder) -> Result<()> {
        let own = if windows.own.is_some() { self.numbers(windows.arguments, windows.filter)? } else { Vec::new() };
        let in_each = self.moving.follow(windows, &own, |times| Ok(times.found(&self.function)))?;
        self.forget_unused();
        append(&results(&self.function, &in_each)?, found)
    }

    fn bytes(&self) -> usize {
        self.values.size() + self.moving.bytes() + self.moving.bag.bytes()
    }
}

/// The number of each value of a column.
fn each_number(values: &mut Groups, encoder: &KeyEncoder, column: ArrayRef) -> Result<Vec<u32>> {
    let rows = column.len();
    Ok(match values.number(&encoder.encode(&[column], rows)?, None) {
        Numbers::One(number) => vec![number; rows],
        Numbers::Each(numbers) => numbers,
    })
}

/// Appends results, of the types that counts, sums and means have.
fn append(results: &ArrayRef, found: &mut dyn ArrayBuilder) -> Result<()> {
    macro_rules! append {
        ($($kind:ty),*) => {
            $(if let Some(results) = results.as_primitive_opt::<$kind>() {
                builder::<PrimitiveBuilder<$kind>>(found)?.append_array(results);
                return Ok(());
            })*
        };
    }
    append!(Int64Type, UInt64Type, Float32Type, Float64Type, Decimal128Type);
    append!(DurationSecondType, DurationMillisecondType, DurationMicrosecondType, DurationNanosecondType);
    Err(Error::bug("a sum of another type"))
}
