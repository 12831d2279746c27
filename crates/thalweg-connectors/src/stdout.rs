//! A sink on standard output, in any format. A reader that goes away, as in `| head`, ends it quietly.

use std::io;

use thalweg_core::{
    Batch, Progress, Result,
    connector::{Connector, Sink, TableDefinition},
};

use crate::{format::Format, row_writer::RowWriter};

/// `'connector' = 'stdout'`.
pub(crate) struct Stdout;

impl Connector for Stdout {
    fn name(&self) -> &'static str {
        "stdout"
    }

    fn check(&self, table: &TableDefinition) -> Result<()> {
        Format::new(&table.options, None)?.check(&table.options, &[])
    }

    fn sink(&self, table: &TableDefinition) -> Result<Box<dyn Sink>> {
        let format = Format::new(&table.options, None)?;
        format.check(&table.options, &[])?;
        let writer = RowWriter::new(io::stdout(), format.encoder(), "standard output");
        Ok(Box::new(Output { writer, schema: table.columns.clone() }))
    }
}

struct Output {
    writer: RowWriter<io::Stdout>,
    schema: arrow_schema::SchemaRef,
}

impl Sink for Output {
    fn write(&mut self, batch: &Batch) -> Result<Progress> {
        match self.writer.begin(&self.schema)? {
            Progress::Finished => Ok(Progress::Finished),
            _ => self.writer.write(batch),
        }
    }

    fn flush(&mut self) -> Result<Progress> {
        self.writer.flush()
    }

    fn finish(&mut self) -> Result<()> {
        self.writer.begin(&self.schema)?;
        self.writer.flush().map(drop)
    }
}
