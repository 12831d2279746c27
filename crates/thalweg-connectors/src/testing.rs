//! What the tests of this room share.

use std::sync::Arc;

use arrow_schema::{Field, Schema};
use thalweg_core::{
    Result,
    connector::{Host, Options, Read, Reader, TableDefinition},
    types::sql_name,
};

use crate::{
    format::{
        Format,
        reader::FormatReader,
        window::{Bytes, Fill},
    },
    text::write::tests::rows,
};

/// Random numbers that a seed gives (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// A table from `name TYPE, …` and `key=value; …`; `NOT NULL` and `TIME` may stand behind a type.
pub(crate) fn table(columns: &str, options: &str) -> TableDefinition {
    let mut time = None;
    let mut field = |(i, column): (usize, &str)| {
        let (name, rest) = column.trim().split_once(' ').expect("name TYPE");
        let is_time = rest.ends_with(" TIME");
        time = time.or(is_time.then_some(i));
        let rest = rest.strip_suffix(" TIME").unwrap_or(rest);
        let (sql, nullable) = rest.strip_suffix(" NOT NULL").map_or((rest, true), |sql| (sql, false));
        Field::new(name, data_type(sql), nullable)
    };
    let fields = columns.split(',').enumerate().map(&mut field).collect::<Vec<_>>();
    let option = |text: &str| text.split_once('=').map(|(key, value)| (key.trim().to_string(), value.to_string()));
    let options = Options::new(options.split("; ").filter_map(option));
    TableDefinition { name: "t".into(), columns: Arc::new(Schema::new(fields)), options, time }
}

fn data_type(sql: &str) -> arrow_schema::DataType {
    use arrow_schema::{DataType::*, TimeUnit::Microsecond};
    let new_york = Timestamp(Microsecond, Some("America/New_York".into()));
    let types = [Boolean, Int8, Int16, Int32, Int64, UInt8, UInt64, Float32, Float64, Utf8, Binary, Date32];
    let more = [Time64(Microsecond), Timestamp(Microsecond, None), new_york, Decimal128(9, 2)];
    let found = types.into_iter().chain(more).find(|t| sql_name(t).replace("(9, 2)", "") == sql);
    found.unwrap_or_else(|| panic!("no type {sql}"))
}

/// Bytes in memory that come a few at a time.
pub(crate) struct Memory {
    bytes: Vec<u8>,
    read: usize,
    most: Box<dyn FnMut() -> usize + Send>,
}

impl Memory {
    pub(crate) fn new(bytes: &[u8], most: impl FnMut() -> usize + Send + 'static) -> Self {
        Self { bytes: bytes.to_vec(), read: 0, most: Box::new(most) }
    }
}

impl Bytes for Memory {
    fn fill(&mut self, free: &mut [u8]) -> Result<Fill> {
        let count = (self.bytes.len() - self.read).min((self.most)()).min(free.len());
        free[..count].copy_from_slice(&self.bytes[self.read..self.read + count]);
        self.read += count;
        Ok(if count == 0 { Fill::End } else { Fill::Some(count) })
    }
}

/// A reader of bytes in memory, called `input` in messages.
pub(crate) fn reader(table: &TableDefinition, bytes: Memory) -> Box<dyn Reader> {
    let decoder = Format::new(&table.options, None).unwrap().decoder(table, "input").unwrap();
    Box::new(FormatReader::new(Box::new(bytes), decoder, host()))
}

/// A runtime that lets a reader have no threads.
pub(crate) fn host() -> Host {
    Host { wake: Arc::new(|| {}), threads: 1 }
}

/// All rows as text, then the error or the number of bad rows if there is one.
pub(crate) fn read_all(reader: &mut dyn Reader, rows_at_once: usize) -> Vec<String> {
    let mut lines = vec![];
    loop {
        match reader.read(rows_at_once) {
            Ok(Read::Rows(batch)) => {
                assert!((1..=rows_at_once).contains(&batch.num_rows()), "as many rows as were asked for");
                lines.extend(rows(&batch));
            }
            Ok(Read::End) => break,
            Ok(Read::Wait(_) | Read::Busy) => std::thread::yield_now(),
            Ok(other) => panic!("no {other:?} from memory"),
            Err(error) => {
                lines.push(format!("error: {error}"));
                break;
            }
        }
    }
    if reader.bad_rows() > 0 {
        lines.push(format!("bad: {}", reader.bad_rows()));
    }
    lines
}

/// The rows of a text, read whole and in large batches.
pub(crate) fn read_text(columns: &str, options: &str, text: impl AsRef<[u8]>) -> Vec<String> {
    let table = table(columns, options);
    read_all(&mut *reader(&table, Memory::new(text.as_ref(), || usize::MAX)), 4096)
}
