//! Aggregates over pairs of a row and each that it sees, as `sum(r.v * s.w)` and what has a condition on both.
//!
//! ```text
//! rows around s1   r1 r2 r3   pairs  s1 r1 ┐ condition             ┌ s1 r1   sum(r.v * s.w) of s1
//! rows around s2   r3 r4             s1 r2 │ r.v > s.w             │ s2 r4   sum(r.v * s.w) of s2
//!                                    …     ┘              ───►     └
//! ```
//!
//! Each pair is looked at once, so many at a time, and none is kept.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow_schema::SchemaRef;
use thalweg_core::{Batch, Error, Result, expression::Expression};

use super::{
    chunk::times,
    entry::{At, Entry},
    kept::Kept,
    layout::{Layout, Place},
};
use crate::aggregate::{Call, values::Values};

/// The aggregates of a frame where they are over pairs.
#[derive(Debug)]
pub struct Paired {
    /// The columns of a pair.
    pub schema: SchemaRef,
    /// Where each of them is.
    pub columns: Vec<Side>,
    /// What must be true of a pair.
    pub condition: Option<Arc<dyn Expression>>,
    /// Whether it is for rows alone that see nothing in the frame before: what is computed of the others may be no number.
    pub is_alone: bool,
    /// Whether all of them are values of the last row that a row sees.
    pub takes_last: bool,
    /// The aggregates, over these columns.
    pub calls: Vec<Call>,
}

/// Of which row of a pair a column is.
#[derive(Clone, Copy, Debug)]
pub enum Side {
    /// Of the row that has the result: a column of the first input, which passes.
    Base(usize),
    /// Of the row that it sees: an argument of each of the aggregates, as it is kept.
    Seen(usize),
}

/// What aggregates take of some pairs.
pub struct Pairs {
    /// Arguments and filters, of those for which the condition holds.
    pub values: Values,
    /// To which results these belong.
    pub groups: Vec<u32>,
}

impl Paired {
    /// What the aggregates take of these rows, each seen by the row of this number; `arguments` says where those of the aggregates are
    /// kept.
    ///
    /// Errors: what the condition, an argument or a filter gives for a pair it cannot be computed for.
    pub fn of(
        &self,
        (layout, arguments): (&Layout, &[usize]),
        kept: &Kept,
        seen: &[At],
        (bases, groups): (&[Entry], &[u32]),
    ) -> Result<Pairs> {
        let batch = self.pairs((layout, arguments), kept, seen, (bases, groups))?;
        let held = match &self.condition {
            Some(condition) => condition.select(&batch)?,
            None => None,
        };
        let (batch, groups) = match held {
            None => (batch, groups.to_vec()),
            Some(held) => {
                let groups = held.rows().iter().map(|pair| groups[*pair as usize]).collect();
                (batch.with_selection(held), groups)
            }
        };
        Ok(Pairs { values: Values::new(&[], &self.calls, &batch)?, groups })
    }

    /// For which of such pairs the condition holds.
    ///
    /// Errors: what the condition gives for a pair it cannot be computed for.
    pub fn held(
        &self,
        kept_at: (&Layout, &[usize]),
        kept: &Kept,
        seen: &[At],
        rows: (&[Entry], &[u32]),
    ) -> Result<Vec<u32>> {
        let batch = self.pairs(kept_at, kept, seen, rows)?;
        let held = self.condition.as_ref().map_or(Ok(None), |condition| condition.select(&batch))?;
        Ok(held.map_or_else(|| (0..seen.len() as u32).collect(), |held| held.rows().to_vec()))
    }

    /// The columns of such pairs.
    fn pairs(
        &self,
        (layout, arguments): (&Layout, &[usize]),
        kept: &Kept,
        seen: &[At],
        (bases, groups): (&[Entry], &[u32]),
    ) -> Result<Batch> {
        let base = groups.iter().map(|number| bases[*number as usize]);
        let at: Vec<At> = base.clone().map(|base| base.at).collect();
        let column = |side: &Side, kind| match side {
            Side::Seen(argument) => kept.gather(arguments[*argument], seen),
            Side::Base(column) => match layout.place(*column)? {
                Place::Time => times(base.clone().map(|base| base.time).collect(), kind),
                Place::Kept(slot) => kept.gather(slot, &at),
            },
        };
        let fields = self.schema.fields().iter();
        let columns = self.columns.iter().zip(fields).map(|(side, field)| column(side, field.data_type()));
        self.batch(columns.collect::<Result<_>>()?, seen.len())
    }

    /// The arguments of one of the aggregates, of no pair.
    ///
    /// Errors: those of its expressions.
    pub fn nothing(&self, call: usize) -> Result<Vec<ArrayRef>> {
        let columns = self.schema.fields().iter().map(|field| new_empty_array(field.data_type()));
        let batch = self.batch(columns.collect(), 0)?;
        Ok(Values::new(&[], &self.calls[call..=call], &batch)?.arguments.swap_remove(0))
    }

    fn batch(&self, columns: Vec<ArrayRef>, pairs: usize) -> Result<Batch> {
        let options = RecordBatchOptions::new().with_row_count(Some(pairs));
        Ok(Batch::new(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?))
    }
}

impl Layout {
    /// Where a column of the first input is that passes.
    ///
    /// Errors: `Error::Bug` if it does not.
    fn place(&self, column: usize) -> Result<Place> {
        let passed = self.passed.iter().find(|passed| passed.column == column);
        Ok(passed.ok_or_else(|| Error::bug("a column of a pair does not pass"))?.place)
    }
}
