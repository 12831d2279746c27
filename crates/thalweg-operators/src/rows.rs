//! Rows as keys, and raw rows as state, for operators that compare rows or wait with them.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray, types::*};
use arrow_schema::DataType;
use arrow_select::concat::concat_batches;
use thalweg_core::{Batch, Result, Snapshot, Timestamp, snapshot::Reader};

/// Writes the selected rows of all batches, with the watermark that each met.
pub fn save(batches: &[Batch], snapshot: &mut Snapshot) -> Result<()> {
    snapshot.number(batches.len() as i64);
    for batch in batches {
        snapshot.rows(batch.compact()?);
        let met = batch.behind().map(|behind| batch.rows().map(|row| behind[row].0).collect::<Vec<_>>());
        snapshot.number(i64::from(met.is_some()));
        if let Some(met) = met {
            let column = Arc::new(Int64Array::from(met)) as ArrayRef;
            snapshot.rows(RecordBatch::try_from_iter([("met", column)])?);
        }
    }
    Ok(())
}

/// Reads what [`save`] wrote.
pub fn load(snapshot: &mut Reader<'_>) -> Result<Vec<Batch>> {
    (0..snapshot.number()?).map(|_| load_one(snapshot)).collect()
}

fn load_one(snapshot: &mut Reader<'_>) -> Result<Batch> {
    let batch = Batch::new(snapshot.rows()?);
    if snapshot.number()? == 0 {
        return Ok(batch);
    }
    let met = snapshot.rows()?;
    let met = arrow_array::cast::as_primitive_array::<arrow_array::types::Int64Type>(met.column(0));
    Ok(batch.with_behind(met.values().iter().map(|t| Timestamp(*t)).collect()))
}

/// The selected rows of all batches as one batch of this schema.
pub fn together(schema: &arrow_schema::SchemaRef, batches: &[Batch]) -> Result<RecordBatch> {
    let compact = batches.iter().map(Batch::compact).collect::<Result<Vec<_>>>()?;
    Ok(concat_batches(schema, &compact)?)
}

/// How many bytes the batches keep alive.
pub fn bytes(batches: &[Batch]) -> usize {
    batches.iter().map(Batch::bytes).sum()
}

/// A column to be compared by: as in PostgreSQL, −0.0 and 0.0 are one value, and so are all NaNs, the largest.
pub fn canonical(column: &ArrayRef) -> ArrayRef {
    fn plain(value: f64) -> f64 {
        if value.is_nan() { f64::NAN } else { value + 0.0 }
    }
    match column.data_type() {
        DataType::Float64 => Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(plain)) as ArrayRef,
        DataType::Float32 => {
            let canonical = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(canonical))
        }
        _ => Arc::clone(column),
    }
}
