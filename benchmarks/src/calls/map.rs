//! An operator without a state: a call's duration in minutes, as in StreamCloud's figure 1, and how far away it was.

use arrow_array::{cast::AsArray, types::Int64Type};
use serde_json::json;
use thalweg::Memory;

use super::{
    INSTANCES, discard, engine,
    records::{BYTES, calls, each},
};
use crate::{
    machine::cores,
    measure::{Case, Report, Run, count_is, parameters},
    stream::Keys,
};

/// As many as the most instances: a source has no more instances than partitions.
const PARTITIONS: usize = 64;

const QUERY: &str = "SELECT caller, called, district, duration / 60 AS minutes, x * x + y * y AS distance, ts FROM calls \
                     WHERE duration >= 10";

/// Of what it gives.
const COLUMNS: &str = "caller BIGINT, called BIGINT, district BIGINT, minutes BIGINT, distance DOUBLE, ts TIMESTAMP";

/// Measures it in any number of instances.
pub fn run(report: &mut Report) -> Result<(), String> {
    let variant = |instances: usize| format!("map, {}", said(instances));
    if !INSTANCES.iter().any(|instances| report.wants(&variant(*instances))) {
        return Ok(());
    }
    let rows = 1 << if report.is_quick() { 20 } else { 24 };
    let stream = calls(rows, PARTITIONS, Keys::Uniform(1_000))?;
    let kept = each(&stream).filter(|call| call.duration >= 10);
    let (mut count, mut minutes, mut distance) = (0u64, 0, 0.0);
    for call in kept {
        (count, minutes) = (count + 1, minutes + call.duration / 60);
        distance += call.x * call.x + call.y * call.y;
    }
    let memory = Memory::default();
    memory.put("calls", stream).map_err(|error| error.to_string())?;
    let cases = INSTANCES.into_iter().map(|instances| {
        let settings = format!("SET 'parallelism' = '{instances}'; SET 'batch.rows' = '16384';");
        let case = Case {
            workload: "calls",
            variant: variant(instances),
            parameters: parameters([
                ("query", json!(QUERY)),
                ("input", json!("call description records in memory, in 64 partitions")),
                ("instances", json!(instances)),
            ]),
            rows: rows as u64,
            bytes_per_row: BYTES - 16.0,
            workers: instances.min(cores()),
            peak: None,
        };
        let memory = &memory;
        let run: Run<'_> = Box::new(move || Ok(count_is(discard(memory, &settings, COLUMNS, QUERY)?.rows_out, count)));
        (case, run)
    });
    report.measure_beside(cases.collect())?;
    for instances in INSTANCES {
        check(&memory, instances, (count, minutes, distance))?;
    }
    Ok(())
}

/// How many instances, in words.
pub fn said(instances: usize) -> String {
    format!("{instances} instance{}", if instances == 1 { "" } else { "s" })
}

/// Compares the sums of what comes out, which are exact.
fn check(memory: &Memory, instances: usize, expected: (u64, i64, f64)) -> Result<(), String> {
    let sums = format!("SELECT count(*), sum(minutes), sum(CAST(distance * 64 AS BIGINT)) FROM ({QUERY})");
    let found = || {
        let settings = format!("SET 'parallelism' = '{instances}';");
        let mut engine = engine(memory, &settings)?;
        engine.sql(&sums)?.next().transpose()
    };
    let found = found().map_err(|error| error.to_string())?.ok_or("no sums came out")?;
    let sum = |column: usize| found.column(column).as_primitive::<Int64Type>().value(0);
    let (count, minutes, distance) = expected;
    match [sum(0), sum(1), sum(2)] == [count as i64, minutes, (distance * 64.0) as i64] {
        true => Ok(()),
        false => Err(format!("the sums are {found:?} of {instances} instances; they must be {expected:?}")),
    }
}
