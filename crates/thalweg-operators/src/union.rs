//! Gives the rows of all inputs.

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use thalweg_core::{Batch, Operator, Output, Port, Progress, Result};

/// Gives the rows of all inputs, which have the same column types, as they arrive.
///
/// Shape:  any port's row → the same row under the output's column names. Nothing is copied.
/// State:  none. Event time is the slowest input's, as for every operator.
pub struct Union {
    output: SchemaRef,
}

impl Union {
    /// A union whose columns have these names.
    pub fn new(output: SchemaRef) -> Self {
        Self { output }
    }
}

impl Operator for Union {
    fn on_batch(&mut self, _: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.physical_rows()));
        let columns = batch.columns().columns().to_vec();
        let columns = RecordBatch::try_new_with_options(self.output.clone(), columns, &rows)?;
        out.emit(batch.with_columns(columns))
    }
}
