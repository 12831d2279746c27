//! Text into columns: files of CSV and JSON lines, from the system's cache, into nothing.

use arrow_array::{cast::AsArray, types::Float64Type};
use serde_json::json;
use thalweg::Engine;

use crate::{
    machine::cores,
    measure::{Case, Report, Run, count_is, parameters},
    scratch::Scratch,
    table::{Format, Table, Written},
};

/// Makes a table when it is wanted.
type Make = fn() -> Result<Table, String>;

/// Measures each table in each format, with one worker and with all.
pub fn run(report: &mut Report) -> Result<(), String> {
    let bytes = if report.is_quick() { 20 << 20 } else { 200 << 20 };
    let tables: [(&str, Make); 2] = [("departures", Table::departures), ("wide", || Ok(Table::wide()))];
    for (name, table) in tables {
        for (format, suffix, title) in [(Format::Csv, "csv", "CSV"), (Format::JsonLines, "json", "JSON lines")] {
            let variant =
                |workers: usize| format!("{title}, {name}, {workers} worker{}", if workers == 1 { "" } else { "s" });
            let workers: Vec<usize> = if cores() > 1 { vec![1, cores()] } else { vec![1] };
            if !workers.iter().any(|workers| report.wants(&variant(*workers))) {
                continue;
            }
            let (table, scratch) = (table()?, Scratch::new(&format!("{name}-{suffix}"))?);
            // A file is a partition, and a partition is read by one worker.
            let paths: Vec<_> = (0..cores()).map(|n| scratch.path().join(format!("{n}.{suffix}"))).collect();
            let written = table.write(format, &paths, bytes)?;
            let path = scratch.path().join(format!("*.{suffix}")).display().to_string();
            let cases = workers.into_iter().map(|workers| case(&table, &written, &path, variant(workers), workers));
            report.measure_beside(cases.collect())?;
        }
    }
    Ok(())
}

fn case<'a>(
    table: &'a Table,
    written: &'a Written,
    path: &'a str,
    variant: String,
    workers: usize,
) -> (Case<'a>, Run<'a>) {
    let mut is_first = true;
    let case = Case {
        workload: "ingest",
        variant,
        parameters: parameters([
            ("query", json!("INSERT INTO nothing SELECT * FROM rows")),
            ("input", json!(table.description)),
            ("files", json!(cores())),
            ("bytes", json!(written.bytes)),
            ("workers", json!(workers)),
        ]),
        rows: written.rows,
        bytes_per_row: written.bytes as f64 / written.rows as f64,
        workers,
        peak: None,
    };
    let run: Run<'a> = Box::new(move || {
        let found = count(table, path, workers).map_err(|error| error.to_string())?;
        // Every run has its rows counted; the values are looked at once, by a query of their own.
        let with_values = std::mem::take(&mut is_first);
        Ok(Box::new(move || {
            let values = if with_values { compare(table, written, path)? } else { 0 };
            Ok(values + count_is(found, written.rows)()?)
        }))
    });
    (case, run)
}

/// How many rows come into `nothing`.
fn count(table: &Table, path: &str, workers: usize) -> thalweg::Result<u64> {
    let mut engine = engine(table, path, workers)?;
    engine.sql(&format!("CREATE TABLE nothing ({}) WITH ('connector' = 'blackhole')", table.declaration()))?;
    Ok(engine.sql("INSERT INTO nothing SELECT * FROM rows")?.wait()?.rows_out)
}

/// Compares the number of rows and the sum of each column.
fn compare(table: &Table, written: &Written, path: &str) -> Result<u64, String> {
    let sums = || {
        let query = format!("SELECT {} FROM rows", table.sums());
        engine(table, path, cores())?.sql(&query)?.collect::<thalweg::Result<Vec<_>>>()
    };
    let rows = sums().map_err(|error| error.to_string())?;
    let found: Vec<f64> = rows
        .iter()
        .filter(|batch| batch.num_rows() > 0)
        .flat_map(|batch| batch.columns().iter().map(|column| column.as_primitive::<Float64Type>().value(0)))
        .collect();
    match found == written.sums {
        true => Ok(found.len() as u64),
        false => Err(format!("the number of rows and the sums are {found:?}, they must be {:?}", written.sums)),
    }
}

fn engine(table: &Table, path: &str, workers: usize) -> thalweg::Result<Engine> {
    let mut engine = Engine::new();
    engine.sql(&format!(
        "SET 'parallelism' = '{workers}';
         CREATE TABLE rows ({}) WITH ('connector' = 'file', 'path' = '{}')",
        table.declaration(),
        path.replace('\'', "''")
    ))?;
    Ok(engine)
}
