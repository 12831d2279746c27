//! Rows as text, one line each.

use arrow_array::{Array, RecordBatch, cast::AsArray, types::TimestampMicrosecondType};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, TimeUnit};
use thalweg_core::{Result, Timestamp};

/// Each row as its fields with ` | ` between them; null as `null`, instants as ISO 8601.
pub fn lines(batch: &RecordBatch) -> Result<Vec<String>> {
    let columns = batch.columns().iter().map(|column| fields(column.as_ref())).collect::<Result<Vec<_>>>()?;
    let row = |number: usize| columns.iter().map(|column| column[number].as_str()).collect::<Vec<_>>().join(" | ");
    Ok((0..batch.num_rows()).map(row).collect())
}

fn fields(column: &dyn Array) -> Result<Vec<String>> {
    let options = FormatOptions::new().with_null("null");
    let formatter = ArrayFormatter::try_new(column, &options)?;
    let plain = |row: usize| formatter.value(row).to_string();
    let is_instant = matches!(column.data_type(), DataType::Timestamp(TimeUnit::Microsecond, None));
    let shown = |row: usize| match is_instant && column.is_valid(row) {
        true => Timestamp(column.as_primitive::<TimestampMicrosecondType>().value(row)).to_string(),
        false => plain(row),
    };
    Ok((0..column.len()).map(shown).collect())
}
