//! A sink for people to look at: `+I[a, b]`, a line a row, as Flink prints them.
//!
//! `'print-identifier' = 'x'` puts `x> ` before each line.

use std::io::Write;

use thalweg_core::{
    Batch, Progress, Result,
    connector::{Connector, Sink, TableDefinition},
};

use crate::{row_writer::written, stdout::unbuffered_stdout, text::write::Cells};

/// `'connector' = 'print'`.
pub(crate) struct Print;

impl Connector for Print {
    fn name(&self) -> &'static str {
        "print"
    }

    fn check(&self, table: &TableDefinition) -> Result<()> {
        table.options.check(&["connector", "print-identifier"])
    }

    fn sink(&self, table: &TableDefinition) -> Result<Box<dyn Sink>> {
        self.check(table)?;
        let prefix = table.options.get("print-identifier").map(|id| format!("{id}> "));
        Ok(Box::new(Printer { prefix: prefix.unwrap_or_default(), out: unbuffered_stdout()? }))
    }
}

struct Printer<W> {
    prefix: String,
    out: W,
}

impl<W: Write + Send> Sink for Printer<W> {
    fn write(&mut self, batch: &Batch) -> Result<Progress> {
        let columns = batch.columns().columns().iter().map(Cells::new).collect::<Result<Vec<_>>>()?;
        let mut lines = Vec::new();
        for row in batch.rows() {
            lines.extend_from_slice(self.prefix.as_bytes());
            lines.extend_from_slice(b"+I[");
            for (i, cells) in columns.iter().enumerate() {
                if i > 0 {
                    lines.extend_from_slice(b", ");
                }
                match cells.is_null(row) {
                    true => lines.extend_from_slice(b"null"),
                    false => cells.write(row, &mut lines)?,
                }
            }
            lines.extend_from_slice(b"]\n");
        }
        written(self.out.write_all(&lines), "standard output")
    }

    fn flush(&mut self) -> Result<Progress> {
        written(self.out.flush(), "standard output")
    }

    fn finish(&mut self) -> Result<()> {
        self.flush().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use thalweg_core::Selection;

    use super::*;

    #[test]
    fn rows_are_printed_as_flink_prints_them() {
        let a: ArrayRef = Arc::new(StringArray::from(vec![Some("x, y"), Some("out"), None]));
        let b: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch = Batch::new(RecordBatch::try_from_iter([("a", a), ("b", b)]).unwrap());
        let mut printer = Printer { prefix: "id> ".into(), out: Vec::new() };
        printer.write(&batch.with_selection(Selection::new(vec![0, 2]))).unwrap();
        assert_eq!(String::from_utf8(printer.out).unwrap(), "id> +I[x, y, 1]\nid> +I[null, 3]\n");
    }
}
