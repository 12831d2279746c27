//! Saving raw rows, for operators that wait with rows before they do anything with them.

use arrow_array::{Int64Array, RecordBatch};
use arrow_select::concat::concat_batches;
use thalweg_core::{
    Batch, Result, Timestamp,
    state::{Reader, Writer},
};

/// Writes the selected rows of all batches, with the watermark that each met.
pub fn save(batches: &[Batch], snapshot: &mut Writer) -> Result<()> {
    snapshot.number(batches.len() as i64);
    for batch in batches {
        snapshot.batch(&batch.compact()?)?;
        let met = batch.behind().map(|behind| batch.rows().map(|row| behind[row].0).collect::<Vec<_>>());
        snapshot.number(i64::from(met.is_some()));
        if let Some(met) = met {
            let column = std::sync::Arc::new(Int64Array::from(met)) as arrow_array::ArrayRef;
            snapshot.batch(&RecordBatch::try_from_iter([("met", column)])?)?;
        }
    }
    Ok(())
}

/// Reads what [`save`] wrote.
pub fn load(snapshot: &mut Reader<'_>) -> Result<Vec<Batch>> {
    (0..snapshot.number()?).map(|_| load_one(snapshot)).collect()
}

fn load_one(snapshot: &mut Reader<'_>) -> Result<Batch> {
    let batch = Batch::new(snapshot.batch()?);
    if snapshot.number()? == 0 {
        return Ok(batch);
    }
    let met = snapshot.batch()?;
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
