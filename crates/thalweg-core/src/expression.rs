//! Values computed from the rows of a batch.

use std::fmt::Debug;

use arrow_array::{ArrayRef, cast::AsArray};

use crate::{Batch, Error, Result, Selection};

/// A value per row. What implements it (DataFusion, or a kernel of ours) is not an operator's concern.
pub trait Expression: Send + Sync + Debug {
    /// One value per *physical* row. Only selected rows are computed: an expression that may fail never sees the others,
    /// whose values mean nothing.
    fn evaluate(&self, batch: &Batch) -> Result<ArrayRef>;

    /// The number of the column that this expression merely passes on.
    fn column(&self) -> Option<usize> {
        None
    }

    /// Whether [`Expression::select`] runs on kernels of ours.
    fn selects_by_kernels(&self) -> bool {
        false
    }

    /// The selected rows for which the expression is true; `None` where all of them stay.
    ///
    /// Errors: `Error::Bug` if its values are not booleans; the plan checks that.
    fn select(&self, batch: &Batch) -> Result<Option<Selection>> {
        let values = self.evaluate(batch)?;
        let mask = values.as_boolean_opt().ok_or_else(|| Error::bug("a predicate must be a boolean"))?;
        let selection = Selection::narrow(batch.selection(), mask);
        Ok((!selection.keeps(batch.len())).then_some(selection))
    }
}

/// How many bytes of text an expression may make for one batch of rows.
pub const TEXT_LIMIT: usize = 256 << 20;

/// Refuses to make more text than [`TEXT_LIMIT`], before it is made.
pub fn check_text(what: &str, bytes: usize) -> Result<()> {
    if bytes <= TEXT_LIMIT {
        return Ok(());
    }
    let message = format!("{what} would make {bytes} bytes of text for one batch of rows, more than {TEXT_LIMIT}");
    Err(Error::environment(message).with_hint("make shorter texts, or SET a smaller 'batch.rows'"))
}
