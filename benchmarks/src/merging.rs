//! What does it cost to put the rows of instances in order, where they come in turn and where they come in runs?
//!
//! Two aggregates that are divided by `a` alone, so that all groups of an `a` are at one instance. Whose results are in the order of
//! `a` first have runs of a thousand rows of one instance; in the order of `c` first, each row may be of another instance than the one
//! before.

use std::rc::Rc;

use arrow_array::{RecordBatch, cast::AsArray, types::*};
use serde_json::json;
use thalweg::{Engine, Memory};

use crate::{
    calls::map::said,
    machine::cores,
    measure::{Case, Report, Run, parameters},
    stream::{self, Keys},
};

const PARTITIONS: usize = 8;
const KEYS: usize = 1_000_000;
const SECOND: i64 = 1_000_000;

/// A million rows a second of event time, and windows of a second.
const STEP: i64 = 1;

/// How results are ordered: what it is called, and the keys.
const ORDERS: [(&str, &str); 2] = [("runs of 1,000 rows", "a, c"), ("rows in turn", "c, a")];

const INSTANCES: [usize; 2] = [2, 8];

/// Measures both orders, put in order and not.
pub fn run(report: &mut Report) -> Result<(), String> {
    let variant = |order: &str, instances, merge: &str| format!("{order}, {}, {merge}", said(instances));
    let all = || {
        let each = INSTANCES.into_iter().flat_map(|instances| ORDERS.map(|order| (instances, order)));
        each.flat_map(|(instances, order)| ["arrival", "ordered"].map(|merge| (instances, order, merge)))
    };
    if !all().any(|(instances, (order, _), merge)| report.wants(&variant(order, instances, merge))) {
        return Ok(());
    }
    let rows = 1 << if report.is_quick() { 21 } else { 23 };
    let stream = stream::readings(rows, PARTITIONS, Keys::Uniform(KEYS), STEP, 0)?;
    let expected = Rc::new(Expected::of(&stream));
    let memory = Memory::default();
    memory.put("readings", stream).map_err(|error| error.to_string())?;
    for instances in INSTANCES {
        for (order, keys) in ORDERS {
            let query = query(keys);
            let cases = ["arrival", "ordered"].map(|merge| {
                let case = Case {
                    workload: "merging",
                    variant: variant(order, instances, merge),
                    parameters: parameters([
                        ("query", json!(query)),
                        ("input", json!("24-byte rows in memory, in eight partitions, a million a second of event time, 1 M keys")),
                        ("instances", json!(instances)),
                        ("merge", json!(merge)),
                        ("rows_out", json!(expected.rows)),
                    ]),
                    rows: rows as u64,
                    bytes_per_row: 16.0,
                    workers: instances.min(cores()),
                    peak: None,
                };
                let (memory, query, expected) = (&memory, query.clone(), Rc::clone(&expected));
                let run: Run<'_> = Box::new(move || {
                    let found = results(memory, instances, merge, &query).map_err(|error| error.to_string())?;
                    let expected = Rc::clone(&expected);
                    let order = (merge == "ordered").then_some(keys);
                    Ok(Box::new(move || expected.compare(&found, order)))
                });
                (case, run)
            });
            report.measure_beside(cases.into())?;
        }
    }
    Ok(())
}

fn query(keys: &str) -> String {
    format!(
        "SELECT window_start, a, c, sum(n) AS n FROM (
           SELECT window_start, window_end, a, b - b % 2 AS c, n FROM (
             SELECT window_start, window_end, a, b, count(*) AS n
             FROM TUMBLE((SELECT ts, key / 2000 AS a, key % 2000 AS b FROM readings), ts, INTERVAL '1' SECOND)
             GROUP BY window_start, window_end, a, b
           )
         ) GROUP BY window_start, window_end, {keys}"
    )
}

fn results(memory: &Memory, instances: usize, merge: &str, query: &str) -> thalweg::Result<Vec<RecordBatch>> {
    let mut engine = Engine::with_connectors(vec![std::sync::Arc::new(memory.clone())]);
    engine.sql(&format!(
        "SET 'parallelism' = '{instances}'; SET 'merge' = '{merge}'; SET 'aggregate.phases' = 'one';
         SET 'batch.rows' = '16384';
         CREATE TABLE readings (WATERMARK FOR ts AS ts) WITH ('connector' = 'memory', 'stream' = 'readings')"
    ))?;
    engine.sql(query)?.collect()
}

/// How many rows each window, `a` and `c` has.
struct Expected {
    counts: Vec<u32>,
    rows: u64,
}

/// Values of `a`, and of `c`, which are even.
const AS: usize = 500;
const CS: usize = 2_000;

impl Expected {
    fn of(stream: &[Vec<RecordBatch>]) -> Self {
        let mut counts = Vec::new();
        for batch in stream.iter().flatten() {
            let times = batch.column(0).as_primitive::<TimestampMicrosecondType>().values();
            let keys = batch.column(1).as_primitive::<Int64Type>().values();
            for (time, key) in times.iter().zip(keys) {
                let place = Self::place(*time, key / CS as i64, key % CS as i64);
                if place >= counts.len() {
                    counts.resize(place + 1, 0);
                }
                counts[place] += 1;
            }
        }
        let rows = counts.iter().filter(|count| **count > 0).count() as u64;
        Self { counts, rows }
    }

    fn place(time: i64, a: i64, c: i64) -> usize {
        ((time / SECOND) as usize * AS + a as usize) * CS / 2 + c as usize / 2
    }

    /// Compares all of it with rows of window start, a, c and count, and their order if there is one; says how many there were.
    fn compare(&self, found: &[RecordBatch], order: Option<&str>) -> Result<u64, String> {
        let (mut seen, mut before) = (0, None);
        for batch in found {
            let starts = batch.column(0).as_primitive::<TimestampMicrosecondType>().values();
            let [a, c, n] = [1, 2, 3].map(|column| batch.column(column).as_primitive::<Int64Type>().values());
            for row in 0..batch.num_rows() {
                let (start, a, c, n) = (starts[row], a[row], c[row], n[row]);
                let there = self.counts.get(Self::place(start, a, c)).copied().unwrap_or_default();
                if there == 0 || i64::from(there) != n {
                    return Err(format!("{n} rows at {start} of {a}, {c}; there are {there}"));
                }
                let key = match order {
                    Some("c, a") => Some((start, c, a)),
                    Some(_) => Some((start, a, c)),
                    None => None,
                };
                if key.is_some() && key <= before {
                    return Err(format!("the row of {a}, {c} at {start} is not behind the one before"));
                }
                (before, seen) = (key, seen + 1);
            }
        }
        if seen == self.rows { Ok(seen) } else { Err(format!("{seen} rows came out, {} must", self.rows)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_have_the_same_rows_and_another_order_is_found() {
        let stream = stream::readings(1 << 14, 2, Keys::Uniform(KEYS), 200, 0).unwrap();
        let expected = Expected::of(&stream);
        let memory = Memory::default();
        memory.put("readings", stream).unwrap();
        for (_, keys) in ORDERS {
            let found = results(&memory, 2, "ordered", &query(keys)).unwrap();
            assert_eq!(expected.compare(&found, Some(keys)), Ok(expected.rows));
            let other = if keys == "a, c" { "c, a" } else { "a, c" };
            assert!(expected.compare(&found, Some(other)).unwrap_err().contains("not behind"));
            assert!(expected.compare(&found[1..], None).is_err());
        }
    }
}
