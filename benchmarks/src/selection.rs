//! Rows that pass a predicate: 64-bit keys in memory, into nothing.

use std::sync::Arc;

use arrow_array::{RecordBatch, cast::AsArray, types::Int64Type};
use serde_json::json;
use thalweg::{Engine, Memory, Plan};

use crate::{
    machine::cores,
    measure::{Case, Report, Run, count_is, parameters},
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

/// How many queries run at a time.
const QUERIES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// How often queries read their inputs, so that the time is that of the rows and not that of their start.
const TIMES: usize = 4;

/// Measures each predicate with one worker and with all, and then many queries at a time.
pub fn run(report: &mut Report) -> Result<(), String> {
    alone(report)?;
    together(report)
}

/// One query, with one worker and with all.
fn alone(report: &mut Report) -> Result<(), String> {
    let rows = if report.is_quick() { 1 << 23 } else { 1 << 27 };
    for workers in if cores() > 1 { vec![1, cores()] } else { vec![1] } {
        let wants = |name: &str| Written::ALL.iter().any(|written| report.wants(&called(*written, name, workers)));
        if !PREDICATES.iter().any(|(name, ..)| wants(name)) {
            continue;
        }
        let stream = stream::keys(rows, workers)?;
        let rows = stream.iter().flatten().map(RecordBatch::num_rows).sum::<usize>();
        let kept = PREDICATES
            .map(|(_, _, keeps)| stream.iter().flatten().map(|batch| kept(batch, keeps)).sum::<u64>() * TIMES as u64);
        let memory = Memory::default();
        let repeated = stream.iter().map(|batches| [&batches[..]; TIMES].concat()).collect();
        memory.put("keys", repeated).map_err(|error| error.to_string())?;
        for ((name, predicate, _), kept) in PREDICATES.into_iter().zip(kept) {
            for written in Written::ALL {
                let query = match written {
                    Written::Sql => format!("INSERT INTO nothing SELECT key FROM keys WHERE {predicate}"),
                    Written::Rust => format!("table(\"keys\").filter(\"{predicate}\").notify(|_| Ok(())).discard()"),
                };
                let (memory, statement) = (&memory, query.clone());
                let case = Case {
                    workload: "selection",
                    variant: called(written, name, workers),
                    parameters: parameters([
                        ("query", json!(query)),
                        ("input", json!("64-bit keys, uniform below 1e9, in memory")),
                        ("bytes_of_input", json!(rows * 8)),
                        ("times_read", json!(TIMES)),
                        ("workers", json!(workers)),
                    ]),
                    rows: (rows * TIMES) as u64,
                    bytes_per_row: 8.0,
                    workers,
                    peak: None,
                };
                let run = Box::new(move || {
                    let found = match written {
                        Written::Sql => count(memory, workers, &statement),
                        Written::Rust => notified(memory, workers, predicate),
                    };
                    Ok(count_is(found.map_err(|error| error.to_string())?, kept))
                });
                report.measure(case, run)?;
            }
        }
    }
    Ok(())
}

/// How a query is put together.
#[derive(Clone, Copy)]
enum Written {
    Sql,
    /// As a topology, which ends in a function that does nothing.
    Rust,
}

impl Written {
    const ALL: [Self; 2] = [Self::Sql, Self::Rust];
}

fn called(written: Written, predicate: &str, workers: usize) -> String {
    match written {
        Written::Sql => variant(predicate, workers),
        Written::Rust => variant(predicate, workers).replace("SQL", "topology"),
    }
}

/// What one query with this predicate and so many workers is called.
pub fn variant(predicate: &str, workers: usize) -> String {
    format!("SQL, {predicate}, {workers} worker{}", if workers == 1 { "" } else { "s" })
}

fn kept(batch: &RecordBatch, keeps: fn(i64) -> bool) -> u64 {
    let keys = batch.column(0).as_primitive::<Int64Type>().values();
    keys.iter().filter(|key| keeps(**key)).count() as u64
}

/// How many rows a query puts into `nothing`.
fn count(memory: &Memory, workers: usize, query: &str) -> thalweg::Result<u64> {
    let mut engine = engine(memory, workers)?;
    engine.sql("CREATE TABLE keys WITH ('connector' = 'memory', 'stream' = 'keys')")?;
    let metrics = engine.sql(query)?.wait()?;
    Ok(metrics.rows_out)
}

/// How many rows behind a predicate a function is shown.
fn notified(memory: &Memory, workers: usize, predicate: &str) -> thalweg::Result<u64> {
    let mut engine = engine(memory, workers)?;
    engine.sql("CREATE TABLE keys WITH ('connector' = 'memory', 'stream' = 'keys')")?;
    let topology = engine.topology();
    topology.table("keys").filter(predicate).notify(|_| Ok(())).discard();
    Ok(topology.start()?.wait()?.rows_out)
}

fn engine(memory: &Memory, workers: usize) -> thalweg::Result<Engine> {
    let mut engine = Engine::with_connectors(vec![Arc::new(memory.clone())]);
    engine.sql(&format!(
        "SET 'parallelism' = '{workers}'; SET 'batch.rows' = '16384';
         CREATE TABLE nothing (key BIGINT) WITH ('connector' = 'blackhole')"
    ))?;
    Ok(engine)
}

/// Many queries at a time, each with one worker and with keys of its own, so that none finds in a cache what another has read.
///
/// Source: Pohl, PipeFabric, fig. 7. There each query adds a copy of the input; here the inputs of all queries together have
/// the same size at any number of queries, so that they fit into memory.
fn together(report: &mut Report) -> Result<(), String> {
    let (name, predicate, keeps) = PREDICATES[1];
    let variant = |queries: usize| format!("SQL, {name}, {queries} quer{}", if queries == 1 { "y" } else { "ies" });
    if !QUERIES.iter().any(|queries| report.wants(&variant(*queries))) {
        return Ok(());
    }
    let rows = if report.is_quick() { 1 << 26 } else { 1 << 28 };
    let batches: Vec<_> = stream::keys(rows, 1)?.into_iter().flatten().collect();
    let mut cases = Vec::new();
    for queries in QUERIES {
        let memory = Memory::default();
        let inputs: Vec<_> = batches.chunks(batches.len() / queries).collect();
        for (number, input) in inputs.iter().enumerate() {
            memory.put(&number.to_string(), vec![[*input; TIMES].concat()]).map_err(|error| error.to_string())?;
        }
        let kept: Vec<u64> = inputs
            .iter()
            .map(|input| input.iter().map(|batch| kept(batch, keeps)).sum::<u64>() * TIMES as u64)
            .collect();
        let (engine, plans) = plans(&memory, queries, predicate).map_err(|error| error.to_string())?;
        let case = Case {
            workload: "selection",
            variant: variant(queries),
            parameters: parameters([
                ("query", json!(format!("INSERT INTO nothing SELECT key FROM keys_i WHERE {predicate}"))),
                ("input", json!("64-bit keys, uniform below 1e9, in memory, other ones for each query")),
                ("queries", json!(queries)),
                ("bytes_of_input", json!(rows * 8)),
                ("times_read", json!(TIMES)),
                ("workers_per_query", json!(1)),
                ("planning", json!("before the clocks start")),
            ]),
            rows: (rows * TIMES) as u64,
            bytes_per_row: 8.0,
            workers: queries.min(cores()),
            peak: None,
        };
        let run: Run<'_> = Box::new(move || {
            let found = run_all(&engine, &plans).map_err(|error| error.to_string())?;
            let kept = kept.clone();
            Ok(Box::new(move || match found == kept {
                true => Ok(kept.len() as u64),
                false => Err(format!("{found:?} rows came out, {kept:?} must")),
            }))
        });
        cases.push((case, run));
    }
    report.measure_beside(cases)
}

fn plans(memory: &Memory, queries: usize, predicate: &str) -> thalweg::Result<(Engine, Vec<Plan>)> {
    let mut engine = engine(memory, 1)?;
    let mut plans = Vec::new();
    for number in 0..queries {
        engine.sql(&format!("CREATE TABLE keys_{number} WITH ('connector' = 'memory', 'stream' = '{number}')"))?;
        let query = format!("INSERT INTO nothing SELECT key FROM keys_{number} WHERE {predicate}");
        for statement in engine.parse(&query)? {
            plans.extend(engine.plan(&statement)?);
        }
    }
    Ok((engine, plans))
}

/// How many rows each query puts into `nothing`.
fn run_all(engine: &Engine, plans: &[Plan]) -> thalweg::Result<Vec<u64>> {
    let running = plans.iter().map(|plan| engine.run(plan)).collect::<thalweg::Result<Vec<_>>>()?;
    running.into_iter().map(|mut query| Ok(query.wait()?.rows_out)).collect()
}
