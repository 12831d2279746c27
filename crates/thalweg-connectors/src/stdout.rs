//! A sink on standard output, in any format. A reader that goes away, as in `| head`, ends it quietly.

use std::{fs::File, io, os::fd::AsFd};

use thalweg_core::{
    Batch, Error, Progress, Result,
    connector::{Connector, Sink, TableDefinition},
};

use crate::{format::Format, row_writer::RowWriter};

/// Standard output as a file: nothing waits in a buffer, and each write says whether it failed, also on a descriptor that cannot
/// be written to, which the standard library's own takes for one that nobody reads.
///
/// Errors: `Error::Environment` if the process may not open more files.
pub fn unbuffered_stdout() -> Result<File> {
    let file = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    file.map_err(|error| Error::environment(format!("cannot write standard output: {error}")))
}

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
        let writer = RowWriter::new(unbuffered_stdout()?, format.encoder(), "standard output");
        Ok(Box::new(Output { writer, schema: table.columns.clone() }))
    }
}

struct Output {
    writer: RowWriter<File>,
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
