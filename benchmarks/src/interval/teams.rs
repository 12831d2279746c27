//! One key, whose rows one instance has, or several that share it: what that gains where results are looked up, and where all rows of each
//! window are looked at.

use std::collections::HashMap;

use arrow_array::{RecordBatch, cast::AsArray, types::*};
use serde_json::json;
use thalweg::Memory;

use super::{
    engine,
    expected::{Answer, mixed},
    workload::{BYTES, Keys, Row, Workload},
};
use crate::{
    machine::cores,
    measure::{Case, Report, Run, parameters},
};

/// Rows of the other stream within the window.
const WINDOW: i64 = 200;

/// So many values there are.
const VALUES: u64 = 150;

/// Little waits on its way: what is decided holds behind all that does.
const EXCHANGE: &str = "SET 'exchange.memory' = '1 MB'; SET 'batch.rows' = 1024;";

/// How the instances are told to divide the key, with what is said of it.
const WAYS: [(&str, &str); 3] = [
    ("one instance", "SET 'adaptive' = 'false'; SET 'parallelism' = '1';"),
    ("all cores, one instance has the key", "SET 'adaptive' = 'false';"),
    ("all cores, instances may share the key", "SET 'adaptive.interval' = '50 ms';"),
];

/// A question, and how many rows each stream has for it.
#[derive(Clone, Copy)]
struct Question {
    name: &'static str,
    aggregate: &'static str,
    rows: usize,
}

const QUESTIONS: [Question; 2] = [
    Question { name: "distinct values", aggregate: "count(DISTINCT v)", rows: 1 << 20 },
    Question { name: "sum", aggregate: "sum(v)", rows: 1 << 23 },
];

/// Measures each question in all ways.
pub fn run(report: &mut Report) -> Result<(), String> {
    for question in QUESTIONS {
        let variant = |way: &str| format!("one key, {}, {way}", question.name);
        if !WAYS.iter().any(|(way, _)| report.wants(&variant(way))) {
            continue;
        }
        let workload = Workload::dense("one key", Keys::Uniform(1), WINDOW, 100);
        let rows = rows(&workload, if report.is_quick() { 1 << 14 } else { question.rows });
        let memory = engine::memory(&rows).map_err(|error| error.to_string())?;
        let expected = expected(&rows, question);
        let cases = WAYS.map(|(way, settings)| {
            let query = sql(question);
            let case = Case {
                workload: "interval-join",
                variant: variant(way),
                parameters: parameters([
                    ("query", json!(query)),
                    ("settings", json!(format!("{EXCHANGE} {settings}"))),
                    ("input", json!("24-byte rows of both streams in memory, out of order")),
                    ("keys", json!(1)),
                    ("rows_in_window", json!(WINDOW)),
                ]),
                rows: rows.len() as u64,
                bytes_per_row: BYTES,
                workers: cores(),
                peak: None,
            };
            let (memory, workload) = (&memory, &workload);
            let run: Run<'_> = Box::new(move || {
                let found = found(memory, workload, &query, settings).map_err(|error| error.to_string())?;
                Ok(Box::new(move || expected.compare(&found)))
            });
            (case, run)
        });
        report.measure_beside(cases.into())?;
    }
    Ok(())
}

/// As the workload has them, with so few values that windows have some twice.
fn rows(workload: &Workload, count: usize) -> Vec<Row> {
    let mut rows = workload.generate(count);
    for (number, row) in rows.iter_mut().enumerate() {
        row.payload = (mixed(number as u64) % VALUES) as i64;
    }
    rows
}

fn sql(question: Question) -> String {
    format!(
        "SELECT ts, {} OVER w FROM (SELECT k, ts, CAST(NULL AS BIGINT) AS v FROM s) \
         WINDOW w AS (UNION r PARTITION BY k ORDER BY ts \
         ROWS_RANGE BETWEEN {} PRECEDING AND CURRENT ROW EXCLUDE CURRENT_ROW INSTANCE_NOT_IN_WINDOW)",
        question.aggregate,
        engine::interval(WINDOW)
    )
}

fn found(memory: &Memory, workload: &Workload, query: &str, settings: &str) -> thalweg::Result<Answer> {
    let mut answer = Answer::default();
    for batch in engine::tables(memory, workload, &format!("{EXCHANGE} {settings}"))?.sql(query)? {
        let batch: RecordBatch = batch?;
        let times = batch.column(0).as_primitive::<TimestampMicrosecondType>();
        let results = batch.column(1).as_primitive::<Int64Type>();
        for (time, result) in times.values().iter().zip(results) {
            answer.add_result(values(*time, result));
        }
    }
    Ok(answer)
}

/// What must come out, from all rows of each window, which pass by once.
fn expected(rows: &[Row], question: Question) -> Answer {
    let (mut bases, mut probes): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.is_base);
    bases.sort_unstable_by_key(|row| row.time);
    probes.sort_unstable_by_key(|row| row.time);
    let mut answer = Answer::default();
    let (mut start, mut end, mut sum) = (0, 0, 0);
    let mut counts: HashMap<i64, usize> = HashMap::new();
    for base in bases {
        while end < probes.len() && probes[end].time <= base.time {
            *counts.entry(probes[end].payload).or_default() += 1;
            sum += probes[end].payload;
            end += 1;
        }
        while start < end && probes[start].time < base.time - WINDOW {
            let value = probes[start].payload;
            let count = counts.entry(value).or_default();
            *count -= 1;
            if *count == 0 {
                counts.remove(&value);
            }
            sum -= value;
            start += 1;
        }
        let is_sum = question.aggregate.starts_with("sum");
        let of_sum = (start < end).then_some(sum);
        answer.add_result(values(base.time, if is_sum { of_sum } else { Some(counts.len() as i64) }));
    }
    answer
}

fn values(time: i64, result: Option<i64>) -> [u64; 3] {
    // No result is as small as this.
    [time, result.unwrap_or(i64::MIN), 0].map(|value| value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_give_what_must_come_out() {
        let workload = Workload::dense("", Keys::Uniform(1), WINDOW, 100);
        let rows = rows(&workload, 3_000);
        let memory = engine::memory(&rows).unwrap();
        for question in QUESTIONS {
            for (way, settings) in WAYS {
                let found = found(&memory, &workload, &sql(question), settings).unwrap();
                assert_eq!(expected(&rows, question).compare(&found), Ok(3_000), "{}, {way}", question.name);
            }
        }
    }
}
