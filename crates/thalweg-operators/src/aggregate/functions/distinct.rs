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
    aggregate::{Accumulator, Aggregate, Exactness, Follower, Slide, Totals, Windows, builder},
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

/// The values in a window, each with how often it is there, and what the distinct ones come to.
struct Present {
    times: Vec<u32>,
    distinct: u64,
    sum: i128,
}

impl Slide for Distinct {
    fn results(&self, windows: &Windows<'_>) -> Result<Option<ArrayRef>> {
        let (encoder, column) = (KeyEncoder::new(std::slice::from_ref(&self.kind))?, &windows.arguments[0]);
        let mut values = encoder.groups();
        let numbers = each_number(&mut values, &encoder, canonical(column)?)?;
        let totals = if self.counts_distinct() { None } else { self.function.totals() };
        let amounts = match totals {
            None => None,
            Some(totals) => {
                let all = UInt32Array::from_iter_values(0..values.count() as u32);
                Some(totals.amounts(&values.columns(&encoder, &all)?, None, values.count())?)
            }
        };
        if amounts.as_ref().is_some_and(|amounts| !amounts.beyond.is_empty()) {
            return Ok(None);
        }
        let counting = counting(windows.arguments, windows.filter);
        let counts = |row: &usize| counting.as_ref().is_none_or(|counting| counting.value(*row));
        let amount = |number: usize| amounts.as_ref().map_or(0, |amounts| amounts.amounts.get(number));
        let mut present = Present { times: vec![0; values.count()], distinct: 0, sum: 0 };
        let change = |present: &mut Present, rows: Range<usize>, comes: bool| {
            for number in rows.filter(counts).map(|row| numbers[row] as usize) {
                let times = &mut present.times[number];
                if comes {
                    *times += 1;
                    if *times == 1 {
                        present.distinct += 1;
                        present.sum = present.sum.wrapping_add(amount(number));
                    }
                } else {
                    *times -= 1;
                    if *times == 0 {
                        present.distinct -= 1;
                        present.sum = present.sum.wrapping_sub(amount(number));
                    }
                }
            }
            Ok(())
        };
        let found = windows.follow(&mut present, change, |present| Ok((present.distinct, present.sum)))?;
        let (distinct, sums): (Vec<u64>, Vec<i128>) = found.into_iter().unzip();
        match totals {
            None => Ok(Some(Arc::new(Int64Array::from_iter_values(distinct.iter().map(|count| *count as i64))))),
            Some(totals) => of_totals(&self.function, totals, &distinct, &sums).map(Some),
        }
    }

    fn follower(&self) -> Option<Box<dyn Follower>> {
        let summed = match self.counts_distinct() {
            true => None,
            // What one value comes to must always be a number.
            false => {
                Some(self.function.totals().filter(|totals| totals.are_narrow()).map(|_| Arc::clone(&self.function))?)
            }
        };
        let encoder = KeyEncoder::new(std::slice::from_ref(&self.kind)).ok()?;
        let moving = Moving::new(Times::default());
        Some(Box::new(Following { values: encoder.groups(), encoder, summed, moving, unused: 0 }))
    }
}

/// How many distinct values there are in the windows of a key, or what they come to, from batch to batch.
struct Following {
    encoder: KeyEncoder,
    /// What is made of their sum, if something is.
    summed: Option<Arc<Function>>,
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
    /// What each adds to the sum; empty where nobody asks for it.
    amounts: Vec<i64>,
    distinct: u64,
    sum: i128,
    /// How many rows have it, in the window or not.
    rows: Vec<u32>,
}

impl Bag for Times {
    type Value = u32;

    fn change(&mut self, value: u32, comes: bool) {
        let times = &mut self.of[value as usize];
        let amount = || i128::from(self.amounts.get(value as usize).copied().unwrap_or(0));
        if comes {
            *times += 1;
            if *times == 1 {
                self.distinct += 1;
                self.sum += amount();
            }
        } else {
            *times -= 1;
            if *times == 0 {
                self.distinct -= 1;
                self.sum -= amount();
            }
        }
    }
}

/// So many numbers may have no row, however few have one.
const UNUSED: usize = if cfg!(test) { 3 } else { 1_024 };

impl Following {
    fn numbers(&mut self, arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<Option<u32>>> {
        let numbers = each_number(&mut self.values, &self.encoder, canonical(&arguments[0])?)?;
        let Times { of, rows, amounts, .. } = &mut self.moving.bag;
        let count = self.values.count();
        let new = UInt32Array::from_iter_values(rows.len() as u32..count as u32);
        if let Some(totals) = self.summed.as_ref().and_then(|function| function.totals()).filter(|_| !new.is_empty()) {
            let found = totals.amounts(&self.values.columns(&self.encoder, &new)?, None, new.len())?;
            amounts.extend((0..new.len()).map(|row| found.amounts.get(row) as i64));
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
        let in_each = self.moving.follow(windows, &own, |times| Ok((times.distinct, times.sum)))?;
        self.forget_unused();
        let (distinct, sums): (Vec<u64>, Vec<i128>) = in_each.into_iter().unzip();
        let summed = self.summed.as_ref().and_then(|function| Some((function, function.totals()?)));
        let Some((function, totals)) = summed else {
            let found: &mut Int64Builder = builder(found)?;
            distinct.iter().for_each(|count| found.append_value(*count as i64));
            return Ok(());
        };
        append(&of_totals(function, totals, &distinct, &sums)?, found)
    }

    fn bytes(&self) -> usize {
        let Times { of, rows, amounts, .. } = &self.moving.bag;
        let counts = (of.capacity() + rows.capacity()) * size_of::<u32>();
        self.values.size() + self.moving.bytes() + counts + amounts.capacity() * size_of::<i64>()
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

/// The results of a function, of what distinct values come to.
fn of_totals(function: &Function, totals: &dyn Totals, counts: &[u64], sums: &[i128]) -> Result<ArrayRef> {
    let mut accumulator = function.accumulator()?;
    let groups: Vec<u32> = (0..counts.len() as u32).collect();
    accumulator.merge(&totals.states(counts, sums)?, &groups, counts.len())?;
    accumulator.take_result()
}

/// Appends results, of the types that sums and means of whole numbers have.
fn append(results: &ArrayRef, found: &mut dyn ArrayBuilder) -> Result<()> {
    macro_rules! append {
        ($($kind:ty),*) => {
            $(if let Some(results) = results.as_primitive_opt::<$kind>() {
                builder::<PrimitiveBuilder<$kind>>(found)?.append_array(results);
                return Ok(());
            })*
        };
    }
    append!(Int64Type, UInt64Type, Float64Type);
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
