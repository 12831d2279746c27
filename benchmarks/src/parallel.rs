//! What it costs to divide the rows of an aggregate among instances: 24-byte rows in eight partitions in memory.

use std::rc::Rc;

use arrow_array::RecordBatch;
use serde_json::json;
use thalweg::{Engine, Memory};

use crate::{
    expected::{Expected, Groups, Windows},
    machine::cores,
    measure::{Case, Report, Run, parameters},
    shapes::Shape,
    stream::{self, Keys},
};

/// A second of event time has so many rows.
const ROWS_A_SECOND: i64 = 1_000_000;

const SECOND: i64 = 1_000_000;
const PARTITIONS: usize = 8;

/// One instance, which the others are compared with; then more than there are cores.
const INSTANCES: [usize; 6] = [1, 2, 4, 8, 16, 64];

/// A stream, and how many seconds its windows last.
const INPUTS: [(Keys, i64); 5] = [
    (Keys::Uniform(10_000), 1),
    (Keys::Uniform(10_000), 10),
    (Keys::Uniform(1_000), 10),
    (Keys::Uniform(1_000_000), 1),
    (Keys::Zipf(10_000), 1),
];

/// Measures each number of instances on each stream.
pub fn run(report: &mut Report) -> Result<(), String> {
    for (keys, seconds) in INPUTS {
        let of = format!("average in {seconds} s, keys: {keys}");
        let variant = |instances: usize, phases: &str| match instances {
            1 => format!("{of}, 1 instance"),
            _ => format!("{of}, {instances} instances, {phases} phase{}", if phases == "two" { "s" } else { "" }),
        };
        let cases: Vec<_> = INSTANCES
            .iter()
            .flat_map(|instances| ["two", "one"].map(|phases| (*instances, phases)))
            .filter(|case| *case != (1, "one") && report.wants(&variant(case.0, case.1)))
            .collect();
        if cases.is_empty() {
            continue;
        }
        let rows = 1 << if report.is_quick() { 21 } else { 25 };
        let stream = stream::readings(rows, PARTITIONS, keys, SECOND / ROWS_A_SECOND, 0)?;
        let windows = Windows { size: seconds * SECOND, slide: seconds * SECOND };
        let query = format!(
            "SELECT window_start, key, avg(value) AS value FROM TUMBLE(readings, ts, INTERVAL '{seconds}' SECOND)
             GROUP BY window_start, window_end, key"
        );
        let expected = Rc::new(Expected::averages(&stream, windows, Groups::Keys(keys.count())));
        let memory = Memory::default();
        memory.put("readings", stream).map_err(|error| error.to_string())?;
        let measured = cases.into_iter().map(|(instances, phases)| {
            let case = Case {
                workload: "parallel",
                variant: variant(instances, phases),
                parameters: parameters([
                    ("query", json!(query)),
                    ("input", json!("rows in memory in eight partitions, a million a second of event time")),
                    ("keys", json!(keys.to_string())),
                    ("instances", json!(instances)),
                    ("aggregate.phases", json!(phases)),
                    ("rows_out", json!(expected.rows())),
                ]),
                rows: rows as u64,
                bytes_per_row: 24.0,
                workers: instances.min(cores()),
                peak: None,
            };
            let (memory, query, expected) = (&memory, query.clone(), Rc::clone(&expected));
            let run: Run<'_> = Box::new(move || {
                let found = results(memory, &query, instances, phases).map_err(|error| error.to_string())?;
                let expected = Rc::clone(&expected);
                Ok(Box::new(move || {
                    let found = found.iter().map(|rows| Shape::Whole.read(rows)).collect::<Result<Vec<_>, _>>()?;
                    expected.compare(&found)
                }))
            });
            (case, run)
        });
        report.measure_beside(measured.collect())?;
    }
    Ok(())
}

fn results(memory: &Memory, query: &str, instances: usize, phases: &str) -> thalweg::Result<Vec<RecordBatch>> {
    let mut engine = Engine::with_connectors(vec![std::sync::Arc::new(memory.clone())]);
    engine.sql(&format!(
        "SET 'parallelism' = '{instances}'; SET 'aggregate.phases' = '{phases}'; SET 'batch.rows' = '16384';
         CREATE TABLE readings (WATERMARK FOR ts AS ts) WITH ('connector' = 'memory', 'stream' = 'readings')"
    ))?;
    engine.sql(query)?.collect()
}
