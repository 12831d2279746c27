//! Writes rows to anything that takes bytes.

use std::io::{self, ErrorKind, Write};

use thalweg_core::{Batch, Error, Progress, Result};

use crate::{
    csv::{Csv, CsvEncoder},
    format::Encoder,
    json::JsonEncoder,
};

/// Writes rows as JSON lines: an object a row, ISO 8601 timestamps, null as null.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// # use thalweg_core::Batch;
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
/// let batch = Batch::new(RecordBatch::try_from_iter([("a", column)]).unwrap());
/// let mut lines = Vec::new();
/// thalweg_connectors::json_lines(&mut lines).write(&batch).unwrap();
/// assert_eq!(lines, b"{\"a\":1}\n{\"a\":null}\n");
/// ```
pub fn json_lines<W: Write>(writer: W) -> RowWriter<W> {
    RowWriter::new(writer, Box::new(JsonEncoder), "the output")
}

/// Writes rows as comma-separated values, after a line with the columns' names if `header` says so.
pub fn csv<W: Write>(writer: W, header: bool) -> RowWriter<W> {
    let csv = Csv { header: Some(header), ..Csv::default() };
    RowWriter::new(writer, Box::new(CsvEncoder::new(csv)), "the output")
}

/// Writes rows in a format. Each call hands on whole rows; it keeps none back.
pub struct RowWriter<W> {
    writer: W,
    encoder: Box<dyn Encoder>,
    target: String,
    has_begun: bool,
    buffer: Vec<u8>,
}

impl<W: Write> RowWriter<W> {
    /// A writer of a format to a target that messages name.
    pub(crate) fn new(writer: W, encoder: Box<dyn Encoder>, target: &str) -> Self {
        Self { writer, encoder, target: target.into(), has_begun: false, buffer: vec![] }
    }

    /// Writes what stands before all rows, if it was not written yet; else the first [`write`](Self::write) does.
    pub fn begin(&mut self, schema: &arrow_schema::Schema) -> Result<Progress> {
        if self.has_begun {
            return Ok(Progress::Done);
        }
        self.has_begun = true;
        self.encoder.begin(schema, &mut self.buffer)?;
        self.hand_on()
    }

    /// Writes the selected rows. [`Progress::Finished`]: the reader at the other end has gone.
    pub fn write(&mut self, batch: &Batch) -> Result<Progress> {
        if self.begin(&batch.schema())? == Progress::Finished {
            return Ok(Progress::Finished);
        }
        self.encoder.encode(batch.columns(), &mut batch.rows(), &mut self.buffer)?;
        self.hand_on()
    }

    /// Flushes the writer below.
    pub fn flush(&mut self) -> Result<Progress> {
        written(self.writer.flush(), &self.target)
    }

    /// The writer below.
    pub fn into_inner(self) -> W {
        self.writer
    }

    fn hand_on(&mut self) -> Result<Progress> {
        let progress = written(self.writer.write_all(&self.buffer), &self.target);
        self.buffer.clear();
        progress
    }
}

/// What came of writing: done, nobody reads any more, or an error that names the target.
pub(crate) fn written(result: io::Result<()>, target: &str) -> Result<Progress> {
    match result {
        Ok(()) => Ok(Progress::Done),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Progress::Finished),
        Err(error) => Err(Error::environment(format!("cannot write {target}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};

    use super::*;

    fn batch() -> Batch {
        let a: ArrayRef = Arc::new(StringArray::from(vec![Some("x,\"y\""), Some(""), None, Some("ä\n")]));
        let b: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)]));
        Batch::new(RecordBatch::try_from_iter([("a", a), ("b b", b)]).unwrap())
    }

    #[test]
    fn csv_tells_null_from_empty() {
        let mut writer = csv(Vec::new(), true);
        writer.write(&batch()).unwrap();
        writer.write(&batch().with_selection(thalweg_core::Selection::new(vec![2]))).unwrap();
        let text = String::from_utf8(writer.into_inner()).unwrap();
        assert_eq!(text, "a,b b\n\"x,\"\"y\"\"\",1\n\"\",\n,3\n\"ä\n\",4\n,3\n");
    }

    #[test]
    fn many_rows_are_written_once_each() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
        let mut writer = json_lines(Vec::new());
        writer.write(&Batch::new(RecordBatch::try_from_iter([("a", column)]).unwrap())).unwrap();
        let text = String::from_utf8(writer.into_inner()).unwrap();
        assert!(text.lines().enumerate().all(|(i, line)| line == format!("{{\"a\":{i}}}")));
        assert_eq!(text.lines().count(), 100_000);
    }

    /// Takes no bytes, for a reason.
    struct Refuses(ErrorKind);

    impl Write for Refuses {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_broken_pipe_ends_quietly_and_a_full_disk_does_not() {
        assert_eq!(json_lines(Refuses(ErrorKind::BrokenPipe)).write(&batch()).unwrap(), Progress::Finished);
        let error = csv(Refuses(ErrorKind::StorageFull), true).write(&batch()).unwrap_err();
        assert_eq!(error.message(), "cannot write the output: no storage space");
    }
}
