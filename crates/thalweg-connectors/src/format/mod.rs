//! How rows are laid out in bytes, whatever the bytes travel on.

pub(crate) mod ahead;
pub(crate) mod bad_rows;
pub(crate) mod blocks;
mod helper;
mod parallel;
pub(crate) mod reader;
#[cfg(test)]
mod tests;
pub(crate) mod window;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use thalweg_core::{
    Error, Result,
    connector::{Options, TableDefinition},
};

use crate::{
    csv::{Csv, CsvDecoder, CsvEncoder},
    json::{JsonDecoder, JsonEncoder},
};
use window::Window;

/// Turns bytes into rows.
pub(crate) trait Decoder: Send {
    /// Decodes from the window until `rows` rows are complete or the bytes do not suffice.
    fn decode(&mut self, window: &mut Window, rows: usize) -> Result<Decoded>;

    /// The rows that are complete, perhaps none.
    fn take(&mut self) -> Result<RecordBatch>;

    /// How many rows were malformed and skipped.
    fn bad_rows(&self) -> u64;

    /// A decoder without rows that goes on as this one would, unless this one does not know yet what its bytes are like.
    fn fork(&self) -> Result<Option<Box<dyn Decoder>>>;

    /// Where the last complete record of these bytes ends, which begin with a record: a guess that costs little.
    fn cut(&self, bytes: &[u8]) -> Option<usize>;
}

/// Why a decoder came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// There are enough rows for a batch.
    Full,
    /// All bytes that make complete records are consumed.
    Hungry,
}

/// A batch ends when it took this many bytes, however few rows they are.
pub(crate) const BATCH_BYTES: usize = 16 << 20;

/// Turns rows into bytes.
pub(crate) trait Encoder: Send {
    /// Appends what stands before all rows.
    fn begin(&mut self, schema: &Schema, out: &mut Vec<u8>) -> Result<()>;

    /// Appends rows: these of the columns, in this order.
    fn encode(&mut self, columns: &RecordBatch, rows: &mut dyn Iterator<Item = usize>, out: &mut Vec<u8>)
    -> Result<()>;
}

/// A format with its options.
#[derive(Clone, Debug)]
pub(crate) enum Format {
    /// Comma-separated values.
    Csv(Csv),
    /// One JSON object a line.
    Json,
}

impl Format {
    /// The format named in `'format'`, or else the one that `default` names.
    pub(crate) fn new(options: &Options, default: Option<&str>) -> Result<Self> {
        let known = "expected 'csv' or 'json'";
        match options.get("format").or(default) {
            Some("csv") => Ok(Self::Csv(Csv::new(options)?)),
            Some("json") => Ok(Self::Json),
            Some(other) => Err(Error::query(format!("option 'format' is '{other}', {known}"))),
            None => Err(Error::query(format!("option 'format' is missing, {known}"))),
        }
    }

    /// The options that a table of this format may have, beside the transport's own.
    pub(crate) fn check(&self, options: &Options, transport: &[&str]) -> Result<()> {
        let own = match self {
            Self::Csv(_) => Csv::OPTIONS,
            Self::Json => &[],
        };
        options.check(&[transport, &["connector", "format", "bad.rows"], own].concat())
    }

    /// A decoder of the table's rows from an input that messages name.
    pub(crate) fn decoder(&self, table: &TableDefinition, input: &str) -> Result<Box<dyn Decoder>> {
        Ok(match self {
            Self::Csv(csv) => Box::new(CsvDecoder::new(csv, table, input)?),
            Self::Json => Box::new(JsonDecoder::new(table, input)?),
        })
    }

    /// An encoder of rows.
    pub(crate) fn encoder(&self) -> Box<dyn Encoder> {
        match self {
            Self::Csv(csv) => Box::new(CsvEncoder::new(csv.clone())),
            Self::Json => Box::new(JsonEncoder),
        }
    }

    /// The columns found in the beginning of an input, if it has any; `is_all` says that the input ends there.
    pub(crate) fn infer(&self, sample: &[u8], is_all: bool) -> Result<Option<SchemaRef>> {
        match self {
            Self::Csv(csv) => crate::csv::infer(csv, sample, is_all),
            Self::Json => Ok(crate::json::infer(sample, is_all)),
        }
    }
}
