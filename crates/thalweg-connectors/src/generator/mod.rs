//! A source that makes its rows up, the same ones from the same seed.
//!
//! | option | meaning |
//! | --- | --- |
//! | `'number-of-rows'` | how many rows there are in all partitions; without it and without a sequence that ends, there is no end |
//! | `'rows-per-second'` | how fast they come, all partitions together, such as `100` or `0.5`; without it as fast as they are taken |
//! | `'partitions'` | in how many partitions they come, default 1: row *n* is in partition *n* modulo that |
//! | `'seed'` | a number that all random values follow from, default 0 |
//! | `'fields.NAME.kind'` | `random`, `sequence`, `choice`, `string` or `time`; the default depends on the type, see below |
//! | `'fields.NAME.null-rate'` | the share of nulls, from `0` to `1` |
//!
//! | kind | options, after `'fields.NAME.'` | for the types |
//! | --- | --- | --- |
//! | `random` | `min`, `max`, both included | numbers (default), BOOLEAN (default), DATE (default), TIME (default), TIMESTAMP |
//! | `sequence` | `start` (default 0), `step` (1), `end` | whole numbers, FLOAT, DOUBLE, DECIMAL, DATE |
//! | `choice` | `values`, with commas between | all |
//! | `string` | `length` (default 16) | STRING (default) |
//! | `time` | `start` (default the epoch), `step` (default as `'rows-per-second'` says, else 1 ms), `disorder` | TIMESTAMP (default) |
//!
//! Whole numbers are by default anywhere in the range of their type, FLOAT and DOUBLE from 0 to 1, DECIMAL from 0 to its largest,
//! dates and timestamps in 1970 to 2069. With `disorder`, each row's time is set back by a random interval of at most that.
//!
//! A value depends on the seed, the column and the row's number alone, so neither batches nor partitions change what is made.

mod fill;
mod kinds;
mod rate;
mod reader;
mod said;

use thalweg_core::{
    Error, Result,
    connector::{Connector, Host, Options, Reader, Source, TableDefinition},
};

use kinds::Column;
use rate::Rate;
use reader::{Pace, RowReader};

/// `'connector' = 'generator'`.
pub(crate) struct Generator;

const OPTIONS: &[&str] = &["connector", "number-of-rows", "rows-per-second", "partitions", "seed", "fields.*"];

/// More partitions than this are a mistake.
const PARTITIONS_LIMIT: u64 = 65_536;

impl Connector for Generator {
    fn name(&self) -> &'static str {
        "generator"
    }

    fn check(&self, table: &TableDefinition) -> Result<()> {
        self.source(table).map(drop)
    }

    fn source(&self, table: &TableDefinition) -> Result<Box<dyn Source>> {
        let options = &table.options;
        options.check(OPTIONS)?;
        let number = |key: &str| options.parse::<u64>(key, "a whole number");
        let partitions = number("partitions")?.unwrap_or(1);
        let rate = rate(options)?;
        if partitions == 0 || partitions > PARTITIONS_LIMIT {
            let what = format!("expected a number from 1 to {PARTITIONS_LIMIT}");
            return Err(Error::query(format!("option 'partitions' is '{partitions}', {what}")));
        }
        let columns = kinds::columns(table, number("seed")?.unwrap_or(0), rate)?;
        let rows = number("number-of-rows")?;
        let is_short = |column: &&Column| !column.is_told_to_end && rows > column.end && column.end.is_some();
        if let (Some(wanted), Some(short)) = (rows, columns.iter().find(is_short)) {
            let (name, kind, rows) = (short.name(), short.type_name(), short.end.unwrap_or(0));
            let message = format!(
                "option 'number-of-rows' is '{wanted}', but the sequence of column \"{name}\" ends with {kind}, after {rows} rows"
            );
            let hint = format!("give the column a wider type, or say where it ends with 'fields.{name}.end'");
            return Err(Error::query(message).with_hint(hint));
        }
        let ends = columns.iter().filter_map(|column| column.end).min();
        let width = (partitions - 1).to_string().len();
        Ok(Box::new(Rows {
            names: (0..partitions).map(|p| format!("{p:0width$}")).collect(),
            is_bounded: rows.is_some() || columns.iter().any(|column| column.is_told_to_end),
            rows: rows.into_iter().chain(ends).min().unwrap_or(u64::MAX),
            table: table.clone(),
            columns,
            rate,
        }))
    }
}

fn rate(options: &Options) -> Result<Option<Rate>> {
    let Some(text) = options.get("rows-per-second") else { return Ok(None) };
    let wrong = || format!("option 'rows-per-second' is '{text}', expected a positive number such as '100' or '0.5'");
    Rate::parse(text).map(Some).ok_or_else(|| Error::query(wrong()))
}

struct Rows {
    table: TableDefinition,
    columns: Vec<Column>,
    names: Vec<String>,
    rows: u64,
    is_bounded: bool,
    rate: Option<Rate>,
}

impl Source for Rows {
    fn partitions(&self) -> &[String] {
        &self.names
    }

    fn is_bounded(&self) -> bool {
        self.is_bounded
    }

    fn open(&self, partition: usize, _: Host) -> Result<Box<dyn Reader>> {
        let numbers = fill::Numbers { first: partition as u64, step: self.names.len() as u64 };
        let pace = self.rate.map(Pace::new);
        Ok(Box::new(RowReader::new(self.table.columns.clone(), self.columns.clone(), numbers, self.rows, pace)))
    }
}

#[cfg(test)]
mod tests;
