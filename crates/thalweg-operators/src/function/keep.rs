//! Keeps the rows that the program wants.

use thalweg_core::{Batch, Operator, Output, Port, Progress, Result, Selection};

use super::Row;

/// Keeps the rows for which a function says so.
///
/// Shape:  any row → the same row, or none. No row is copied.
/// State:  none. Several instances may call the function at the same time.
/// Errors: what the function gives; it ends the query.
pub struct Keep<F> {
    wants: F,
}

impl<F: Fn(Row<'_>) -> Result<bool> + Send> Keep<F> {
    /// Asks this function.
    pub fn new(wants: F) -> Self {
        Self { wants }
    }
}

impl<F: Fn(Row<'_>) -> Result<bool> + Send> Operator for Keep<F> {
    fn on_batch(&mut self, _: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        let mut kept = Vec::with_capacity(batch.len());
        for row in batch.rows() {
            if (self.wants)(Row::new(batch.columns(), row))? {
                kept.push(row as u32);
            }
        }
        out.emit(batch.with_selection(Selection::new(kept)))
    }
}
