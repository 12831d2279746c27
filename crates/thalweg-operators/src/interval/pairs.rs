//! Pairs of a left and a right row: their columns, and what must be true of them.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, cast::AsArray};
use arrow_schema::{DataType, SchemaRef};
use thalweg_core::{Batch, Error, Result, expression::Expression};

use super::{entry::At, kept::Kept};

/// What must be true of a pair.
#[derive(Clone, Debug)]
pub struct Condition {
    /// A predicate over the columns of a pair.
    pub predicate: Arc<dyn Expression>,
    /// The columns of a pair: those of the left input, then those of the right one.
    pub pair: SchemaRef,
}

/// What pairs of rows are made of.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// The types of the columns of the left and the right input.
    pub types: [Vec<DataType>; 2],
    /// What must be true of a pair.
    pub condition: Option<Condition>,
}

impl Pairs {
    /// The first columns of pairs, of the left and of the right input.
    pub fn columns(&self, kept: &Kept, rows: [&[Option<At>]; 2], count: usize) -> Result<Vec<ArrayRef>> {
        let sides = self.types.iter().zip(rows).flat_map(|(types, rows)| {
            types.iter().enumerate().map(move |(column, kind)| kept.gather_some(column, rows, kind))
        });
        sides.take(count).collect()
    }

    /// Which of some pairs are what the condition asks for; all, if there is none.
    pub fn hold(&self, kept: &Kept, rows: [&[Option<At>]; 2]) -> Result<Option<BooleanArray>> {
        let Some(condition) = self.condition.as_ref().filter(|_| !rows[0].is_empty()) else { return Ok(None) };
        let columns = self.columns(kept, rows, condition.pair.fields().len())?;
        let batch = Batch::new(RecordBatch::try_new(Arc::clone(&condition.pair), columns)?);
        let values = condition.predicate.evaluate(&batch)?;
        let mask = values.as_boolean_opt().ok_or_else(|| Error::bug("a predicate must be a boolean"))?;
        Ok(Some(mask.clone()))
    }
}

/// Whether a pair of this number is what the condition asks for.
pub fn holds(mask: Option<&BooleanArray>, pair: usize) -> bool {
    mask.is_none_or(|mask| mask.is_valid(pair) && mask.value(pair))
}
