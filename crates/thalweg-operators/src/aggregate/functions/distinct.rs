//! Any of our functions over the distinct values of its argument.

use std::{any::Any, mem, ops::Range, sync::Arc};

use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, UInt32Array, new_empty_array};
use arrow_schema::{DataType, Field, FieldRef};
use thalweg_core::{
    Error, Result,
    aggregate::{Accumulator, Aggregate, Exactness, Slide, Totals, Windows},
};
use thalweg_memory::kernels::hash::hash_columns;

use super::{
    Function,
    extreme::canonical,
    lists,
    rows::{alike, counting, not_a_state},
};
use crate::aggregate::groups::{KeyEncoder, Numbers, packed::Packed};

/// The function over the distinct values of its only argument, if these can be told apart.
pub fn distinct(function: Function, arguments: &[DataType]) -> Option<Arc<dyn Aggregate>> {
    let [kind] = arguments else { return None };
    KeyEncoder::new(arguments).ok()?;
    hash_columns(&[new_empty_array(kind)], 0).ok()?;
    Some(Arc::new(Distinct { function, kind: kind.clone() }))
}

#[derive(Debug)]
struct Distinct {
    function: Function,
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
        let numbers = match values.number(&encoder.encode(&[canonical(column)?], column.len())?, None) {
            Numbers::One(number) => vec![number; column.len()],
            Numbers::Each(numbers) => numbers,
        };
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
            Some(totals) => self.of_totals(totals, &distinct, &sums).map(Some),
        }
    }
}

impl Distinct {
    /// The results of the function, of what distinct values come to.
    fn of_totals(&self, totals: &dyn Totals, counts: &[u64], sums: &[i128]) -> Result<ArrayRef> {
        let mut accumulator = self.function.accumulator()?;
        let groups: Vec<u32> = (0..counts.len() as u32).collect();
        accumulator.merge(&totals.states(counts, sums)?, &groups, counts.len())?;
        accumulator.take_result()
    }
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
