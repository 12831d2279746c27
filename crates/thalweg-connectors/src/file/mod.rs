//! Files as sources and sinks.
//!
//! | option | meaning |
//! | --- | --- |
//! | `'path'` | a file, a glob such as `data/*.csv`, or a directory, whose files are read unless their names begin with a dot |
//! | `'format'` | `csv` or `json`; the default goes by the name: `.csv`, `.tsv`, `.json`, `.jsonl`, `.ndjson`, and `.gz` or `.zst` behind |
//! | `'compression'` | `auto` (default), `none`, `gzip` or `zstd`; `auto` looks at a source's first bytes and at a sink's name |
//! | `'bad.rows'` | `fail` (default) or `skip` |
//! | `'overwrite'` | `true` lets a sink replace a file that is there |
//!
//! Each file is a partition, named by its path. The source always ends.

mod compression;
mod paths;
mod sink;

use std::{fs, io::Read as _};

use arrow_schema::SchemaRef;
use thalweg_core::{
    Error, Result,
    connector::{Connector, Host, Options, Reader, Sink, Source, TableDefinition},
};

use crate::{
    csv::Csv,
    format::{
        Format,
        bad_rows::BadRows,
        blocks::Blocks,
        reader::FormatReader,
        window::{Bytes, Fill},
    },
};
use compression::{Compression, Input};

/// `'connector' = 'file'`.
pub(crate) struct File;

const OPTIONS: &[&str] = &["path", "compression", "overwrite"];

const DECLARE: &str = "declare the columns: CREATE TABLE t (name TYPE, …) WITH (…)";

/// How many bytes of a file are looked at to find its columns.
const SAMPLE: usize = 1 << 20;

/// How far a compressed file is read on, in unpacked bytes, to see whether it is corrupt: its checksum stands at its end.
const VERIFIED: usize = 4 << 30;

impl Connector for File {
    fn name(&self) -> &'static str {
        "file"
    }

    fn check(&self, table: &TableDefinition) -> Result<()> {
        let path = path(&table.options)?;
        Compression::new(&table.options)?;
        let _: Option<bool> = table.options.parse("overwrite", "'true' or 'false'")?;
        BadRows::new(&table.options, path)?;
        // The files of a directory or a pattern may tell their format by their own names.
        let is_open = paths::format(path).is_none() && (path.contains(['*', '?', '[']) || paths::is_directory(path));
        match is_open && table.options.get("format").is_none() {
            true => {
                Csv::new(&table.options)?;
                table.options.check(&[OPTIONS, &["connector", "format", "bad.rows"], Csv::OPTIONS].concat())
            }
            false => format(&table.options, path).map(drop),
        }
    }

    fn infer(&self, table: &TableDefinition) -> Result<SchemaRef> {
        let files = Files::new(table)?;
        for path in &files.paths {
            let is_regular = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
            if !is_regular {
                let message =
                    format!("table {:?}: {path} is read once, so that no columns can be found in it", table.name);
                return Err(Error::query(message).with_hint(DECLARE));
            }
            let mut sample = vec![];
            let mut input = files.input(path)?.take(SAMPLE as u64 + 1);
            input.read_to_end(&mut sample).map_err(|error| input.get_ref().error(&error))?;
            let is_all = sample.len() <= SAMPLE;
            if let Some(columns) = files.format.infer(&sample, is_all)? {
                return Ok(columns);
            }
        }
        let is_empty = files.paths.iter().all(|path| fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0));
        let (what, hint) = match files.format {
            Format::Json if !is_empty => {
                ("JSON object on a line", "json is one object per line: split arrays, and join lines")
            }
            _ => ("row", DECLARE),
        };
        let message = format!("table {:?}: there is no {what} in {} to find columns in", table.name, files.pattern);
        Err(Error::query(message).with_hint(hint))
    }

    fn source(&self, table: &TableDefinition) -> Result<Box<dyn Source>> {
        let files = Files::new(table)?;
        files.format.decoder(table, &files.paths[0])?;
        Ok(Box::new(files))
    }

    fn sink(&self, table: &TableDefinition) -> Result<Box<dyn Sink>> {
        let path = path(&table.options)?;
        let format = format(&table.options, path)?;
        let compression = Compression::new(&table.options)?;
        let overwrite = table.options.parse("overwrite", "'true' or 'false'")?.unwrap_or(false);
        let target = sink::Target { path: path.into(), compression: compression.of_name(path), overwrite };
        Ok(Box::new(sink::FileSink::new(target, format.encoder(), table.columns.clone())?))
    }
}

