//! Any of our functions over the distinct values of its argument.

use std::{any::Any, mem, sync::Arc};

use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, UInt32Array, new_empty_array};
use arrow_schema::{DataType, Field, FieldRef};
use thalweg_core::{
    Error, Result,
    aggregate::{Accumulator, Aggregate, Exactness, Follower, Slide, Windows},
};
use thalweg_memory::kernels::hash::hash_columns;

use super::{
    Function,
    extreme::canonical,
    lists,
    present::Following,
    rows::{alike, counting, not_a_state},
};
use crate::aggregate::groups::{KeyEncoder, packed::Packed};

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

impl Slide for Distinct {
    fn results(&self, windows: &Windows<'_>) -> Result<Option<ArrayRef>> {
        Following::new(&self.function, &self.kind)?.once(windows).map(Some)
    }

    fn follower(&self) -> Option<Box<dyn Follower>> {
        Some(Box::new(Following::new(&self.function, &self.kind).ok()?))
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
