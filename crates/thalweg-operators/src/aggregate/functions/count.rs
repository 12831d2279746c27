//! `count(*)`, `count(x)` and `regr_count(y, x)`.

use std::{any::Any, mem, sync::Arc};

use arrow_array::{ArrayRef, BooleanArray, Int64Array, UInt64Array, cast::AsArray, types::Int64Type};
use arrow_schema::DataType;
use thalweg_core::{
    Result,
    aggregate::{Accumulator, Addends, Amounts, Signature, Totals},
};

use super::{
    Function,
    rows::{alike, counting, each},
};

/// A count of the rows in which no argument is null; without arguments, of all rows.
pub fn count(signature: &Signature<'_>) -> Option<Function> {
    let is_unsigned = match (signature.name, signature.output) {
        ("count", DataType::Int64) => false,
        ("regr_count", DataType::UInt64) => true,
        _ => return None,
    };
    let counts = move || Counts { counts: Vec::new(), is_unsigned };
    Some(Function::new(signature, &[("count", DataType::Int64)], counts).with_totals(CountTotals { is_unsigned }))
}

/// Counts as a column of results.
fn results(counts: impl Iterator<Item = i64>, is_unsigned: bool) -> ArrayRef {
    match is_unsigned {
        true => Arc::new(UInt64Array::from_iter_values(counts.map(|count| count as u64))),
        false => Arc::new(Int64Array::from_iter_values(counts)),
    }
}

/// The rows that count are all there is to it.
struct CountTotals {
    is_unsigned: bool,
}

impl Totals for CountTotals {
    fn amounts(&self, arguments: &[ArrayRef], filter: Option<&BooleanArray>, rows: usize) -> Result<Amounts> {
        Ok(Amounts {
            amounts: Addends::Narrow(vec![0; rows].into()),
            counted: counting(arguments, filter),
            beyond: Vec::new(),
        })
    }

    fn are_narrow(&self) -> bool {
        true
    }

    fn states(&self, counts: &[u64], _: &[i128]) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(Int64Array::from_iter_values(counts.iter().map(|count| *count as i64)))])
    }

    fn results(&self, counts: &[u64], _: &[i128]) -> Result<Option<ArrayRef>> {
        Ok(Some(results(counts.iter().map(|count| *count as i64), self.is_unsigned)))
    }
}

struct Counts {
    counts: Vec<i64>,
    is_unsigned: bool,
}

impl Accumulator for Counts {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        self.counts.resize(count, 0);
        each(counting(arguments, filter).as_ref(), groups, |_, group| self.counts[group] += 1);
        Ok(())
    }

    fn update_one(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        group: u32,
        rows: usize,
        count: usize,
    ) -> Result<()> {
        self.counts.resize(count, 0);
        let counted = counting(arguments, filter).map_or(rows, |mask| mask.count_set_bits());
        self.counts[group as usize] += counted as i64;
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        self.counts.resize(count, 0);
        let counts = states[0].as_primitive::<Int64Type>().values();
        counts.iter().zip(groups).for_each(|(count, group)| self.counts[*group as usize] += count);
        Ok(())
    }

    fn can_absorb(&self) -> bool {
        true
    }

    fn absorb(&mut self, other: &dyn Accumulator, groups: &[u32], count: usize) -> Result<()> {
        self.counts.resize(count, 0);
        let other: &Self = alike(other)?;
        other.counts.iter().zip(groups).for_each(|(count, group)| self.counts[*group as usize] += count);
        Ok(())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(Int64Array::from(mem::take(&mut self.counts)))])
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        Ok(results(mem::take(&mut self.counts).into_iter(), self.is_unsigned))
    }

    fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<i64>()
    }
}
