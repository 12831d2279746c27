//! A source on standard input, in any format.
//!
//! A thread of its own [waits](crate::format::blocks) for bytes. The source counts as endless, since nobody knows when more will
//! come; `'bounded' = 'true'` says that it is a file at the other end, so that a query may wait for its end, as ORDER BY does.

use std::{io, sync::OnceLock};

use thalweg_core::{
    Error, Result,
    connector::{Connector, Host, Reader, Source, TableDefinition},
};

use crate::format::{Format, blocks::Blocks, reader::FormatReader};

/// The table that standard input was opened for. What it read is gone, and two readers would tear lines apart.
static TAKEN: OnceLock<String> = OnceLock::new();

/// What standard input holds that no table may read.
static RESERVED: OnceLock<&str> = OnceLock::new();

/// Keeps standard input from tables, since it holds something else, such as `the script`.
pub fn reserve_stdin(what: &'static str) {
    RESERVED.get_or_init(|| what);
}

/// `'connector' = 'stdin'`.
pub(crate) struct Stdin;

impl Connector for Stdin {
    fn name(&self) -> &'static str {
        "stdin"
    }

    fn check(&self, table: &TableDefinition) -> Result<()> {
        let format = Format::new(&table.options, None)?;
        format.check(&table.options, &["bounded"])?;
        format.decoder(table, INPUT)?;
        is_bounded(table).map(drop)
    }

    fn source(&self, table: &TableDefinition) -> Result<Box<dyn Source>> {
        self.check(table)?;
        let format = Format::new(&table.options, None)?;
        let is_bounded = is_bounded(table)?;
        if let Some(what) = RESERVED.get() {
            return Err(Error::query(format!("table {:?}: standard input holds {what}", table.name))
                .with_hint(format!("read {what} or the table from a file")));
        }
        Ok(Box::new(Input { table: table.clone(), format, is_bounded, partitions: ["stdin".to_string()] }))
    }
}

fn is_bounded(table: &TableDefinition) -> Result<bool> {
    Ok(table.options.parse("bounded", "'true' or 'false'")?.unwrap_or(false))
}

const INPUT: &str = "standard input";

struct Input {
    table: TableDefinition,
    format: Format,
    is_bounded: bool,
    partitions: [String; 1],
}

impl Source for Input {
    fn partitions(&self) -> &[String] {
        &self.partitions
    }

    fn is_bounded(&self) -> bool {
        self.is_bounded
    }

    fn open(&self, _: usize, host: Host) -> Result<Box<dyn Reader>> {
        let decoder = self.format.decoder(&self.table, INPUT)?;
        if let Err(name) = TAKEN.set(self.table.name.clone()) {
            let first = TAKEN.get().expect("it is taken");
            let message =
                format!("table {name:?}: standard input can be read once, and was for table {first:?} already");
            return Err(Error::query(message)
                .with_hint("write what comes to a file first: 'connector' = 'file' is read as often as wanted"));
        }
        let error = |_: &io::Stdin, error: &io::Error| Error::environment(format!("cannot read {INPUT}: {error}"));
        let blocks = Blocks::new(|| Ok(io::stdin()), INPUT, error, host.wake.clone())?;
        Ok(Box::new(FormatReader::new(Box::new(blocks), decoder, host)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use arrow_schema::{DataType, Field, Schema};
    use thalweg_core::connector::{Options, Read, Wake};

    use super::*;

    fn table() -> TableDefinition {
        let columns = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
        let options = Options::new([("format".into(), "json".into())]);
        TableDefinition { name: "t".into(), columns, options, time: None }
    }

    /// Hands out one block for each that the test sends.
    struct Pipe(mpsc::Receiver<&'static str>);

    impl io::Read for Pipe {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let block = self.0.recv().unwrap_or_default();
            buffer[..block.len()].copy_from_slice(block.as_bytes());
            Ok(block.len())
        }
    }

    #[test]
    fn a_reader_waits_until_it_is_woken() {
        let (pipe, input) = mpsc::channel();
        let (waker, woken) = mpsc::channel();
        let wake: Wake = Arc::new(move || waker.send(()).unwrap_or_default());
        let error = |_: &Pipe, error: &io::Error| Error::environment(error.to_string());
        let blocks = Blocks::new(|| Ok(Pipe(input)), INPUT, error, wake.clone()).unwrap();
        let decoder = Format::Json.decoder(&table(), INPUT).unwrap();
        let mut reader = FormatReader::new(Box::new(blocks), decoder, Host { wake, threads: 2 });
        assert!(matches!(reader.read(10), Ok(Read::Wait(None))));
        pipe.send("{\"a\":1}\n{\"a\"").unwrap();
        woken.recv().unwrap();
        let Ok(Read::Rows(rows)) = reader.read(10) else { panic!("a row is there") };
        assert_eq!(rows.num_rows(), 1);
        assert!(matches!(reader.read(10), Ok(Read::Wait(None))));
        pipe.send(":2}").unwrap();
        woken.recv().unwrap();
        assert!(matches!(reader.read(10), Ok(Read::Wait(None))), "the line may go on");
        drop(pipe);
        woken.recv().unwrap();
        assert!(matches!(reader.read(10), Ok(Read::Rows(rows)) if rows.num_rows() == 1));
        assert!(matches!(reader.read(10), Ok(Read::End)));
    }

    #[test]
    fn it_is_endless_unless_told_otherwise() {
        let mut table = table();
        assert!(!Stdin.source(&table).unwrap().is_bounded());
        table.options = Options::new([("format".into(), "json".into()), ("bounded".into(), "true".into())]);
        assert!(Stdin.source(&table).unwrap().is_bounded());
    }
}
