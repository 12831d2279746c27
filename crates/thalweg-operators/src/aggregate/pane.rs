//! The groups of the rows that share their windows.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::take::take;
use thalweg_core::{
    Error, KeyGroup, KeyGroups, Result,
    aggregate::{Accumulator, Aggregate},
};

use super::groups::{Groups, KeyEncoder, Keys, Numbers};

/// Groups with their running values.
///
/// A pane is *live* while rows come, and *sealed* once its values were asked for: then they are plain columns, which any
/// number of windows and snapshots read. A row that comes later makes it live again.
pub struct Pane {
    groups: Groups,
    values: Values,
    sealed_bytes: usize,
}

enum Values {
    Live(Vec<Box<dyn Accumulator>>),
    Sealed(Vec<Vec<ArrayRef>>),
}

/// The rows of one batch that go into one pane: key and arguments of row `i` stand at `i`.
pub struct Arrivals<'a> {
    /// The keys of these rows.
    pub keys: &'a Keys,
    /// How many rows there are.
    pub count: usize,
    /// The argument columns of each aggregate.
    pub arguments: &'a [Vec<ArrayRef>],
    /// For which rows each aggregate's FILTER holds.
    pub filters: &'a [Option<BooleanArray>],
}

impl Pane {
    /// A pane without groups.
    pub fn new(functions: &[Arc<dyn Aggregate>], encoder: &KeyEncoder) -> Result<Self> {
        Ok(Self { groups: encoder.groups(), values: Values::Live(accumulators(functions)?), sealed_bytes: 0 })
    }

    /// Adds rows.
    pub fn add(&mut self, functions: &[Arc<dyn Aggregate>], arrivals: &Arrivals<'_>) -> Result<()> {
        let numbers = self.groups.number(arrivals.keys, None);
        let count = self.groups.count();
        for (i, accumulator) in self.live(functions)?.iter_mut().enumerate() {
            let (arguments, filter) = (&arrivals.arguments[i][..], arrivals.filters[i].as_ref());
            match &numbers {
                Numbers::One(group) => accumulator.update_one(arguments, filter, *group, arrivals.count, count)?,
                Numbers::Each(groups) => accumulator.update(arguments, filter, groups, count)?,
            }
        }
        Ok(())
    }

    /// Adds states that were taken from other panes: row `i` of the state columns is that of row `i` of the keys.
    pub fn add_states(
        &mut self,
        functions: &[Arc<dyn Aggregate>],
        keys: &Keys,
        rows: usize,
        states: &[Vec<ArrayRef>],
    ) -> Result<()> {
        let numbers = match self.groups.number(keys, None) {
            Numbers::One(group) => vec![group; rows],
            Numbers::Each(groups) => groups,
        };
        let count = self.groups.count();
        let mut both = self.live(functions)?.iter_mut().zip(states);
        both.try_for_each(|(accumulator, state)| accumulator.merge(state, &numbers, count))
    }

    /// Makes sure that there is a group, for an aggregate without keys: it has a result even without rows.
    pub fn add_empty_key(&mut self, functions: &[Arc<dyn Aggregate>], keys: &Keys) -> Result<()> {
        self.groups.number(keys, None);
        let count = self.groups.count();
        for (function, accumulator) in functions.iter().zip(self.live(functions)?) {
            let nothing: Vec<_> =
                function.state()?.iter().map(|field| arrow_array::new_empty_array(field.data_type())).collect();
            accumulator.merge(&nothing, &[], count)?;
        }
        Ok(())
    }

    /// Adds the groups of another pane.
    pub fn merge(&mut self, functions: &[Arc<dyn Aggregate>], other: &mut Self) -> Result<()> {
        let numbers = self.groups.absorb(&other.groups);
        let count = self.groups.count();
        if let (Values::Live(ours), Values::Live(theirs)) = (&mut self.values, &other.values)
            && ours.iter().all(|accumulator| accumulator.can_absorb())
        {
            let mut both = ours.iter_mut().zip(theirs);
            return both.try_for_each(|(ours, theirs)| ours.absorb(theirs.as_ref(), &numbers, count));
        }
        let states = other.sealed()?;
        for (accumulator, state) in self.live(functions)?.iter_mut().zip(states) {
            accumulator.merge(state, &numbers, count)?;
        }
        Ok(())
    }

