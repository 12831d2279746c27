//! Any of our functions over the distinct values of its argument.

use std::{any::Any, iter::repeat_n, mem, ops::Range, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, UInt32Array,
    builder::{ArrayBuilder, PrimitiveBuilder},
    cast::AsArray,
    new_empty_array,
    types::*,
};
use arrow_schema::{DataType, Field, FieldRef};
use thalweg_core::{
    Error, Result,
    aggregate::{Accumulator, Aggregate, Exactness, Follower, Slide, Totals, Windows, builder},
    moving::{Bag, Moving},
};
use thalweg_memory::kernels::{exact_sum::ExactSum, hash::hash_columns};

use super::{
    Function,
    extreme::canonical,
    float::doubles,
    lists,
    rows::{alike, counted, counting, not_a_state},
};
use crate::aggregate::groups::{Groups, KeyEncoder, Numbers, packed::Packed};

/// The function over the distinct values of its only argument, if these can be told apart.
pub fn distinct(function: Function, arguments: &[DataType]) -> Option<Arc<dyn Aggregate>> {
    let [kind] = arguments else { return None };
    KeyEncoder::new(arguments).ok()?;
    hash_columns(&[new_empty_array(kind)], 0).ok()?;
    Some(Arc::new(Distinct { function: Arc::new(function), kind: kind.clone() }))
}

#[derive(Debug)]
struct Distinct {
    function: Arc<Function>,
    kind: DataType,
}

impl Aggregate for Distinct {
    fn output(&self) -> DataType {
        self.function.output()
    }

    fn state(&self) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new("values", lists::kind(&self.kind), true))])
    }

    fn exactness(&self) -> Exactness {
        self.function.exactness()
    }

    fn counts_distinct(&self) -> bool {
        self.function.name == "count"
    }

    fn slide(&self) -> Option<&dyn Slide> {
        (self.counts_distinct() || self.function.totals().is_some()).then_some(self)
    }

    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        let encoders = [KeyEncoder::new(&[DataType::UInt32])?, KeyEncoder::new(std::slice::from_ref(&self.kind))?];
        Ok(Box::new(Sets {
            function: self.function.accumulator()?,
            is_count: self.counts_distinct(),
            found: Packed::new(encoders.iter().map(KeyEncoder::groups).collect()),
            encoders,
            count: 0,
        }))
    }
}

impl Distinct {
    /// Without rows.
    fn following(&self) -> Result<Following> {
        let sum = match (self.counts_distinct(), self.function.floats) {
            (true, _) => Sum::Nothing,
            (false, None) => Sum::Whole { amounts: Vec::new(), low: 0, high: 0 },
            (false, Some(_)) => Sum::Floats { values: Vec::new(), sum: ExactSum::default() },
        };
        let times = Times { of: Vec::new(), distinct: 0, sum, rows: Vec::new() };
        let encoder = KeyEncoder::new(std::slice::from_ref(&self.kind))?;
        let (function, moving) = (Arc::clone(&self.function), Moving::new(times));
        Ok(Following { values: encoder.groups(), encoder, function, moving, unused: 0 })
    }
}

impl Slide for Distinct {
    fn results(&self, windows: &Windows<'_>) -> Result<Option<ArrayRef>> {
        let mut following = self.following()?;
        let numbers = following.numbers(windows.arguments, windows.filter)?;
        let change = |times: &mut Times, rows: Range<usize>, comes: bool| {
            numbers[rows].iter().flatten().for_each(|number| times.change(*number, comes));
            Ok(())
        };
        let found = windows.follow(&mut following.moving.bag, change, |times| Ok(times.found(&self.function)))?;
        results(&self.function, &found).map(Some)
    }

    fn follower(&self) -> Option<Box<dyn Follower>> {
        Some(Box::new(self.following().ok()?))
    }
}

/// How many distinct values there are in the windows of a key, or what they come to, from batch to batch.
struct Following {
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

/// The distinct values of all groups.
struct Sets {
    function: Box<dyn Accumulator>,
    is_count: bool,
    /// Of groups, and of values.
    encoders: [KeyEncoder; 2],
    /// Pairs of group and value, in the order in which they were first seen.
    found: Packed,
    count: usize,
}

impl Sets {
    /// The group of each pair.
    fn groups(&self) -> Result<impl Iterator<Item = usize>> {
        let groups = self.found.first().ok_or_else(|| Error::bug("groups are whole numbers"))?;
        Ok(groups.map(|group| group as usize))
    }

    /// How many values each group has.
    fn lengths(&self) -> Result<Vec<usize>> {
        let mut lengths = vec![0; self.count];
        self.groups()?.for_each(|group| lengths[group] += 1);
        Ok(lengths)
    }

    /// All values, by group.
    fn values(&self, lengths: &[usize]) -> Result<ArrayRef> {
        let mut next: Vec<usize> =
            lengths.iter().scan(0, |end, length| Some(mem::replace(end, *end + length))).collect();
        let mut order = vec![0; self.found.count()];
        for (number, group) in self.groups()?.enumerate() {
            order[next[group]] = number as u32;
            next[group] += 1;
        }
        let columns = self.found.key_columns(&self.encoders, &order.into())?;
        columns.into_iter().nth(1).ok_or_else(not_a_state)
    }
}

impl Accumulator for Sets {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        self.count = self.count.max(count);
        let counting = counting(arguments, filter);
        let rows = counting.map(|counting| UInt32Array::from_iter_values(counting.set_indices().map(|row| row as u32)));
        let groups = self.encoders[0].encode(&[Arc::new(UInt32Array::from(groups.to_vec()))], groups.len())?;
        let values = self.encoders[1].encode(&[canonical(&arguments[0])?], arguments[0].len())?;
        self.found.number(&[groups, values], rows.as_ref());
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        let (values, groups) = lists::read(&states[0], groups)?;
        self.update(&[values], None, &groups, count)
    }

    fn can_absorb(&self) -> bool {
        true
    }

    fn absorb(&mut self, other: &dyn Accumulator, groups: &[u32], count: usize) -> Result<()> {
        self.count = self.count.max(count);
        let other: &Self = alike(other)?;
        self.found.absorb_with(&other.found, |group| i64::from(groups[group as usize]));
        Ok(())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        let lengths = self.lengths()?;
        let values = self.values(&lengths)?;
        self.count = 0;
        self.found = Packed::new(self.encoders.iter().map(KeyEncoder::groups).collect());
        Ok(vec![lists::written(&lengths, values)?])
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        let lengths = self.lengths()?;
        let result: ArrayRef = match self.is_count {
            true => Arc::new(Int64Array::from_iter_values(lengths.iter().map(|length| *length as i64))),
            false => {
                let each = lengths.iter().zip(0..);
                let groups: Vec<u32> = each.flat_map(|(length, group)| std::iter::repeat_n(group, *length)).collect();
                self.function.update(&[self.values(&lengths)?], None, &groups, self.count)?;
                self.function.take_result()?
            }
        };
        self.found.clear();
        self.count = 0;
        Ok(result)
    }

    fn bytes(&self) -> usize {
        self.found.size()
    }
}
