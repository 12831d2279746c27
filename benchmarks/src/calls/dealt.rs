//! From which work on does it pay to deal the batches of one partition to several instances?
//!
//! Expressions that take longer and longer, each in one instance and dealt to as many as there are cores. All call a function,
//! which the compiler takes for enough to do, however little it is.

use arrow_array::{cast::AsArray, types::*};
use serde_json::json;
use thalweg::Memory;

use super::{
    discard, engine,
    records::{Call, calls, each},
};
use crate::{
    machine::cores,
    measure::{Case, Report, Run, count_is, parameters},
    stream::Keys,
};

/// An expression, and the same in Rust.
type Step = (&'static str, fn(&Call) -> f64);

const STEPS: [Step; 7] = [
    ("abs(x)", |call| call.x),
    ("abs(x) + abs(y)", |call| call.x + call.y),
    ("abs(x) + abs(y) + abs(x - y)", |call| call.x + call.y + (call.x - call.y).abs()),
    ("abs(x) + abs(y) + abs(x - y) + abs(x - 2 * y) + abs(y - 2 * x)", |call| {
        let Call { x, y, .. } = *call;
        x + y + (x - y).abs() + (x - 2.0 * y).abs() + (y - 2.0 * x).abs()
    }),
    ("sqrt(x * x + y * y)", |call| (call.x * call.x + call.y * call.y).sqrt()),
    ("sin(x)", |call| call.x.sin()),
    ("sin(x) * cos(y)", |call| call.x.sin() * call.y.cos()),
];

/// `batch.rows`: the default, and small ones.
const BATCHES: [usize; 2] = [8192, 1024];

/// Measures each expression, in one instance and dealt.
pub fn run(report: &mut Report) -> Result<(), String> {
    let variant = |step: &str, batch: usize, how: &str| format!("{step}, batches of {batch}, {how}");
    let hows = ["one instance".to_string(), format!("dealt to {}", cores())];
    let wants = |step: &str, batch| hows.iter().any(|how| report.wants(&variant(step, batch, how)));
    if !STEPS.iter().any(|(step, _)| BATCHES.iter().any(|batch| wants(step, *batch))) {
        return Ok(());
    }
    let rows = 1 << if report.is_quick() { 18 } else { 23 };
    let stream = calls(rows, 1, Keys::Uniform(1_000))?;
    let sums = STEPS.map(|(_, value)| each(&stream).map(|call| value(&call)).sum::<f64>());
    let memory = Memory::default();
    memory.put("calls", stream).map_err(|error| error.to_string())?;
    for ((step, _), sum) in STEPS.into_iter().zip(sums) {
        for batch in BATCHES {
            let query = format!("SELECT caller, {step} AS v FROM calls");
            let cases = hows.iter().enumerate().map(|(dealt, how)| {
                // Where nobody says how many instances there are nothing is dealt, and there are as many workers.
                let dealt = if dealt == 1 { format!("SET 'parallelism' = '{}';", cores()) } else { String::new() };
                let settings = format!("{dealt} SET 'batch.rows' = '{batch}';");
                let case = Case {
                    workload: "calls",
                    variant: variant(step, batch, how),
                    parameters: parameters([
                        ("query", json!(query)),
                        ("input", json!("call description records in memory, in one partition")),
                        ("batch.rows", json!(batch)),
                        ("settings", json!(settings)),
                    ]),
                    rows: rows as u64,
                    bytes_per_row: 24.0,
                    workers: cores(),
                    peak: None,
                };
                let (memory, query) = (&memory, query.clone());
                let run: Run<'_> = Box::new(move || {
                    Ok(count_is(discard(memory, &settings, "caller BIGINT, v DOUBLE", &query)?.rows_out, rows as u64))
                });
                (case, run)
            });
            report.measure_beside(cases.collect())?;
        }
        check(&memory, step, sum)?;
    }
    Ok(())
}

/// Compares the sum of what is dealt.
fn check(memory: &Memory, step: &str, expected: f64) -> Result<(), String> {
    let found = || {
        let mut engine = engine(memory, &format!("SET 'parallelism' = '{}';", cores()))?;
        engine.sql(&format!("SELECT sum(v) FROM (SELECT {step} AS v FROM calls)"))?.next().transpose()
    };
    let found = found().map_err(|error| error.to_string())?.ok_or("no sum came out")?;
    let found = found.column(0).as_primitive::<Float64Type>().value(0);
    // The plain sum rounds at each step.
    match (found - expected).abs() <= 1e-6 * expected.abs().max(1.0) {
        true => Ok(()),
        false => Err(format!("the sum of {step} is {found}, it must be {expected}")),
    }
}
