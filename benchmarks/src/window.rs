//! Aggregates in windows over event time: 24-byte rows in memory.

use std::rc::Rc;

use arrow_array::RecordBatch;
use serde_json::json;
use thalweg::{Engine, Memory};

use crate::{
    expected::{Expected, Groups, Row, Windows},
    machine::cores,
    measure::{Case, Report, Run, parameters},
    shapes::Shape,
    stream::{self, Keys},
};

/// A second of event time has so many rows.
const ROWS_A_SECOND: i64 = 1_000_000;

const SECOND: i64 = 1_000_000;
const TUMBLE: Windows = Windows { size: SECOND, slide: SECOND };
const HOP: Windows = Windows { size: 60 * SECOND, slide: SECOND };

/// How far rows are out of order, where they are.
const DISORDER: i64 = 100_000;

/// A stream, and what is asked of it.
struct Input {
    /// What its variants are called.
    name: &'static str,
    keys: Keys,
    is_keyed: bool,
    shape: Shape,
    disorder: i64,
    /// The number of rows is two to the power of this, or of the second if it shall be quick.
    rows: (u32, u32),
    /// These run in turn, and are compared with the first.
    queries: &'static [Question],
}

/// What is asked of a stream.
struct Question {
    /// What it is called, before the stream's name and behind it.
    name: (&'static str, &'static str),
    value: Value,
    windows: Windows,
    /// `float.sum`
    sums: &'static str,
}

/// What is computed of each window and key.
#[derive(Clone, Copy)]
enum Value {
    Average,
    DistinctValues,
    DistinctKeys,
    Median,
}

const AVERAGES: &[Question] = &[
    Question { name: ("average ", ", exact sums"), value: Value::Average, windows: TUMBLE, sums: "exact" },
    Question { name: ("average ", ", fast sums"), value: Value::Average, windows: TUMBLE, sums: "fast" },
];

const PANES: &[Question] = &[
    Question { name: ("TUMBLE, average ", ""), value: Value::Average, windows: TUMBLE, sums: "exact" },
    Question { name: ("HOP of 60 panes, average ", ""), value: Value::Average, windows: HOP, sums: "exact" },
];

const fn one(name: &'static str, value: Value) -> Question {
    Question { name: (name, ""), value, windows: TUMBLE, sums: "exact" }
}

const INPUTS: &[Input] = &[
    input("over all, in order", Keys::Uniform(1), false, 0, (25, 21), AVERAGES),
    input("over all, out of order", Keys::Uniform(1), false, DISORDER, (25, 21), AVERAGES),
    input("10 keys", Keys::Uniform(10), true, 0, (25, 21), AVERAGES),
    input("10 k keys", Keys::Uniform(10_000), true, 0, (25, 21), AVERAGES),
    input("1 M keys", Keys::Uniform(1_000_000), true, 0, (24, 21), AVERAGES),
    input("10 k zipf keys, out of order", Keys::Zipf(10_000), true, DISORDER, (25, 21), AVERAGES),
    // 100 rows per key and pane, and as many panes again as a window has.
    input("10 k keys, out of order", Keys::Uniform(10_000), true, DISORDER, (26, 22), PANES),
    input(
        "1 k keys, out of order",
        Keys::Uniform(1_000),
        true,
        DISORDER,
        (23, 21),
        &[one("count(DISTINCT value) ", Value::DistinctValues)],
    ),
    input(
        "over all, 1 M, out of order",
        Keys::Uniform(1_000_000),
        false,
        DISORDER,
        (23, 21),
        &[one("count(DISTINCT key) ", Value::DistinctKeys)],
    ),
    input("1 k keys, out of order", Keys::Uniform(1_000), true, DISORDER, (23, 21), &[one("median ", Value::Median)]),
    shaped("10 k keys of two numbers", Shape::Pair),
    shaped("10 k keys of text", Shape::Text),
    shaped("10 k keys of a dictionary", Shape::Dictionary),
    shaped("10 k keys of text and a date", Shape::TextAndDay),
];

const fn shaped(name: &'static str, shape: Shape) -> Input {
    let queries = &[Question { name: ("average ", ""), value: Value::Average, windows: TUMBLE, sums: "fast" }];
    Input { shape, ..input(name, Keys::Uniform(10_000), true, 0, (24, 21), queries) }
}

const fn input(
    name: &'static str,
    keys: Keys,
    is_keyed: bool,
    disorder: i64,
    rows: (u32, u32),
    queries: &'static [Question],
) -> Input {
    Input { name, keys, is_keyed, shape: Shape::Whole, disorder, rows, queries }
}

