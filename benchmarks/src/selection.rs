//! Rows that pass a predicate: 64-bit keys in memory, into nothing.

use arrow_array::{cast::AsArray, types::Int64Type};
use serde_json::json;
use thalweg::{Engine, Memory};

use crate::{
    machine::cores,
    measure::{Case, Checked, Report, parameters},
    stream,
};

/// A name, and what is kept, as SQL and as Rust.
type Predicate = (&'static str, &'static str, fn(i64) -> bool);

const PREDICATES: [Predicate; 4] = [
    ("none", "key = -1", |key| key == -1),
    ("10 %", "key % 10 = 0", |key| key % 10 == 0),
    ("50 %", "key % 2 = 0", |key| key % 2 == 0),
    ("all", "key <> -1", |key| key != -1),
];

/// Measures each predicate with one worker and with all.
pub fn run(report: &mut Report) -> Result<(), String> {
    let rows = if report.is_quick() { 1 << 23 } else { 1 << 27 };
    for workers in if cores() > 1 { vec![1, cores()] } else { vec![1] } {
        let stream = stream::keys(rows, workers);
        let rows: usize = stream.iter().flatten().map(|batch| batch.num_rows()).sum();
        let kept = PREDICATES.map(|(_, _, keeps)| {
            let keys = stream.iter().flatten().map(|batch| batch.column(0).as_primitive::<Int64Type>().values());
            keys.map(|keys| keys.iter().filter(|key| keeps(**key)).count()).sum::<usize>()
        });
        let memory = Memory::default();
        memory.put("keys", stream).map_err(|error| error.to_string())?;
        for ((name, predicate, _), kept) in PREDICATES.into_iter().zip(kept) {
            let query = format!("INSERT INTO nothing SELECT key FROM keys WHERE {predicate}");
            let case = Case {
                workload: "selection",
                variant: format!("SQL, {name}, {workers} worker{}", if workers == 1 { "" } else { "s" }),
                parameters: parameters([
                    ("query", json!(query)),
                    ("input", json!("64-bit keys, uniform below 1e9, in memory")),
                    ("workers", json!(workers)),
                ]),
                rows: rows as u64,
                bytes_per_row: 8.0,
                workers,
            };
            report.measure(case, || {
                let found = count(&memory, workers, &query).map_err(|error| error.to_string())?;
                if found == kept as u64 {
                    return Ok(Checked(1));
                }
                Err(format!("{found} rows came out, {kept} must"))
            })?;
        }
    }
    Ok(())
}

/// How many rows a query puts into `nothing`.
fn count(memory: &Memory, workers: usize, query: &str) -> thalweg::Result<u64> {
    let mut engine = Engine::with_connectors(vec![std::sync::Arc::new(memory.clone())]);
    engine.sql(&format!(
        "SET 'parallelism' = '{workers}'; SET 'batch.rows' = '16384';
         CREATE TABLE keys WITH ('connector' = 'memory', 'stream' = 'keys');
         CREATE TABLE nothing (key BIGINT) WITH ('connector' = 'blackhole')"
    ))?;
    let metrics = engine.sql(query)?.wait()?;
    Ok(metrics.rows_out)
}