    /// The results of each aggregate, one row per group; the values are gone then, the groups stay.
    pub fn take_results(&mut self, functions: &[Arc<dyn Aggregate>]) -> Result<Vec<ArrayRef>> {
        self.live(functions)?.iter_mut().map(|accumulator| accumulator.take_result()).collect()
    }

    /// Keys and states of all groups; the states are gone then, the groups stay.
    pub fn take_states(&mut self, functions: &[Arc<dyn Aggregate>], encoder: &KeyEncoder) -> Result<Vec<ArrayRef>> {
        let all = UInt32Array::from_iter_values(0..self.count() as u32);
        let mut columns = self.groups.columns(encoder, &all)?;
        for accumulator in self.live(functions)? {
            columns.extend(accumulator.take_state()?);
        }
        Ok(columns)
    }

    /// The groups in the order of their keys.
    pub fn sorted(&self) -> UInt32Array {
        self.groups.sorted()
    }

    /// The key columns of these groups.
    pub fn keys(&self, encoder: &KeyEncoder, numbers: &UInt32Array) -> Result<Vec<ArrayRef>> {
        self.groups.columns(encoder, numbers)
    }

    /// Forgets all groups, whose values are gone, and keeps the memory for as many.
    pub fn clear(&mut self) {
        self.groups.clear();
    }

    /// How many groups there are.
    pub fn count(&self) -> usize {
        self.groups.count()
    }

    /// Keys and states of the groups in one key group, by these key columns; `None` if there are none.
    pub fn save(
        &mut self,
        group: KeyGroup,
        all: KeyGroups,
        by: &[usize],
        encoder: &KeyEncoder,
    ) -> Result<Option<RecordBatch>> {
        let hashes = self.groups.hashes_by(encoder, by)?;
        let is_in = |number: &u32| all.of(hashes[*number as usize]) == group;
        let numbers = (0..self.count() as u32).filter(is_in).collect::<Vec<_>>();
        self.saved(numbers, encoder)
    }

    /// What [`Pane::save`] gives for each of several key groups, which are dropped: all are looked for at once.
    pub fn take(
        &mut self,
        functions: &[Arc<dyn Aggregate>],
        groups: &[KeyGroup],
        all: KeyGroups,
        by: &[usize],
        encoder: &KeyEncoder,
    ) -> Result<Vec<Option<RecordBatch>>> {
        let mut places = vec![None; all.count()];
        groups.iter().enumerate().for_each(|(place, group)| places[group.0 as usize] = Some(place));
        let (mut taken, mut stays) = (vec![Vec::new(); groups.len()], Vec::new());
        for (number, hash) in self.groups.hashes_by(encoder, by)?.iter().enumerate() {
            match places[all.of(*hash).0 as usize] {
                Some(place) => taken[place].push(number as u32),
                None => stays.push(number as u32),
            }
        }
        let saved = taken.into_iter().map(|numbers| self.saved(numbers, encoder)).collect::<Result<_>>()?;
        self.keep(functions, stays)?;
        Ok(saved)
    }

    /// Keys and states of these groups; `None` if there are none.
    fn saved(&mut self, numbers: Vec<u32>, encoder: &KeyEncoder) -> Result<Option<RecordBatch>> {
        if numbers.is_empty() {
            return Ok(None);
        }
        let numbers = UInt32Array::from(numbers);
        let mut columns = self.groups.columns(encoder, &numbers)?;
        for state in self.sealed()?.iter().flatten() {
            columns.push(take(state, &numbers, None)?);
        }
        let fields = columns.iter().map(|column| Field::new("", column.data_type().clone(), true));
        let schema = SchemaRef::new(Schema::new(fields.collect::<Vec<_>>()));
        let rows = arrow_array::RecordBatchOptions::new().with_row_count(Some(numbers.values().len()));
        Ok(Some(RecordBatch::try_new_with_options(schema, columns, &rows)?))
    }

