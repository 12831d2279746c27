//! Computes new columns by a function of the program, which has a state per key.

use std::{marker::PhantomData, mem::size_of, sync::Arc};

use arrow_array::{Array, BinaryArray, RecordBatch, RecordBatchOptions, UInt32Array, cast::AsArray};
use arrow_schema::{Field, Schema, SchemaRef};
use serde::{Serialize, de::DeserializeOwned};
use thalweg_core::{
    Batch, Error, KeyGroup, KeyGroups, Operator, Output, Port, Progress, Result, Snapshot, State,
    expression::Expression,
};

use super::{Row, Values};
use crate::aggregate::groups::{Groups, KeyEncoder, Keys, Numbers};

/// Calls a function with each row and the state of the row's key, and appends what it gives as columns.
///
/// Shape:  row → row + the function's columns. The row's other columns are not copied.
/// State:  one `S` per key, for as long as the query runs.
/// Errors: what the function gives; it ends the query.
/// Source: Pohl, "PipeFabric": the stateful map of its operator algebra.
pub struct StatefulMap<S, F, V> {
    keys: Vec<Arc<dyn Expression>>,
    encoder: KeyEncoder,
    groups: Groups,
    states: Vec<S>,
    start: Arc<dyn Fn() -> S + Send + Sync>,
    step: F,
    output: SchemaRef,
    key_groups: KeyGroups,
    has_state: bool,
    values: PhantomData<fn() -> V>,
}

const VERSION: u16 = 1;

impl<S, F, V> StatefulMap<S, F, V>
where
    F: Fn(&mut S, Row<'_>) -> Result<V>,
    V: Values,
{
    /// A map whose states begin as `start` gives them; `output` is the input's columns and those of `V`.
    pub fn new(
        keys: Vec<Arc<dyn Expression>>,
        start: Arc<dyn Fn() -> S + Send + Sync>,
        step: F,
        key_types: &[arrow_schema::DataType],
        output: SchemaRef,
        key_groups: KeyGroups,
    ) -> Result<Self> {
        let encoder = KeyEncoder::new(key_types)?;
        let groups = encoder.groups();
        let (states, values) = (Vec::new(), PhantomData);
        Ok(Self { keys, encoder, groups, states, start, step, output, key_groups, has_state: true, values })
    }

    /// The same map, whose function remembers nothing.
    pub fn without_state(self) -> Self {
        Self { has_state: false, ..self }
    }

    /// The number of each selected row's key.
    fn number(&mut self, batch: &Batch) -> Result<Numbers> {
        let columns = self.keys.iter().map(|key| key.evaluate(batch)).collect::<Result<Vec<_>>>()?;
        let keys = self.encoder.encode(&columns, batch.physical_rows())?;
        let numbers = self.groups.number(&keys, batch.selection().map(|rows| rows.to_indices()).as_ref());
        self.states.resize_with(self.groups.count(), || (self.start)());
        Ok(numbers)
    }
}

impl<S, F, V> Operator for StatefulMap<S, F, V>
where
    S: Serialize + DeserializeOwned + Send + 'static,
    F: Fn(&mut S, Row<'_>) -> Result<V> + Send,
    V: Values,
{
    fn on_batch(&mut self, _: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        let numbers = self.number(&batch)?;
        let mut builders = V::Builders::default();
        let mut next = 0;
        for (i, row) in batch.rows().enumerate() {
            // Rows that a filter dropped stay where they are.
            (next..row).for_each(|_| V::append(None, &mut builders));
            let number = match &numbers {
                Numbers::One(number) => *number,
                Numbers::Each(numbers) => numbers[i],
            };
            let values = (self.step)(&mut self.states[number as usize], Row::new(batch.columns(), row))?;
            V::append(Some(values), &mut builders);
            next = row + 1;
        }
        (next..batch.physical_rows()).for_each(|_| V::append(None, &mut builders));
        let mut columns = batch.columns().columns().to_vec();
        columns.extend(V::finish(&mut builders));
        let columns = RecordBatch::try_new(Arc::clone(&self.output), columns)?;
        out.emit(batch.with_columns(columns))
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        if self.has_state { Some(self) } else { None }
    }
}

impl<S, F, V> State for StatefulMap<S, F, V>
where
    S: Serialize + DeserializeOwned + Send + 'static,
    F: Fn(&mut S, Row<'_>) -> Result<V> + Send,
    V: Values,
{
    fn save(&mut self, group: KeyGroup) -> Result<Snapshot> {
        let hashes = self.groups.hashes(&self.encoder)?;
        let is_in = |number: &u32| self.key_groups.of(hashes[*number as usize]) == group;
        let numbers: UInt32Array = (0..self.states.len() as u32).filter(is_in).collect::<Vec<_>>().into();
        if numbers.values().is_empty() {
            return Ok(Snapshot::default());
        }
        let mut columns = self.groups.columns(&self.encoder, &numbers)?;
        let states = numbers.values().iter().map(|number| written(&self.states[*number as usize]));
        let states = states.collect::<Result<Vec<_>>>()?;
        columns.push(Arc::new(BinaryArray::from_iter_values(states)));
        let fields = columns.iter().map(|column| Field::new("", column.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let rows = RecordBatchOptions::new().with_row_count(Some(numbers.len()));
        let mut snapshot = Snapshot::new(VERSION);
        snapshot.rows(RecordBatch::try_new_with_options(schema, columns, &rows)?);
        Ok(snapshot)
    }

    fn load(&mut self, _: KeyGroup, snapshot: &Snapshot) -> Result<()> {
        let mut snapshot = snapshot.read(VERSION)?;
        let saved = snapshot.rows()?;
        let other = || Error::environment("the snapshot was taken by another query: its columns differ");
        let (states, keys) = saved.columns().split_last().ok_or_else(other)?;
        let states = states.as_binary_opt::<i32>().filter(|_| keys.len() == self.keys.len()).ok_or_else(other)?;
        let keys: Keys = self.encoder.encode(keys, saved.num_rows())?;
        let numbers = self.groups.number(&keys, None);
        self.states.resize_with(self.groups.count(), || (self.start)());
        for row in 0..saved.num_rows() {
            let number = match &numbers {
                Numbers::One(number) => *number,
                Numbers::Each(numbers) => numbers[row],
            };
            self.states[number as usize] = read(states.value(row))?;
        }
        Ok(())
    }

    fn forget(&mut self, group: KeyGroup) -> Result<()> {
        let hashes = self.groups.hashes(&self.encoder)?;
        let stays = |number: usize| self.key_groups.of(hashes[number]) != group;
        let kept: Vec<u32> = (0..self.states.len()).filter(|number| stays(*number)).map(|n| n as u32).collect();
        self.groups = self.groups.only(&kept.into());
        let mut number = 0;
        self.states.retain(|_| {
            number += 1;
            stays(number - 1)
        });
        Ok(())
    }

    /// What a state holds on the heap is not known.
    fn bytes(&self) -> usize {
        self.groups.size() + self.states.capacity() * size_of::<S>()
    }
}

fn written<S: Serialize>(state: &S) -> Result<Vec<u8>> {
    postcard::to_stdvec(state).map_err(|error| Error::environment(format!("a state cannot be saved: {error}")))
}

fn read<S: DeserializeOwned>(bytes: &[u8]) -> Result<S> {
    postcard::from_bytes(bytes).map_err(|error| Error::environment(format!("a state cannot be loaded: {error}")))
}
