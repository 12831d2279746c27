//! Shows batches to the program.

use thalweg_core::{Batch, Operator, Output, Port, Progress, Result};

/// Calls a function with each batch, and passes the batch on.
///
/// Shape:  any row → the same row.
/// State:  none. Several instances may call the function at the same time.
/// Errors: what the function gives; it ends the query.
pub struct Notify<F> {
    call: F,
}

impl<F: Fn(&Batch) -> Result<()> + Send> Notify<F> {
    /// Calls this function.
    pub fn new(call: F) -> Self {
        Self { call }
    }
}

impl<F: Fn(&Batch) -> Result<()> + Send> Operator for Notify<F> {
    fn on_batch(&mut self, _: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        (self.call)(&batch)?;
        out.emit(batch)
    }
}
