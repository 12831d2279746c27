//! One key, whose rows one instance has, or several that share it: what that gains where results are looked up, where all rows of each
//! window are looked at, also at once, and where pairs are.

use std::collections::HashMap;

use arrow_array::{PrimitiveArray, RecordBatch, cast::AsArray, types::*};
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
    asks: Asks,
    rows: usize,
}

/// What is asked for each row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    Distinct {
        is_eager: bool,
    },
    Sum,
    /// Its partners, or that there are none, of both streams.
    Partners,
}

/// A base row's time and a row's value add up to less than this, modulo a hundred, where they are partners.
const LESS_THAN: i64 = 2;

const QUESTIONS: [Question; 4] = [
    Question { name: "distinct values of all rows", asks: Asks::Distinct { is_eager: false }, rows: 1 << 20 },
    Question { name: "distinct values of all rows, eager", asks: Asks::Distinct { is_eager: true }, rows: 1 << 19 },
    Question { name: "sum", asks: Asks::Sum, rows: 1 << 23 },
    Question { name: "full join", asks: Asks::Partners, rows: 1 << 18 },
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
                    ("settings", json!(format!("{EXCHANGE} {} {settings}", question.settings()))),
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
                let found = found(memory, workload, question, settings).map_err(|error| error.to_string())?;
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
    let (window, less) = (engine::interval(WINDOW), LESS_THAN);
    let aggregate = match question.asks {
        Asks::Distinct { .. } => "count(DISTINCT v)",
        Asks::Sum => "sum(v)",
        Asks::Partners => {
            return format!(
                "SELECT a.ts, b.ts AS other FROM s a FULL JOIN r b \
                 ON a.k = b.k AND b.ts BETWEEN a.ts - {window} AND a.ts \
                 AND (CAST(a.ts AS BIGINT) + b.v) % 100 < {less}"
            );
        }
    };
    let emission = if question.is_eager() { " EMIT EAGER" } else { "" };
    format!(
        "SELECT ts, {aggregate} OVER w FROM (SELECT k, ts, CAST(NULL AS BIGINT) AS v FROM s) \
         WINDOW w AS (UNION r PARTITION BY k ORDER BY ts \
         ROWS_RANGE BETWEEN {window} PRECEDING AND CURRENT ROW EXCLUDE CURRENT_ROW INSTANCE_NOT_IN_WINDOW){emission}"
    )
}

impl Question {
    /// What is looked at: all rows of each window, where something else would do.
    fn settings(self) -> &'static str {
        match self.asks {
            Asks::Distinct { .. } => "SET 'over.incremental' = 'false';",
            Asks::Sum | Asks::Partners => "",
        }
    }

    fn is_eager(self) -> bool {
        self.asks == Asks::Distinct { is_eager: true }
    }
}

fn found(memory: &Memory, workload: &Workload, question: Question, settings: &str) -> thalweg::Result<Answer> {
    let (mut answer, is_eager) = (Answer::default(), question.is_eager());
    let mut tables = engine::tables(memory, workload, &format!("{EXCHANGE} {} {settings}", question.settings()))?;
    for batch in tables.sql(&sql(question))? {
        let batch: RecordBatch = batch?;
        let columns = &batch.columns()[usize::from(is_eager)..];
        let times = columns[0].as_primitive::<TimestampMicrosecondType>();
        let results: PrimitiveArray<Int64Type> = match question.asks {
            Asks::Partners => columns[1].as_primitive::<TimestampMicrosecondType>().reinterpret_cast(),
            _ => columns[1].as_primitive().clone(),
        };
        for (row, (time, result)) in times.iter().zip(&results).enumerate() {
            let is_old = is_eager && matches!(batch.column(0).as_string::<i32>().value(row), "-U" | "-D");
            let values = values(time, result);
            if is_old { answer.take_back(values) } else { answer.add_result(values) }
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
    let mut has_partner = vec![false; probes.len()];
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
        let of_sum = (start < end).then_some(sum);
        match question.asks {
            Asks::Distinct { .. } => answer.add_result(values(Some(base.time), Some(counts.len() as i64))),
            Asks::Sum => answer.add_result(values(Some(base.time), of_sum)),
            Asks::Partners => {
                let are_partners = |probe: &usize| (base.time + probes[*probe].payload) % 100 < LESS_THAN;
                let partners: Vec<usize> = (start..end).filter(are_partners).collect();
                partners.iter().for_each(|probe| {
                    has_partner[*probe] = true;
                    answer.add_result(values(Some(base.time), Some(probes[*probe].time)));
                });
                if partners.is_empty() {
                    answer.add_result(values(Some(base.time), None));
                }
            }
        }
    }
    if question.asks == Asks::Partners {
        let alone = probes.iter().zip(has_partner).filter(|(_, has_partner)| !has_partner);
        alone.for_each(|(probe, _)| answer.add_result(values(None, Some(probe.time))));
    }
    answer
}

/// A row as numbers; none is as small as what is not there.
fn values(time: Option<i64>, result: Option<i64>) -> [u64; 3] {
    [time, result, Some(0)].map(|value| value.unwrap_or(i64::MIN) as u64)
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
                let found = found(&memory, &workload, question, settings).unwrap();
                let expected = expected(&rows, question);
                assert!(expected.rows >= 3_000);
                assert_eq!(expected.compare(&found), Ok(expected.rows), "{}, {way}", question.name);
            }
        }
    }
}
