//! Keeps null out of columns that are declared NOT NULL.

use arrow_array::Array;
use arrow_schema::SchemaRef;
use thalweg_core::{Batch, Error, Progress, Result, connector::Sink, error::Subject};

/// A sink that takes no null in columns that are NOT NULL.
pub struct NotNull {
    inner: Box<dyn Sink>,
    columns: SchemaRef,
}

impl NotNull {
    /// The sink itself where every column may be null.
    pub fn guard(inner: Box<dyn Sink>, columns: &SchemaRef) -> Box<dyn Sink> {
        if columns.fields().iter().all(|field| field.is_nullable()) {
            return inner;
        }
        Box::new(Self { inner, columns: SchemaRef::clone(columns) })
    }
}

impl Sink for NotNull {
    fn write(&mut self, batch: &Batch) -> Result<Progress> {
        for (i, field) in self.columns.fields().iter().enumerate().filter(|(_, field)| !field.is_nullable()) {
            let column = batch.column(i);
            // Rows that a filter dropped may be null.
            if column.null_count() > 0 && batch.rows().any(|row| column.is_null(row)) {
                return Err(Error::data(format!("null in column \"{}\", which is NOT NULL", field.name()))
                    .with_hint("COALESCE(x, …) gives a value in its place, WHERE x IS NOT NULL leaves the row out")
                    .about(Subject::Target(field.name().clone())));
            }
        }
        self.inner.write(batch)
    }

    fn flush(&mut self) -> Result<Progress> {
        self.inner.flush()
    }

    fn finish(&mut self) -> Result<()> {
        self.inner.finish()
    }
}
