//! A connector whose partitions say row by row what they give: rows, watermarks, silence.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, SchemaRef};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use thalweg_core::{
    Error, Result, Timestamp,
    connector::{Connector, Host, Read, Reader, Source, TableDefinition},
};

/// One thing that a partition gives. A field that is `None` is null.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A row, each field as text.
    Row(Vec<Option<String>>),
    /// The source itself knows how far time has come, in text.
    Watermark(Timestamp),
    /// The source itself knows that nothing is to be waited for.
    Idle,
    /// Nothing comes any more, and this is not the end.
    Silent,
}

/// What the partitions of one table give. Partition `i` is named by its number.
pub type Script = Vec<Vec<Item>>;

/// Gives what scripts say, for tables of `'connector' = 'script'`, by table name.
#[derive(Clone, Default)]
pub struct Scripts {
    tables: HashMap<String, Script>,
    /// With a seed, barriers come at random places.
    barriers: Option<u64>,
    /// Tables whose streams never end by themselves.
    is_unbounded: bool,
}

impl Scripts {
    /// Scripts by table name.
    pub fn new(tables: HashMap<String, Script>) -> Self {
        Self { tables, barriers: None, is_unbounded: false }
    }

    /// The same, with barriers at random places.
    pub fn with_barriers(mut self, seed: u64) -> Self {
        self.barriers = Some(seed);
        self
    }

    /// The same, declared as unbounded; they end all the same.
    pub fn unbounded(mut self) -> Self {
        self.is_unbounded = true;
        self
    }
}

impl Connector for Scripts {
    fn name(&self) -> &'static str {
        "script"
    }

    fn source(&self, table: &TableDefinition) -> Result<Box<dyn Source>> {
        let script = self.tables.get(&table.name).cloned().unwrap_or_else(|| vec![Vec::new()]);
        Ok(Box::new(ScriptSource {
            partitions: (0..script.len()).map(|number| format!("{number:04}")).collect(),
            script,
            columns: Arc::clone(&table.columns),
            barriers: self.barriers,
            is_bounded: !self.is_unbounded,
        }))
    }
}

struct ScriptSource {
    partitions: Vec<String>,
    script: Script,
    columns: SchemaRef,
    barriers: Option<u64>,
    is_bounded: bool,
}

struct ScriptReader {
    items: std::vec::IntoIter<Item>,
    ahead: Option<Item>,
    columns: SchemaRef,
    barriers: Option<StdRng>,
    waits: u32,
}

impl Source for ScriptSource {
    fn partitions(&self) -> &[String] {
        &self.partitions
    }

    fn is_bounded(&self) -> bool {
        self.is_bounded
    }

    fn open(&self, partition: usize, _: Host) -> Result<Box<dyn Reader>> {
        Ok(Box::new(ScriptReader {
            items: self.script[partition].clone().into_iter(),
            ahead: None,
            columns: Arc::clone(&self.columns),
            barriers: self.barriers.map(|seed| StdRng::seed_from_u64(seed ^ partition as u64)),
            waits: 0,
        }))
    }
}

impl Reader for ScriptReader {
    fn read(&mut self, rows: usize) -> Result<Read> {
        if let Some(random) = &mut self.barriers {
            // A source that sometimes has nothing must not change anything either.
            match random.random_range(0..6) {
                0 => return Ok(Read::Barrier),
                1 if self.waits < 20 => {
                    self.waits += 1;
                    return Ok(Read::Wait(Some(Instant::now() + Duration::from_micros(50))));
                }
                _ => {}
            }
        }
        let mut taken = Vec::new();
        while taken.len() < rows {
            match self.ahead.take().or_else(|| self.items.next()) {
                Some(Item::Row(fields)) => taken.push(fields),
                other => {
                    self.ahead = other;
                    break;
                }
            }
        }
        if !taken.is_empty() {
            return Ok(Read::Rows(columns_of(&self.columns, &taken)?));
        }
        Ok(match self.ahead.take() {
            Some(Item::Watermark(t)) => Read::Watermark(t),
            Some(Item::Idle) => Read::Idle,
            Some(Item::Silent) => {
                self.ahead = Some(Item::Silent);
                Read::Wait(None)
            }
            Some(Item::Row(_)) | None => Read::End,
        })
    }
}

/// Typed columns from text. A timestamp that is a plain number counts seconds from the epoch.
///
/// Errors: `Error::Data` for a field that does not read as its column's type.
pub fn columns_of(schema: &SchemaRef, rows: &[Vec<Option<String>>]) -> Result<RecordBatch> {
    let mut columns = Vec::new();
    for (number, field) in schema.fields().iter().enumerate() {
        let text = rows.iter().map(|row| row.get(number).cloned().flatten());
        let strings = match field.data_type() {
            DataType::Timestamp(..) => StringArray::from_iter(text.map(|field| field.map(|text| instant_text(&text)))),
            _ => StringArray::from_iter(text),
        };
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        columns.push(cast_with_options(&(Arc::new(strings) as ArrayRef), field.data_type(), &strict)?);
    }
    let count = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &count)?)
}

/// Reads an instant: ISO 8601, or seconds from the epoch.
///
/// Errors: `Error::Data` if it is neither.
pub fn instant(text: &str) -> Result<Timestamp> {
    let kind = DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None);
    let schema = Arc::new(arrow_schema::Schema::new(vec![arrow_schema::Field::new("t", kind, true)]));
    let batch = thalweg_core::Batch::new(columns_of(&schema, &[vec![Some(text.to_string())]])?);
    let times = batch.times(0)?;
    if times.is_empty() { Err(Error::data("no instant")) } else { Ok(Timestamp(times.value(0))) }
}

fn instant_text(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(seconds) => Timestamp((seconds * 1e6).round() as i64).to_string(),
        Err(_) => text.to_string(),
    }
}
