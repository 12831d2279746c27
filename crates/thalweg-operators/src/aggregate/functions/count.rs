//! `count(*)` and `count(x)`.

use std::{any::Any, mem, sync::Arc};

use arrow_array::{ArrayRef, BooleanArray, Int64Array, cast::AsArray, types::Int64Type};
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
    let is_ours = *signature.output == DataType::Int64;
    is_ours.then(|| Function::new(signature, &[("count", DataType::Int64)], Counts::default).with_totals(CountTotals))
}

/// The rows that count are all there is to it.
struct CountTotals;

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

    fn results(&self, counts: &[u64], sums: &[i128]) -> Result<Option<ArrayRef>> {
        Ok(self.states(counts, sums)?.pop())
    }
}

#[derive(Default)]
struct Counts(Vec<i64>);

impl Accumulator for Counts {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        self.0.resize(count, 0);
        each(counting(arguments, filter).as_ref(), groups, |_, group| self.0[group] += 1);
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
        self.0.resize(count, 0);
        let counted = counting(arguments, filter).map_or(rows, |mask| mask.count_set_bits());
        self.0[group as usize] += counted as i64;
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        self.0.resize(count, 0);
        let counts = states[0].as_primitive::<Int64Type>().values();
        counts.iter().zip(groups).for_each(|(count, group)| self.0[*group as usize] += count);
        Ok(())
    }

    fn can_absorb(&self) -> bool {
        true
    }

    fn absorb(&mut self, other: &dyn Accumulator, groups: &[u32], count: usize) -> Result<()> {
        self.0.resize(count, 0);
        let other: &Self = alike(other)?;
        other.0.iter().zip(groups).for_each(|(count, group)| self.0[*group as usize] += count);
        Ok(())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.take_result()?])
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(mem::take(&mut self.0))))
    }

    fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<i64>()
    }
}