    /// Adds what [`Pane::save`] gave.
    pub fn load(
        &mut self,
        functions: &[Arc<dyn Aggregate>],
        keys: usize,
        encoder: &KeyEncoder,
        saved: &RecordBatch,
    ) -> Result<()> {
        let states = functions.iter().map(|function| function.state()).collect::<Result<Vec<_>>>()?;
        let expected = states.iter().flatten().map(|field| field.data_type());
        if !saved.columns().iter().skip(keys).map(|column| column.data_type()).eq(expected) {
            return Err(Error::environment("the snapshot was taken by another query: its columns differ"));
        }
        let encoded = encoder.encode(&saved.columns()[..keys], saved.num_rows())?;
        let widths = states.iter().map(Vec::len);
        let states = by_function(widths, &saved.columns()[keys..]);
        self.add_states(functions, &encoded, saved.num_rows(), &states)
    }

    /// Drops the groups in one key group, by these key columns.
    pub fn forget(
        &mut self,
        functions: &[Arc<dyn Aggregate>],
        group: KeyGroup,
        all: KeyGroups,
        by: &[usize],
        encoder: &KeyEncoder,
    ) -> Result<()> {
        let hashes = self.groups.hashes_by(encoder, by)?;
        let stays = |number: &u32| all.of(hashes[*number as usize]) != group;
        let stays = (0..self.count() as u32).filter(stays).collect::<Vec<_>>();
        self.keep(functions, stays)
    }

    /// Drops all groups but these.
    fn keep(&mut self, functions: &[Arc<dyn Aggregate>], numbers: Vec<u32>) -> Result<()> {
        if numbers.len() == self.count() {
            return Ok(());
        }
        let numbers = UInt32Array::from(numbers);
        let mut states = Vec::new();
        for state in self.sealed()? {
            states.push(state.iter().map(|column| Ok(take(column, &numbers, None)?)).collect::<Result<Vec<_>>>()?);
        }
        let groups = self.groups.only(&numbers);
        *self = Self { groups, values: Values::Sealed(states), sealed_bytes: 0 };
        self.live(functions)?;
        Ok(())
    }

    /// How many bytes of memory the pane takes.
    pub fn bytes(&self) -> usize {
        let values = match &self.values {
            Values::Live(accumulators) => accumulators.iter().map(|a| a.bytes()).sum(),
            Values::Sealed(_) => self.sealed_bytes,
        };
        size_of::<Self>() + self.groups.size() + values
    }

    /// The accumulators, made from the sealed columns if need be.
    fn live(&mut self, functions: &[Arc<dyn Aggregate>]) -> Result<&mut Vec<Box<dyn Accumulator>>> {
        if let Values::Sealed(states) = &self.values {
            let mut fresh = accumulators(functions)?;
            for (accumulator, state) in fresh.iter_mut().zip(states) {
                let rows = state.first().map_or(0, |column| column.len());
                let numbers: Vec<u32> = (0..rows as u32).collect();
                accumulator.merge(state, &numbers, self.groups.count())?;
            }
            self.values = Values::Live(fresh);
        }
        match &mut self.values {
            Values::Live(accumulators) => Ok(accumulators),
            Values::Sealed(_) => Err(Error::bug("a pane was just made live")),
        }
    }

    /// The state columns of each aggregate, one row per group.
    fn sealed(&mut self) -> Result<&[Vec<ArrayRef>]> {
        if let Values::Live(accumulators) = &mut self.values {
            let states = accumulators.iter_mut().map(|a| a.take_state()).collect::<Result<Vec<_>>>()?;
            self.sealed_bytes = states.iter().flatten().map(|column| column.get_array_memory_size()).sum();
            self.values = Values::Sealed(states);
        }
        match &self.values {
            Values::Sealed(states) => Ok(states),
            Values::Live(_) => Err(Error::bug("a pane was just sealed")),
        }
    }
}

/// The columns of each function, of which there are so many.
pub fn by_function(widths: impl Iterator<Item = usize>, columns: &[ArrayRef]) -> Vec<Vec<ArrayRef>> {
    let mut columns = columns.iter().cloned();
    widths.map(|width| columns.by_ref().take(width).collect()).collect()
}

fn accumulators(functions: &[Arc<dyn Aggregate>]) -> Result<Vec<Box<dyn Accumulator>>> {
    functions.iter().map(|function| function.accumulator()).collect()
}
