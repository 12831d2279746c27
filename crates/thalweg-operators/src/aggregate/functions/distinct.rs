//! Any of our functions over the distinct values of its argument.

use std::{mem, sync::Arc};

use arrow_array::{Array, ArrayRef, BooleanArray, ListArray, cast::AsArray, new_empty_array};
use arrow_buffer::OffsetBuffer;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Field, FieldRef};
use hashbrown::HashTable;
use thalweg_core::{
    Error, Result,
    aggregate::{Accumulator, Aggregate, Exactness},
};
use thalweg_memory::kernels::hash::hash_columns;

use super::{
    Function,
    extreme::canonical,
    rows::{counting, each, not_a_state},
};

/// The function over the distinct values of its only argument, if these can be told apart.
pub fn distinct(function: Function, arguments: &[DataType]) -> Option<Arc<dyn Aggregate>> {
    let [kind] = arguments else { return None };
    converter(kind).ok()?;
    hash_columns(&[new_empty_array(kind)], 0).ok()?;
    Some(Arc::new(Distinct { function, kind: kind.clone() }))
}

fn converter(kind: &DataType) -> Result<RowConverter> {
    Ok(RowConverter::new(vec![SortField::new(kind.clone())])?)
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
        let list = DataType::List(Arc::new(Field::new_list_field(self.kind.clone(), true)));
        Ok(vec![Arc::new(Field::new("values", list, true))])
    }

    fn exactness(&self) -> Exactness {
        self.function.exactness()
    }

    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Sets {
            function: self.function.accumulator()?,
            kind: self.kind.clone(),
            converter: converter(&self.kind)?,
            found: Found::default(),
            count: 0,
        }))
    }
}

/// The distinct values of all groups.
struct Sets {
    function: Box<dyn Accumulator>,
    kind: DataType,
    converter: RowConverter,
    found: Found,
    count: usize,
}

/// Pairs of group and value, in the order in which they were first seen.
///
/// ```text
/// table: hash -> i      groups[i]      values[ends[i - 1]..ends[i]], as arrow-row writes it
/// ```
#[derive(Default)]
struct Found {
    table: HashTable<u32>,
    hashes: Vec<u64>,
    groups: Vec<u32>,
    ends: Vec<usize>,
    values: Vec<u8>,
}

impl Found {
    fn value(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.values[start..self.ends[index]]
    }

    fn insert(&mut self, hash: u64, group: u32, value: &[u8]) {
        // Spreads equal values of different groups.
        let hash = hash ^ u64::from(group).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let is_same = |index: &u32| self.groups[*index as usize] == group && self.value(*index as usize) == value;
        if self.table.find(hash, is_same).is_some() {
            return;
        }
        let index = self.groups.len() as u32;
        self.hashes.push(hash);
        self.groups.push(group);
        self.values.extend_from_slice(value);
        self.ends.push(self.values.len());
        let hashes = &self.hashes;
        self.table.insert_unique(hash, index, |index| hashes[*index as usize]);
    }

    fn bytes(&self) -> usize {
        self.table.allocation_size()
            + self.values.capacity()
            + self.groups.capacity() * size_of::<u32>()
            + self.hashes.capacity() * size_of::<u64>()
            + self.ends.capacity() * size_of::<usize>()
    }
}

impl Sets {
    /// Takes all values, by group.
    fn drain(&mut self) -> Result<(ArrayRef, Vec<u32>, usize)> {
        let found = mem::take(&mut self.found);
        let mut order: Vec<usize> = (0..found.groups.len()).collect();
        order.sort_by_key(|index| found.groups[*index]);
        let parser = self.converter.parser();
        let rows = order.iter().map(|index| parser.parse(found.value(*index)));
        let column = match order.is_empty() {
            true => new_empty_array(&self.kind),
            false => self.converter.convert_rows(rows)?.pop().ok_or_else(not_a_state)?,
        };
        let groups = order.iter().map(|index| found.groups[*index]).collect();
        Ok((column, groups, mem::take(&mut self.count)))
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
        let column = [canonical(&arguments[0])?];
        let rows = self.converter.convert_columns(&column)?;
        let hashes = hash_columns(&column, groups.len())?;
        each(counting(arguments, filter).as_ref(), groups, |row, group| {
            self.found.insert(hashes[row], group as u32, rows.row(row).as_ref());
        });
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        let list = states[0].as_list_opt::<i32>().ok_or_else(not_a_state)?;
        let offsets = list.offsets();
        let (first, last) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
        let groups = groups.iter().zip(offsets.lengths());
        let groups: Vec<u32> = groups.flat_map(|(group, length)| std::iter::repeat_n(*group, length)).collect();
        self.update(&[list.values().slice(first, last - first)], None, &groups, count)
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        let (column, groups, count) = self.drain()?;
        let mut lengths = vec![0; count];
        groups.iter().for_each(|group| lengths[*group as usize] += 1);
        i32::try_from(column.len())
            .map_err(|_| Error::environment("an aggregate has more distinct values than a snapshot can hold"))?;
        let item = Arc::new(Field::new_list_field(self.kind.clone(), true));
        Ok(vec![Arc::new(ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), column, None)?)])
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        let (column, groups, count) = self.drain()?;
        self.function.update(&[column], None, &groups, count)?;
        self.function.take_result()
    }

    fn bytes(&self) -> usize {
        self.found.bytes()
    }
}
