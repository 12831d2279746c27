//! Any of our functions over the distinct values of its argument.

use std::{any::Any, mem, ops::Range, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, UInt32Array,
    builder::{ArrayBuilder, Int64Builder, PrimitiveBuilder},
    cast::AsArray,
    new_empty_array,
    types::*,
};
use arrow_schema::{DataType, Field, FieldRef};
use thalweg_core::{
    Error, Result,
    aggregate::{Accumulator, Aggregate, Exactness, Follower, Slide, Windows, builder},
    moving::{Bag, Moving},
};
use thalweg_memory::kernels::hash::hash_columns;

use super::{
    Function,
    extreme::canonical,
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
        let function = (!self.counts_distinct()).then(|| Arc::clone(&self.function));
        let encoder = KeyEncoder::new(std::slice::from_ref(&self.kind))?;
        Ok(Following { values: encoder.groups(), encoder, function, moving: Moving::new(Times::default()), unused: 0 })
    }
}

impl Slide for Distinct {
    fn results(&self, windows: &Windows<'_>) -> Result<Option<ArrayRef>> {
        let mut following = self.following()?;
        let numbers = following.numbers(windows.arguments, windows.filter)?;
        let change = |following: &mut Following, rows: Range<usize>, comes: bool| {
            let times = &mut following.moving.bag;
            numbers[rows].iter().flatten().for_each(|number| times.change(*number, comes));
            Ok(())
        };
        let found = windows.follow(&mut following, change, |following| {
            Found::of(&following.moving.bag, &following.values, &following.encoder, following.function.as_deref())
        })?;
        match &self.function {
            _ if self.counts_distinct() => Ok(Some(Arc::new(Int64Array::from_iter_values(counts(&found))))),
            function => of_found(function, found).map(Some),
        }
    }

    fn follower(&self) -> Option<Box<dyn Follower>> {
        Some(Box::new(self.following().ok()?))
    }
}

/// How many distinct values there are in the windows of a key, or what they come to, from batch to batch.
struct Following {
    encoder: KeyEncoder,
    /// What is made of them, if they are not only counted.
    function: Option<Arc<Function>>,
    /// Each value's number.
    values: Groups,
    moving: Moving<Times>,
    /// How many numbers have no row.
    unused: usize,
}

/// How often each value, by its number, is in a window, how many are there, and their sum.
#[derive(Default)]
struct Times {
    of: Vec<u32>,
    /// What each adds to the sum, if that is a number; empty where nobody asks for it.
    amounts: Vec<Option<i128>>,
    distinct: u64,
    /// The sum as far as 128 bits hold it, and how often it has gone beyond them, up or down.
    sum: i128,
    beyond: i64,
    /// How many of them add what is no number.
    unsure: usize,
    /// How many rows have it, in the window or not.
    rows: Vec<u32>,
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
        let amount = self.amounts.get(value as usize).copied().unwrap_or(Some(0));
        let add = |count: i64| if comes { count } else { -count };
        self.distinct = self.distinct.wrapping_add_signed(add(1));
        let Some(amount) = amount else {
            self.unsure = self.unsure.wrapping_add_signed(add(1) as isize);
            return;
        };
        let (sum, is_beyond) = if comes { self.sum.overflowing_add(amount) } else { self.sum.overflowing_sub(amount) };
        self.sum = sum;
        self.beyond += i64::from(is_beyond) * add(amount.signum() as i64);
    }
}

/// What the distinct values of a window come to.
enum Found {
    /// So many, of this sum.
    Sum(u64, i128),
    /// A state of the function, where their sum is no number of 128 bits.
    State(Vec<ArrayRef>),
}

