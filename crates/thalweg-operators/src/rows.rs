//! Rows as keys, and raw rows as state, for operators that compare rows or wait with them.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array, cast::AsArray, make_array, types::*};
use arrow_buffer::{ArrowNativeType, Buffer};
use arrow_schema::DataType;
use arrow_select::{concat::concat_batches, take::take};
use thalweg_core::{Batch, Result, Snapshot, Timestamp, snapshot::Reader};
use thalweg_memory::{kernels::gather::of_rows, simd::Level};

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

/// The values of these rows of a column. Numbers and times are read ahead: others wrote them, as a rule.
pub fn taken(column: &dyn Array, rows: &UInt32Array) -> Result<ArrayRef> {
    fn values<T: ArrowNativeType>(column: &dyn Array, rows: &UInt32Array) -> Result<ArrayRef> {
        let data = column.to_data();
        let values = &data.buffer::<T>(0)[..data.len()];
        let values = Buffer::from_vec(of_rows(Level::best(), values, rows.values()));
        let data = data.into_builder().len(rows.len()).offset(0).buffers(vec![values]).nulls(None);
        Ok(make_array(data.build()?))
    }
    match column.data_type().primitive_width().filter(|_| column.null_count() == 0) {
        Some(4) => values::<u32>(column, rows),
        Some(8) => values::<u64>(column, rows),
        _ => Ok(take(column, rows, None)?),
    }
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

#[cfg(test)]
mod tests {
    use arrow_array::{BooleanArray, Date32Array, Float64Array, Int8Array, StringArray, TimestampMicrosecondArray};

    use super::*;

    #[test]
    fn the_values_of_rows_are_those_that_arrow_takes_also_of_a_slice() {
        let zoned = TimestampMicrosecondArray::from_iter_values(0..20).with_timezone("+02:00");
        let columns: [ArrayRef; 7] = [
            Arc::new(Int64Array::from_iter_values(0..20)),
            Arc::new(Int64Array::from_iter((0..20).map(|row| (row % 3 > 0).then_some(row)))),
            Arc::new(Float64Array::from_iter_values((0..20).map(|row| f64::from(row) / 4.0))),
            Arc::new(Date32Array::from_iter_values(0..20)),
            Arc::new(Int8Array::from_iter_values(0..20)),
            Arc::new(zoned),
            Arc::new(StringArray::from_iter_values((0..20).map(|row| row.to_string()))),
        ];
        let flags = Arc::new(BooleanArray::from_iter((0..20).map(|row| Some(row % 3 == 0)))) as ArrayRef;
        for column in columns.into_iter().chain([flags]) {
            for rows in [vec![], vec![0, 1, 4, 11], vec![11, 11, 0]] {
                let (slice, rows) = (column.slice(7, 12), UInt32Array::from(rows));
                assert_eq!(&taken(&slice, &rows).unwrap(), &take(&slice, &rows, None).unwrap());
            }
        }
    }
}
