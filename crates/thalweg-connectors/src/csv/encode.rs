//! Rows to CSV.

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use thalweg_core::{Error, Result};

use super::Csv;
use crate::{format::Encoder, text::write::Cells};

/// Encodes rows as records. Null is the null text; text that could be taken for null or for anything but a field is quoted.
pub(crate) struct CsvEncoder {
    csv: Csv,
}

impl CsvEncoder {
    /// An encoder of a dialect.
    pub(crate) fn new(csv: Csv) -> Self {
        Self { csv }
    }

    fn field(&self, text: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if !self.is_special(text) {
            out.extend_from_slice(text);
            return Ok(());
        }
        let Some(quote) = self.csv.quote else {
            let text = crate::text::shown(text);
            return Err(Error::data(format!("{text} cannot be written to csv without quotes"))
                .with_hint("leave 'csv.quote' out"));
        };
        out.push(quote);
        for byte in text {
            match (self.csv.escape, *byte == quote) {
                (Some(escape), _) if *byte == escape => out.push(escape),
                (_, true) => out.push(quote),
                _ => {}
            }
            out.push(*byte);
        }
        out.push(quote);
        Ok(())
    }

    fn is_special(&self, text: &[u8]) -> bool {
        let csv = &self.csv;
        let is_special = |byte: &u8| {
            let byte = Some(*byte);
            byte == Some(csv.delimiter) || byte == csv.quote || byte == Some(b'\n') || byte == Some(b'\r')
        };
        text == csv.null.as_bytes()
            || text.is_empty()
            || text.starts_with(b"\xef\xbb\xbf")
            || (csv.comment.is_some() && text.first().copied() == csv.comment)
            || text.iter().any(is_special)
    }
}

impl Encoder for CsvEncoder {
    fn begin(&mut self, schema: &Schema, out: &mut Vec<u8>) -> Result<()> {
        if self.csv.header == Some(false) {
            return Ok(());
        }
        for (i, field) in schema.fields().iter().enumerate() {
            if i > 0 {
                out.push(self.csv.delimiter);
            }
            self.field(field.name().as_bytes(), out)?;
        }
        out.push(b'\n');
        Ok(())
    }

    fn encode(
        &mut self,
        columns: &RecordBatch,
        rows: &mut dyn Iterator<Item = usize>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let columns = columns.columns().iter().map(Cells::new).collect::<Result<Vec<_>>>()?;
        let mut text = Vec::new();
        for row in rows {
            for (i, cells) in columns.iter().enumerate() {
                if i > 0 {
                    out.push(self.csv.delimiter);
                }
                if cells.is_null(row) {
                    out.extend_from_slice(self.csv.null.as_bytes());
                    continue;
                }
                text.clear();
                cells.write(row, &mut text)?;
                self.field(&text, out)?;
            }
            out.push(b'\n');
        }
        Ok(())
    }
}
