//! Averages in windows over event time: 24-byte rows in memory.

use std::collections::BTreeMap;

use arrow_array::{Array, RecordBatch, cast::AsArray, types::*};
use serde_json::json;
use thalweg::{Engine, Memory};

use crate::{
    machine::cores,
    measure::{Case, Report, parameters},
    stream,
};

/// A second of event time has so many rows.
const ROWS_A_SECOND: i64 = 1_000_000;

/// Measures the average over all and per key.
pub fn run(report: &mut Report) -> Result<(), String> {
    let rows = if report.is_quick() { 1 << 21 } else { 1 << 25 };
    for (name, keys, disorder) in [
        ("over all, in order", None, 0),
        ("over all, out of order", None, 100_000),
        ("10 keys", Some(10), 0),
        ("10 k keys", Some(10_000), 0),
        ("1 M keys", Some(1_000_000), 0),
    ] {
        let stream = stream::readings(rows, 1, keys.unwrap_or(1), 1_000_000 / ROWS_A_SECOND, disorder);
        let expected = averages(&stream, keys.is_some());
        let memory = Memory::default();
        memory.put("readings", stream).map_err(|error| error.to_string())?;
        for sum in ["exact", "fast"] {
            let key = if keys.is_some() { ", key" } else { "" };
            let query = format!(
                "SELECT window_start{key}, avg(value) AS mean FROM TUMBLE(readings, ts, INTERVAL '1' SECOND) \
                 GROUP BY window_start{key}"
            );
            let (memory, expected, statement) = (&memory, &expected, query.clone());
            report.measure(Case {
                workload: "window",
                variant: format!("average {name}, {sum} sums"),
                parameters: parameters([
                    ("query", json!(query)),
                    ("input", json!("24-byte rows, in memory, a million a second of event time")),
                    ("keys", json!(keys)),
                    ("disorder_us", json!(disorder)),
                    ("workers", json!(cores())),
                ]),
                rows: rows as u64,
                bytes_per_row: if keys.is_some() { 24.0 } else { 16.0 },
                workers: 1,
                run: Box::new(move || {
                    let found = means(memory, sum, disorder, &statement).map_err(|error| error.to_string())?;
                    Ok(Box::new(move || compare(&found, expected)))
                }),
            })?;
        }
    }
    Ok(())
}

/// Sum and count by window and key.
type Expected = BTreeMap<(i64, i64), (f64, u64)>;

fn averages(stream: &[Vec<RecordBatch>], is_keyed: bool) -> Expected {
    let mut averages = Expected::new();
    for batch in stream.iter().flatten() {
        let times = batch.column(0).as_primitive::<TimestampMicrosecondType>().values();
        let keys = batch.column(1).as_primitive::<Int64Type>().values();
        let values = batch.column(2).as_primitive::<Float64Type>().values();
        for ((time, key), value) in times.iter().zip(keys).zip(values) {
            let start = time.div_euclid(1_000_000) * 1_000_000;
            let (sum, count) = averages.entry((start, if is_keyed { *key } else { 0 })).or_default();
            *sum += value;
            *count += 1;
        }
    }
    averages
}

/// The values are eighths, so that their sums are exact in any order.
fn compare(found: &[RecordBatch], expected: &Expected) -> Result<u64, String> {
    let mut checked = 0;
    for batch in found {
        let starts = batch.column(0).as_primitive::<TimestampMicrosecondType>();
        let means = batch.column(batch.num_columns() - 1).as_primitive::<Float64Type>();
        for row in 0..batch.num_rows() {
            let key = match batch.num_columns() {
                3 => batch.column(1).as_primitive::<Int64Type>().value(row),
                _ => 0,
            };
            let Some((sum, count)) = expected.get(&(starts.value(row), key)) else {
                return Err(format!("there is no window at {} with key {key}", starts.value(row)));
            };
            if means.is_null(row) || means.value(row) != sum / *count as f64 {
                return Err(format!("the mean at {} of key {key} is {}", starts.value(row), means.value(row)));
            }
            checked += 1;
        }
    }
    if checked != expected.len() as u64 {
        return Err(format!("{checked} rows came out, {} must", expected.len()));
    }
    Ok(checked)
}

fn means(memory: &Memory, sum: &str, disorder: i64, query: &str) -> thalweg::Result<Vec<RecordBatch>> {
    let mut engine = Engine::with_connectors(vec![std::sync::Arc::new(memory.clone())]);
    engine.sql(&format!(
        "SET 'float.sum' = '{sum}'; SET 'batch.rows' = '16384';
         CREATE TABLE readings (WATERMARK FOR ts AS ts - INTERVAL '{}.{:06}' SECOND)
         WITH ('connector' = 'memory', 'stream' = 'readings')",
        disorder / 1_000_000,
        disorder % 1_000_000
    ))?;
    engine.sql(query)?.collect()
}
