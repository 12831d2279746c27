//! Minima and maxima over windows of more and more rows: followed in batches of the usual size and in small ones, and, beside it, from all
//! rows of each window.

use arrow_array::{Array, RecordBatch, cast::AsArray, types::*};
use serde_json::json;
use thalweg::Memory;

use super::{
    engine,
    expected::{Answer, mixed},
    workload::{BYTES, Keys, Row, Workload},
};
use crate::measure::{Case, Report, Run, parameters};

/// Rows of a key within the window.
const WINDOWS: [i64; 6] = [4, 16, 64, 256, 1_024, 4_096];

const KEYS: u32 = 10;

/// The ways, with what is set for them.
const WAYS: [(&str, &str); 3] =
    [("sliding", ""), ("sliding, 256 rows a batch", "SET 'batch.rows' = '256';"), ("all rows", engine::ALL_ROWS)];

/// Measures each window in all ways.
pub fn run(report: &mut Report) -> Result<(), String> {
    for rows_in_window in WINDOWS {
        let window = rows_in_window * i64::from(KEYS);
        let workload = Workload::dense(&format!("{rows_in_window} rows"), Keys::Uniform(KEYS), window, 100);
        let variant = |way: &str| format!("min and max of {rows_in_window} rows, {way}");
        if !WAYS.iter().any(|(way, _)| report.wants(&variant(way))) {
            continue;
        }
        let rows = rows(&workload, if report.is_quick() { 1 << 14 } else { 1 << 17 });
        let memory = engine::memory(&rows).map_err(|error| error.to_string())?;
        let expected = expected(&rows, &workload);
        let query = &sql(&workload);
        let cases = WAYS.map(|(way, settings)| {
            let case = Case {
                workload: "interval-join",
                variant: variant(way),
                parameters: parameters([
                    ("query", json!(query)),
                    ("input", json!("24-byte rows of both streams in memory, out of order")),
                    ("keys", json!(KEYS)),
                    ("rows_in_window", json!(rows_in_window)),
                ]),
                rows: rows.len() as u64,
                bytes_per_row: BYTES,
                workers: 1,
                peak: None,
            };
            let (memory, workload) = (&memory, &workload);
            let run: Run<'_> = Box::new(move || {
                let found = found(memory, workload, settings, query).map_err(|error| error.to_string())?;
                Ok(Box::new(move || expected.compare(&found)))
            });
            (case, run)
        });
        report.measure_beside(cases.into())?;
    }
    Ok(())
}

/// As the workload has them, with values of which few are the same.
fn rows(workload: &Workload, count: usize) -> Vec<Row> {
    let mut rows = workload.generate(count);
    for (number, row) in rows.iter_mut().enumerate() {
        row.payload = (mixed(number as u64) >> 20) as i64;
    }
    rows
}

fn sql(workload: &Workload) -> String {
    format!(
        "SELECT ts, min(v) OVER w, max(v) OVER w FROM (SELECT k, ts, CAST(NULL AS BIGINT) AS v FROM s) \
         WINDOW w AS (UNION r PARTITION BY k ORDER BY ts \
         ROWS_RANGE BETWEEN {} PRECEDING AND CURRENT ROW EXCLUDE CURRENT_ROW INSTANCE_NOT_IN_WINDOW)",
        engine::interval(workload.window)
    )
}

fn found(memory: &Memory, workload: &Workload, settings: &str, query: &str) -> thalweg::Result<Answer> {
    let settings = format!("SET 'parallelism' = '1'; {settings}");
    let batches: thalweg::Result<Vec<RecordBatch>> = engine::tables(memory, workload, &settings)?.sql(query)?.collect();
    let mut answer = Answer::default();
    for batch in batches? {
        let times = batch.column(0).as_primitive::<TimestampMicrosecondType>();
        let [least, most] = [1, 2].map(|column| batch.column(column).as_primitive::<Int64Type>());
        for row in 0..batch.num_rows() {
            let both = least.is_valid(row).then(|| (least.value(row), most.value(row)));
            answer.add_result(values(times.value(row), both));
        }
    }
    Ok(answer)
}

/// What must come out, from all rows of each window.
fn expected(rows: &[Row], workload: &Workload) -> Answer {
    let mut answer = Answer::default();
    for key in 0..workload.keys.count() {
        let of_key = rows.iter().filter(|row| row.key == key);
        let (bases, mut probes): (Vec<&Row>, Vec<&Row>) = of_key.partition(|row| row.is_base);
        probes.sort_unstable_by_key(|row| row.time);
        for base in bases {
            let start = probes.partition_point(|row| row.time < base.time - workload.window);
            let end = probes.partition_point(|row| row.time <= base.time);
            let seen = probes[start..end].iter().map(|row| row.payload);
            answer.add_result(values(base.time, seen.clone().min().zip(seen.max())));
        }
    }
    answer
}

fn values(time: i64, both: Option<(i64, i64)>) -> [u64; 3] {
    // No value is as small as this.
    let (least, most) = both.unwrap_or((i64::MIN, i64::MIN));
    [time, least, most].map(|value| value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_give_what_must_come_out() {
        for rows_in_window in [1, 40, 300] {
            let workload = Workload::dense("", Keys::Uniform(3), 3 * rows_in_window, 100);
            let rows = rows(&workload, 3_000);
            let memory = engine::memory(&rows).unwrap();
            let query = sql(&workload);
            for (way, settings) in WAYS {
                let explained =
                    engine::tables(&memory, &workload, settings).unwrap().sql(&format!("EXPLAIN {query}")).unwrap();
                let explained: String = explained.map(|batch| format!("{:?}", batch.unwrap())).collect();
                let from = way.split(',').next().unwrap_or_default();
                assert!(explained.contains(&format!("max(v) from {from}")), "{way}: {explained}");
                let found = found(&memory, &workload, settings, &query).unwrap();
                assert_eq!(expected(&rows, &workload).compare(&found), Ok(3_000), "{way} of {rows_in_window} rows");
            }
        }
    }
}
