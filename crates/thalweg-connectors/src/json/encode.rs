//! Rows to JSON lines.

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use thalweg_core::Result;

use crate::{
    format::Encoder,
    text::write::{Cells, json_key, write_object},
};

/// Encodes each row as an object, null as null.
pub(crate) struct JsonEncoder;

impl Encoder for JsonEncoder {
    fn begin(&mut self, _: &Schema, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn encode(
        &mut self,
        columns: &RecordBatch,
        rows: &mut dyn Iterator<Item = usize>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let schema = columns.schema();
        let cells = schema.fields().iter().zip(columns.columns());
        let cells = cells.map(|(field, column)| Ok((json_key(field.name()), Cells::new(column)?)));
        let cells = cells.collect::<Result<Vec<_>>>()?;
        for row in rows {
            write_object(&cells, row, out)?;
            out.push(b'\n');
        }
        Ok(())
    }
}