/// Measures each question on each stream.
pub fn run(report: &mut Report) -> Result<(), String> {
    for input in INPUTS {
        let variant = |question: &Question| format!("{}{}{}", question.name.0, input.name, question.name.1);
        if !input.queries.iter().any(|question| report.wants(&variant(question))) {
            continue;
        }
        let rows = 1 << if report.is_quick() { input.rows.1 } else { input.rows.0 };
        let stream = stream::readings(rows, 1, input.keys, SECOND / ROWS_A_SECOND, input.disorder)?;
        let mut cases = Vec::new();
        for question in input.queries.iter().filter(|question| report.wants(&variant(question))) {
            let memory = Memory::default();
            let shaped = match input.shape {
                Shape::Whole => stream.clone(),
                shape => shape.shape(&stream, input.keys.count())?,
            };
            let bytes = shaped.iter().flatten().map(RecordBatch::get_array_memory_size).sum::<usize>();
            memory.put("readings", shaped).map_err(|error| error.to_string())?;
            let (expected, shape) = (question.expected(&stream, input), input.shape);
            let query = question.sql(input);
            let statement = query.clone();
            let case = Case {
                workload: "window",
                variant: variant(question),
                parameters: parameters([
                    ("query", json!(query)),
                    ("input", json!("rows in memory, a million a second of event time")),
                    ("keys", json!(input.keys.to_string())),
                    ("disorder_us", json!(input.disorder)),
                    ("float.sum", json!(question.sums)),
                    ("workers", json!(cores())),
                    ("rows_out", json!(expected.rows())),
                ]),
                rows: rows as u64,
                bytes_per_row: match (input.is_keyed, input.shape) {
                    (false, _) => 16.0,
                    (true, Shape::Whole) => 24.0,
                    _ => bytes as f64 / rows as f64,
                },
                // A windowed aggregate has one instance, and reads on one core.
                workers: 1,
                peak: None,
            };
            let run: Run<'_> = Box::new(move || {
                let found = results(&memory, question.sums, input.disorder, &statement);
                let found = found.map_err(|error| error.to_string())?;
                let expected = Rc::clone(&expected);
                Ok(Box::new(move || {
                    let found = found.iter().map(|rows| shape.read(rows)).collect::<Result<Vec<_>, _>>()?;
                    expected.compare(&found)
                }))
            });
            cases.push((case, run));
        }
        drop(stream);
        report.measure_beside(cases)?;
    }
    Ok(())
}

impl Question {
    fn sql(&self, input: &Input) -> String {
        let keys = if input.is_keyed { input.shape.columns() } else { &[] };
        let key: String = keys.iter().map(|key| format!(", {key}")).collect();
        let value = match self.value {
            Value::Average => "avg(value)",
            Value::DistinctValues => "count(DISTINCT value)",
            Value::DistinctKeys => "count(DISTINCT key)",
            Value::Median => "median(value)",
        };
        let Windows { size, slide } = self.windows;
        let windows = match size == slide {
            true => format!("TUMBLE(readings, ts, INTERVAL '{}' SECOND)", size / SECOND),
            false => {
                format!("HOP(readings, ts, INTERVAL '{}' SECOND, INTERVAL '{}' SECOND)", slide / SECOND, size / SECOND)
            }
        };
        format!("SELECT window_start{key}, {value} AS value FROM {windows} GROUP BY window_start, window_end{key}")
    }

    fn expected(&self, stream: &[Vec<RecordBatch>], input: &Input) -> Rc<Expected> {
        let groups = if input.is_keyed { Groups::Keys(input.keys.count()) } else { Groups::One };
        let of_sorted = |get: fn(Row) -> f64, value: fn(&[f64]) -> f64| {
            Expected::of_sorted(stream, self.windows.size, groups, get, value)
        };
        Rc::new(match self.value {
            Value::Average => Expected::averages(stream, self.windows, groups),
            Value::DistinctValues => of_sorted(|row| row.value, distinct),
            Value::DistinctKeys => of_sorted(|row| row.key as f64, distinct),
            Value::Median => of_sorted(|row| row.value, median),
        })
    }
}

fn distinct(sorted: &[f64]) -> f64 {
    1.0 + sorted.windows(2).filter(|pair| pair[0] != pair[1]).count() as f64
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

fn results(memory: &Memory, sums: &str, disorder: i64, query: &str) -> thalweg::Result<Vec<RecordBatch>> {
    let mut engine = Engine::with_connectors(vec![std::sync::Arc::new(memory.clone())]);
    engine.sql(&format!(
        "SET 'float.sum' = '{sums}'; SET 'batch.rows' = '16384';
         CREATE TABLE readings (WATERMARK FOR ts AS ts - INTERVAL '{}.{:06}' SECOND)
         WITH ('connector' = 'memory', 'stream' = 'readings')",
        disorder / 1_000_000,
        disorder % 1_000_000
    ))?;
    engine.sql(query)?.collect()
}