impl Found {
    fn of(times: &Times, values: &Groups, encoder: &KeyEncoder, function: Option<&Function>) -> Result<Self> {
        let Some(function) = function.filter(|_| times.unsure > 0 || times.beyond != 0) else {
            return Ok(Self::Sum(times.distinct, times.sum));
        };
        let there = (0..times.of.len() as u32).filter(|number| times.of[*number as usize] > 0);
        let there = UInt32Array::from_iter_values(there);
        let mut accumulator = function.accumulator()?;
        accumulator.update_one(&values.columns(encoder, &there)?, None, 0, there.len(), 1)?;
        Ok(Self::State(accumulator.take_state()?))
    }
}

/// How many distinct values there are in each window.
fn counts(found: &[Found]) -> impl Iterator<Item = i64> {
    found.iter().map(|found| if let Found::Sum(count, _) = found { *count as i64 } else { 0 })
}

/// The results of a function of distinct values.
fn of_found(function: &Function, found: Vec<Found>) -> Result<ArrayRef> {
    let totals = function.totals().ok_or_else(|| Error::bug("a function without totals follows windows"))?;
    let (count, mut accumulator) = (found.len(), function.accumulator()?);
    let (mut groups, mut counts, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    for (group, found) in (0..).zip(found) {
        match found {
            Found::Sum(count, sum) => {
                groups.push(group);
                counts.push(count);
                sums.push(sum);
            }
            Found::State(state) => accumulator.merge(&state, &[group], count)?,
        }
    }
    accumulator.merge(&totals.states(&counts, &sums)?, &groups, count)?;
    accumulator.take_result()
}

/// So many numbers may have no row, however few have one.
const UNUSED: usize = if cfg!(test) { 3 } else { 1_024 };

impl Following {
    fn numbers(&mut self, arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<Option<u32>>> {
        let numbers = each_number(&mut self.values, &self.encoder, canonical(&arguments[0])?)?;
        let Times { of, rows, amounts, .. } = &mut self.moving.bag;
        let count = self.values.count();
        let new = UInt32Array::from_iter_values(rows.len() as u32..count as u32);
        if let Some(totals) = self.function.as_ref().and_then(|function| function.totals()).filter(|_| !new.is_empty())
        {
            let found = totals.amounts(&self.values.columns(&self.encoder, &new)?, None, new.len())?;
            let before = amounts.len();
            amounts.extend((0..new.len()).map(|row| Some(found.amounts.get(row))));
            found.beyond.iter().for_each(|row| amounts[before + row] = None);
        }
        self.unused += count - rows.len();
        of.resize(count, 0);
        rows.resize(count, 0);
        Ok(counted(arguments, filter, numbers.into_iter()))
    }

    /// Forgets values that no row has, if they are many.
    fn forget_unused(&mut self) {
        let Times { of, rows, amounts, .. } = &mut self.moving.bag;
        if self.unused <= UNUSED.max(rows.len() / 2) {
            return;
        }
        let used: Vec<u32> = (0..rows.len() as u32).filter(|number| rows[*number as usize] > 0).collect();
        let mut new = vec![0; rows.len()];
        used.iter().zip(0..).for_each(|(number, place)| new[*number as usize] = place);
        for counts in [of, rows] {
            *counts = used.iter().map(|number| counts[*number as usize]).collect();
        }
        *amounts = used.iter().filter_map(|number| amounts.get(*number as usize)).copied().collect();
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
        let Self { encoder, function, values, moving, .. } = self;
        let function = function.as_deref();
        let in_each = moving.follow(windows, &own, |times| Found::of(times, values, encoder, function))?;
        self.forget_unused();
        match &self.function {
            None => {
                let found: &mut Int64Builder = builder(found)?;
                counts(&in_each).for_each(|count| found.append_value(count));
            }
            Some(function) => append(&of_found(function, in_each)?, found)?,
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        let Times { of, rows, amounts, .. } = &self.moving.bag;
        let counts = (of.capacity() + rows.capacity()) * size_of::<u32>();
        self.values.size() + self.moving.bytes() + counts + amounts.capacity() * size_of::<Option<i128>>()
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

/// Appends results, of the types that sums and means have.
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
