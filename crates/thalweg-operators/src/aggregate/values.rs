//! What the expressions of an aggregate give for a batch.

use std::{borrow::Cow, ops::Range, sync::Arc};

use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array, cast::AsArray};
use thalweg_core::{Batch, Result, Selection, expression::Expression};

use super::{Call, placing::Rows};
use crate::rows::taken;

/// What the expressions give for some rows, packed together; or keys and states that were computed before.
#[derive(Clone)]
pub struct Values {
    /// The key columns.
    pub keys: Vec<ArrayRef>,
    /// How many rows there are.
    pub count: usize,
    /// The argument columns of each aggregate, or those of its state.
    pub arguments: Vec<Vec<ArrayRef>>,
    /// For which rows each aggregate's FILTER holds.
    pub filters: Vec<Option<BooleanArray>>,
}

impl Values {
    /// Those of the selected rows of a batch.
    pub fn new(keys: &[Arc<dyn Expression>], calls: &[Call], batch: &Batch) -> Result<Self> {
        let selected = batch.selection().map(|selection| selection.to_indices());
        let packed = |all: ArrayRef| -> Result<ArrayRef> {
            Ok(match &selected {
                None => all,
                Some(rows) => taken(&all, rows)?,
            })
        };
        let evaluate = |expression: &Arc<dyn Expression>, batch: &Batch| packed(expression.evaluate(batch)?);
        let keys = keys.iter().map(|key| evaluate(key, batch)).collect::<Result<Vec<_>>>()?;
        let (mut arguments, mut filters) = (Vec::new(), Vec::new());
        for call in calls {
            // An argument that may fail sees only the rows for which the filter holds.
            let (batch, filter) = match &call.filter {
                None => (batch.clone(), None),
                Some(filter) => {
                    let mask = filter.evaluate(batch)?;
                    let counted = Selection::narrow(batch.selection(), mask.as_boolean());
                    (batch.clone().with_selection(counted), Some(packed(mask)?))
                }
            };
            arguments.push(call.arguments.iter().map(|a| evaluate(a, &batch)).collect::<Result<Vec<_>>>()?);
            filters.push(filter.map(|mask| mask.as_boolean().clone()));
        }
        Ok(Self { keys, count: batch.len(), arguments, filters })
    }

    /// Those of some rows.
    pub fn of(&self, rows: &Rows) -> Result<Cow<'_, Self>> {
        Ok(match rows {
            Rows::All => Cow::Borrowed(self),
            Rows::Range(range) => Cow::Owned(self.slice(range)),
            Rows::Some(rows) => Cow::Owned(self.take(rows)?),
        })
    }

    /// Those of rows that stand beside each other, without a copy.
    fn slice(&self, rows: &Range<usize>) -> Self {
        let slice =
            |columns: &Vec<ArrayRef>| columns.iter().map(|column| column.slice(rows.start, rows.len())).collect();
        Self {
            keys: slice(&self.keys),
            count: rows.len(),
            arguments: self.arguments.iter().map(slice).collect(),
            filters: self.filters.iter().map(|mask| Some(mask.as_ref()?.slice(rows.start, rows.len()))).collect(),
        }
    }

    /// Those of any rows, copied together.
    fn take(&self, rows: &UInt32Array) -> Result<Self> {
        let columns = |columns: &Vec<ArrayRef>| columns.iter().map(|column| taken(column, rows)).collect::<Result<_>>();
        let mask = |mask: &Option<BooleanArray>| -> Result<_> {
            Ok(mask.as_ref().map(|mask| taken(mask, rows)).transpose()?.map(|mask| mask.as_boolean().clone()))
        };
        Ok(Self {
            keys: columns(&self.keys)?,
            count: rows.len(),
            arguments: self.arguments.iter().map(columns).collect::<Result<_>>()?,
            filters: self.filters.iter().map(mask).collect::<Result<_>>()?,
        })
    }
}
