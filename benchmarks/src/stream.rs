//! Made-up streams in memory.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// How many rows a batch has.
const BATCH: usize = 1 << 20;

/// 64-bit keys, uniform below a billion, in as many partitions.
pub fn keys(rows: usize, partitions: usize) -> Vec<Vec<RecordBatch>> {
    let mut random = StdRng::seed_from_u64(18);
    parted(rows, partitions, |_, rows| {
        let keys: Vec<i64> = (0..rows).map(|_| random.random_range(0..1_000_000_000)).collect();
        vec![("key", Arc::new(Int64Array::from(keys)) as ArrayRef)]
    })
}

/// Rows of 24 bytes: event time, key below `keys`, value. Times go up by `step` microseconds from row to row, and a row may
/// be out of order by as much as `disorder`.
pub fn readings(rows: usize, partitions: usize, keys: i64, step: i64, disorder: i64) -> Vec<Vec<RecordBatch>> {
    let mut random = StdRng::seed_from_u64(42);
    parted(rows, partitions, |first, rows| {
        let times = (0..rows).map(|row| {
            let late = if disorder > 0 { random.random_range(0..disorder) } else { 0 };
            (first + row) as i64 * step - late
        });
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(times));
        let keyed: Vec<i64> = (0..rows).map(|_| random.random_range(0..keys)).collect();
        let values: Vec<f64> = (0..rows).map(|_| f64::from(random.random_range(0..100_000)) / 8.0).collect();
        vec![
            ("ts", times),
            ("key", Arc::new(Int64Array::from(keyed)) as ArrayRef),
            ("value", Arc::new(Float64Array::from(values)) as ArrayRef),
        ]
    })
}

fn parted(
    rows: usize,
    partitions: usize,
    mut make: impl FnMut(usize, usize) -> Vec<(&'static str, ArrayRef)>,
) -> Vec<Vec<RecordBatch>> {
    let share = rows / partitions;
    (0..partitions)
        .map(|_| {
            let starts = (0..share).step_by(BATCH);
            starts
                .map(|first| RecordBatch::try_from_iter(make(first, BATCH.min(share - first))).expect("equal lengths"))
                .collect()
        })
        .collect()
}