/// The files of a table.
struct Files {
    table: TableDefinition,
    pattern: String,
    paths: Vec<String>,
    format: Format,
    compression: Compression,
}

impl Files {
    fn new(table: &TableDefinition) -> Result<Self> {
        let pattern = path(&table.options)?;
        let compression = Compression::new(&table.options)?;
        let _: Option<bool> = table.options.parse("overwrite", "'true' or 'false'")?;
        let paths = paths::find(pattern)?;
        let is_told = table.options.get("format").is_some() || paths::format(pattern).is_some();
        if !is_told && let Some(other) = paths.iter().find(|path| paths::format(path) != paths::format(&paths[0])) {
            let message =
                format!("the files of '{pattern}' are of several formats, by their names: {} and {other}", paths[0]);
            return Err(Error::query(message).with_hint("set 'format', or a pattern such as '*.csv' in 'path'"));
        }
        let format = format(&table.options, if paths::format(pattern).is_some() { pattern } else { &paths[0] })?;
        Ok(Self { table: table.clone(), pattern: pattern.into(), paths, format, compression })
    }

    fn input(&self, path: &str) -> Result<Input> {
        input(path, self.compression)
    }
}

impl Source for Files {
    fn partitions(&self) -> &[String] {
        &self.paths
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn open(&self, partition: usize, host: Host) -> Result<Box<dyn Reader>> {
        let path = &self.paths[partition];
        let decoder = self.format.decoder(&self.table, path)?;
        let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
        let bytes: Box<dyn Bytes> = match is_file {
            true => Box::new(self.input(path)?),
            // Who writes into a named pipe may come late, and be silent for long.
            false => {
                let (name, compression) = (path.clone(), self.compression);
                Box::new(Blocks::new(move || input(&name, compression), path, Input::error, host.wake.clone())?)
            }
        };
        Ok(Box::new(FormatReader::new(bytes, decoder, host)))
    }
}

impl Bytes for Input {
    fn fill(&mut self, free: &mut [u8]) -> Result<Fill> {
        loop {
            match self.read(free) {
                Ok(0) => return Ok(Fill::End),
                Ok(count) => return Ok(Fill::Some(count)),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let error = self.error(&error);
                    self.damage = self.is_compressed().then(|| error.clone());
                    return Err(error);
                }
            }
        }
    }

    fn verify(&mut self) -> Result<()> {
        if let Some(damage) = self.damage.clone() {
            return Err(damage);
        }
        let mut sink = vec![0; 64 << 10];
        let mut left = if self.is_compressed() { VERIFIED } else { 0 };
        while left > 0 {
            match self.fill(&mut sink)? {
                Fill::Some(count) => left = left.saturating_sub(count),
                Fill::Wait | Fill::End => break,
            }
        }
        Ok(())
    }
}

fn input(path: &str, compression: Compression) -> Result<Input> {
    let file = fs::File::open(path).map_err(|error| Error::environment(format!("cannot read {path}: {error}")))?;
    Input::new(file, path, compression)
}

/// The path, which may be written as Flink does, `file:///…`.
fn path(options: &Options) -> Result<&str> {
    let path = options.required("path")?;
    let path = path.strip_prefix("file://").unwrap_or(path);
    if path.is_empty() { Err(Error::query("option 'path' is empty, expected a path")) } else { Ok(path) }
}

/// The format, after a check of all options.
fn format(options: &Options, path: &str) -> Result<Format> {
    let mut options = options.clone();
    let is_tabbed = paths::extension(path).is_some_and(|extension| extension.eq_ignore_ascii_case("tsv"));
    if is_tabbed && options.get("csv.delimiter").is_none() && options.get("format").is_none_or(|f| f == "csv") {
        let own = options.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        options = Options::new(own.chain([("csv.delimiter".to_string(), "\t".to_string())]).collect::<Vec<_>>());
    }
    let format = Format::new(&options, paths::format(path))?;
    format.check(&options, OPTIONS)?;
    Ok(format)
}

#[cfg(test)]
mod tests;
