//! How fast do files become columns, and with `--write` rows become text?
//!
//! `cargo run --release -p thalweg-connectors --example read_speed -- [--threads=N] [--write] FILE…` reads each file, with its
//! columns inferred, on one thread or with N of the reader's own, and writes the rows as CSV and as JSON lines into nothing, on
//! one. Compressed files include the time to decompress them.

use std::{io, sync::Arc, thread, time::Instant};

use thalweg_connectors::{RowWriter, all, csv, json_lines};
use thalweg_core::{
    Batch, Result,
    connector::{Host, Options, Read, TableDefinition},
};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let writes = arguments.iter().any(|argument| argument == "--write");
    let threads = arguments.iter().find_map(|argument| argument.strip_prefix("--threads="));
    let threads = threads.map_or(1, |threads| threads.parse().expect("--threads=N has a number"));
    for path in arguments.iter().filter(|argument| !argument.starts_with("--")) {
        for _ in 0..3 {
            let batches = read(path, threads)?;
            if writes {
                write("csv", &batches, csv(io::sink(), true))?;
                write("json", &batches, json_lines(io::sink()))?;
            }
        }
    }
    Ok(())
}

fn read(path: &str, threads: usize) -> Result<Vec<Batch>> {
    let options = Options::new([("path".to_string(), path.to_string())]);
    let columns = arrow_schema::Schema::empty().into();
    let mut table = TableDefinition { name: path.into(), columns, options, time: None };
    let connectors = all();
    let file = connectors.iter().find(|connector| connector.name() == "file").expect("is in the list");
    table.columns = file.infer(&table)?;
    let start = Instant::now();
    let main = thread::current();
    let mut reader = file.source(&table)?.open(0, Host { wake: Arc::new(move || main.unpark()), threads })?;
    let mut batches = vec![];
    loop {
        match reader.read(8192)? {
            Read::Rows(rows) => batches.push(Batch::new(rows)),
            Read::Busy => thread::park(),
            Read::End => break,
            _ => {}
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len()) as f64;
    let rows = batches.iter().map(Batch::len).sum::<usize>() as f64;
    println!(
        "read {path}: {rows} rows, {:.0} MB/s of the file, {:.2} M rows/s",
        bytes / seconds / 1e6,
        rows / seconds / 1e6
    );
    Ok(batches)
}

fn write(format: &str, batches: &[Batch], mut writer: RowWriter<io::Sink>) -> Result<()> {
    let start = Instant::now();
    for batch in batches {
        writer.write(batch)?;
    }
    let rows = batches.iter().map(Batch::len).sum::<usize>() as f64;
    println!("write {format}: {:.2} M rows/s", rows / start.elapsed().as_secs_f64() / 1e6);
    Ok(())
}
