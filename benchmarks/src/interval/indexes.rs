//! A join whose pairs come out at once, with each of the indexes in which rows are looked up: rows in order and far out of it, of few keys
//! and of many.

use std::collections::HashMap;

use arrow_array::{cast::AsArray, types::*};
use serde_json::json;
use thalweg::Memory;

use super::{
    engine,
    expected::Answer,
    workload::{BYTES, Keys, Row, Workload},
};
use crate::measure::{Case, Report, Run, parameters};

/// Keys, and rows of each stream's key within lateness. Little is out of order where that is less than one.
const SHAPES: [(u32, f64); 8] =
    [(1, 1.0), (1, 1_000.0), (1, 10_000.0), (1, 100_000.0), (100, 1.0), (100, 1_000.0), (10_000, 1.0), (100_000, 0.01)];

/// Rows of a key within the distance, about.
const PARTNERS: f64 = 1.0;

/// The indexes.
const INDEXES: [&str; 2] = ["runs", "skip-list"];

fn workload((keys, late): (u32, f64)) -> Workload {
    let time = |rows: f64| (rows * f64::from(keys)) as i64;
    Workload::dense(&format!("{keys} keys, {late} rows late"), Keys::Uniform(keys), time(PARTNERS), time(late).max(1))
}

/// Measures each shape with each index.
pub fn run(report: &mut Report) -> Result<(), String> {
    for shape in SHAPES {
        let workload = workload(shape);
        let variant = |index: &str| format!("eager join, {}, {index}", workload.name);
        if !INDEXES.iter().any(|index| report.wants(&variant(index))) {
            continue;
        }
        let rows = workload.generate(if report.is_quick() { 1 << 14 } else { 1 << 19 });
        let memory = engine::memory(&rows).map_err(|error| error.to_string())?;
        let expected = expected(&rows, &workload);
        let query = &sql(&workload);
        let cases = INDEXES.map(|index| {
            let case = Case {
                workload: "interval-join",
                variant: variant(index),
                parameters: parameters([
                    ("query", json!(query)),
                    ("input", json!("24-byte rows of both streams in memory, out of order")),
                    ("keys", json!(shape.0)),
                    ("rows_in_window", json!(PARTNERS)),
                    ("rows_in_lateness", json!(shape.1)),
                ]),
                rows: rows.len() as u64,
                bytes_per_row: BYTES,
                workers: 1,
                peak: None,
            };
            let (memory, workload) = (&memory, &workload);
            let run: Run<'_> = Box::new(move || {
                let found = found(memory, workload, index, query).map_err(|error| error.to_string())?;
                Ok(Box::new(move || expected.compare(&found)))
            });
            (case, run)
        });
        report.measure_beside(cases.into())?;
    }
    Ok(())
}

fn sql(workload: &Workload) -> String {
    let window = engine::interval(workload.window);
    format!(
        "SELECT a.k, a.ts, b.ts AS other FROM s a JOIN r b ON a.k = b.k AND b.ts BETWEEN a.ts - {window} AND a.ts EMIT EAGER"
    )
}

fn found(memory: &Memory, workload: &Workload, index: &str, query: &str) -> thalweg::Result<Answer> {
    let settings = format!("SET 'parallelism' = '1'; SET 'join.index' = '{index}';");
    let mut answer = Answer::default();
    for batch in engine::tables(memory, workload, &settings)?.sql(query)? {
        let batch = batch?;
        let keys = batch.column(1).as_primitive::<Int64Type>();
        let [times, others] = [2, 3].map(|column| batch.column(column).as_primitive::<TimestampMicrosecondType>());
        for row in 0..batch.num_rows() {
            answer.add_result([keys.value(row), times.value(row), others.value(row)].map(|value| value as u64));
        }
    }
    Ok(answer)
}

/// What must come out, from the rows of each key in the order of time.
fn expected(rows: &[Row], workload: &Workload) -> Answer {
    let mut by_key: HashMap<u32, [Vec<i64>; 2]> = HashMap::new();
    rows.iter().for_each(|row| by_key.entry(row.key).or_default()[usize::from(row.is_base)].push(row.time));
    let mut answer = Answer::default();
    for (key, [mut probes, bases]) in by_key {
        probes.sort_unstable();
        for base in bases {
            let first = probes.partition_point(|time| *time < base - workload.window);
            let partners = probes[first..].iter().take_while(|time| **time <= base);
            partners.for_each(|time| answer.add_result([i64::from(key), base, *time].map(|value| value as u64)));
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_indexes_give_the_pairs_that_must_come_out() {
        for shape in SHAPES {
            let workload = workload(shape);
            let rows = workload.generate(3_000);
            let memory = engine::memory(&rows).unwrap();
            let (query, expected) = (sql(&workload), expected(&rows, &workload));
            for index in INDEXES {
                let found = found(&memory, &workload, index, &query).unwrap();
                assert_eq!(expected.compare(&found), Ok(expected.rows), "{index}, {}", workload.name);
                assert!(expected.rows > 0, "{}", workload.name);
            }
        }
    }
}
