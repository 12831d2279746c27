//! CSV to columns.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use thalweg_core::{Result, connector::TableDefinition};

use super::{
    Csv,
    block::{Blocks, Taken},
    cut::cut,
    header::{Layout, is_header},
    split::{Next, Record, Splitter, line_length},
};
use crate::{
    columns::Columns,
    format::{
        BATCH_BYTES, Decoded, Decoder,
        bad_rows::BadRows,
        window::{RECORD_LIMIT, Window},
    },
    text::shown,
};

/// Decodes the records of one input.
pub(crate) struct CsvDecoder {
    csv: Csv,
    table: TableDefinition,
    splitter: Splitter,
    blocks: Blocks,
    header: Option<bool>,
    layout: Option<Layout>,
    schema: SchemaRef,
    rows: Rows,
    bad: BadRows,
    batch_bytes: usize,
    is_discarding: bool,
}

impl CsvDecoder {
    /// A decoder of a table's rows.
    pub(crate) fn new(csv: &Csv, table: &TableDefinition, input: &str) -> Result<Self> {
        Ok(Self {
            csv: csv.clone(),
            table: table.clone(),
            splitter: Splitter::new(csv),
            blocks: Blocks::new(csv),
            header: csv.header,
            layout: None,
            schema: table.columns.clone(),
            rows: Rows { columns: Columns::new(table)?, null: csv.null.clone().into_bytes() },
            bad: BadRows::new(&table.options, input)?,
            batch_bytes: 0,
            is_discarding: false,
        })
    }

    /// The same, but one record after the other.
    #[cfg(test)]
    pub(crate) fn one_by_one(mut self) -> Self {
        self.blocks.stop();
        self
    }

    fn consume(&mut self, window: &mut Window, bytes: usize, lines: u64) {
        self.batch_bytes += bytes;
        window.consume(bytes, lines);
    }

    /// Takes records from the beginning of the window on, if they can be taken together.
    fn block(&mut self, window: &Window, rows: usize) -> Option<Taken> {
        let Rows { columns, null } = &mut self.rows;
        let rows = rows - columns.len();
        self.blocks.take(window.unread(), self.layout.as_ref()?, null, columns, rows)
    }

    /// Takes the record at the beginning of the window.
    #[inline]
    fn record(&mut self, window: &Window) -> Result<()> {
        let record = self.splitter.record(window.unread());
        if self.layout.is_none() {
            let by_position = Layout::by_position(self.schema.fields().len());
            let has_header = match self.header {
                Some(has_header) => has_header,
                None => is_header(&record, &self.schema, self.rows.fits(&record, &by_position)),
            };
            if has_header {
                self.layout = Some(Layout::by_name(&record, &self.schema, self.bad.input())?);
                return Ok(());
            }
            self.layout = Some(by_position);
        }
        let layout = self.layout.as_ref().expect("was just set");
        match self.rows.push(&record, layout) {
            Ok(()) => Ok(()),
            Err(what) => {
                self.rows.columns.roll_back();
                self.bad.add(window.line(), &what)
            }
        }
    }

    /// Takes a line with nothing on it, which is a null where there is one column.
    fn blank(&mut self, window: &Window) -> Result<()> {
        let width = match &self.layout {
            Some(layout) => layout.width,
            None if self.header == Some(false) => self.schema.fields().len(),
            None => return Ok(()),
        };
        if width == 1 { self.record(window) } else { Ok(()) }
    }

    /// What messages call a field.
    fn place(&self, field: usize) -> String {
        let column = self.layout.as_ref().and_then(|layout| layout.fields.iter().position(|place| *place == field));
        match column {
            Some(column) => place(self.schema.field(column).name(), field),
            None => format!("field {}", field + 1),
        }
    }

    /// A record that cannot be read to its end: the first line of it is dropped.
    fn drop_line(&mut self, window: &mut Window, what: &str) -> Result<()> {
        self.bad.add(window.line(), what)?;
        self.is_discarding = true;
        self.discard(window);
        Ok(())
    }

    /// Goes on dropping a line that is longer than the window.
    fn discard(&mut self, window: &mut Window) {
        let unread = window.unread();
        let line = line_length(unread, window.has_ended());
        let (length, lines) = (line.unwrap_or(unread.len()), u64::from(line.is_some()));
        self.is_discarding = line.is_none();
        window.consume(length, lines);
    }
}

impl Decoder for CsvDecoder {
    fn decode(&mut self, window: &mut Window, rows: usize) -> Result<Decoded> {
        loop {
            if self.rows.columns.len() >= rows || (self.batch_bytes >= BATCH_BYTES && self.rows.columns.len() > 0) {
                return Ok(Decoded::Full);
            }
            if self.is_discarding {
                self.discard(window);
                if self.is_discarding {
                    return Ok(Decoded::Hungry);
                }
            }
            if let Some(Taken { bytes, lines }) = self.block(window, rows) {
                self.consume(window, bytes, lines);
                continue;
            }
            match self.splitter.next(window.unread(), window.has_ended()) {
                Next::Record { length, .. } if length > RECORD_LIMIT => self.drop_line(window, TOO_LONG)?,
                Next::Record { length, lines } => {
                    self.record(window)?;
                    self.consume(window, length, lines);
                }
                Next::Blank { length } => {
                    self.blank(window)?;
                    self.consume(window, length, 1);
                }
                Next::Comment { length } => self.consume(window, length, 1),
                Next::Incomplete if window.unread().len() > RECORD_LIMIT => self.drop_line(window, TOO_LONG)?,
                Next::Unterminated { .. } if window.unread().len() > RECORD_LIMIT => {
                    self.drop_line(window, TOO_LONG)?
                }
                Next::Unterminated { field } => {
                    let what = format!("{}: a quote is opened and not closed before the end", self.place(field));
                    self.drop_line(window, &what)?;
                }
                Next::Stray { length, .. } if length > RECORD_LIMIT => self.drop_line(window, TOO_LONG)?,
                Next::Stray { field, .. } => {
                    let what = format!(
                        "{}: text follows the closing quote of {}; a quote inside of quotes is doubled",
                        self.place(field),
                        shown(self.splitter.last_text())
                    );
                    self.drop_line(window, &what)?;
                }
                Next::Incomplete | Next::End => return Ok(Decoded::Hungry),
            }
        }
    }

    fn take(&mut self) -> Result<RecordBatch> {
        self.batch_bytes = 0;
        self.rows.columns.take()
    }

    fn bad_rows(&self) -> u64 {
        self.bad.count()
    }

    fn fork(&self) -> Result<Option<Box<dyn Decoder>>> {
        if self.layout.is_none() || self.is_discarding {
            return Ok(None);
        }
        let other = Self::new(&self.csv, &self.table, self.bad.input())?;
        Ok(Some(Box::new(Self { layout: self.layout.clone(), ..other })))
    }

    fn cut(&self, bytes: &[u8]) -> Option<usize> {
        cut(&self.csv, bytes)
    }
}

const TOO_LONG: &str = "the record is longer than 16 MiB; is a quote not closed?";

fn place(column: &str, field: usize) -> String {
    format!("column \"{column}\" (field {})", field + 1)
}

/// Rows in the making, and what means null in them.
struct Rows {
    columns: Columns,
    null: Vec<u8>,
}

impl Rows {
    /// Adds a record as a row, or says what is wrong with it.
    #[inline]
    fn push(&mut self, record: &Record<'_>, layout: &Layout) -> Result<(), String> {
        self.fill(record, layout)?;
        self.columns.commit();
        Ok(())
    }

    /// Whether a record could be a row.
    fn fits(&mut self, record: &Record<'_>, layout: &Layout) -> bool {
        let fits = self.fill(record, layout).is_ok();
        self.columns.roll_back();
        fits
    }

    /// Puts a value into each column, or says what is wrong with one.
    #[inline]
    fn fill(&mut self, record: &Record<'_>, layout: &Layout) -> Result<(), String> {
        if record.len() != layout.width {
            let fields = if record.len() == 1 { "field" } else { "fields" };
            return Err(format!("{} {fields}, expected {}", record.len(), layout.width));
        }
        for (column, &index) in self.columns.each().iter_mut().zip(&layout.fields) {
            let (text, is_quoted) = record.field(index);
            let is_null =
                if column.is_text() { !is_quoted && text == self.null } else { text.is_empty() || text == self.null };
            let pushed = if is_null { column.push_null() } else { column.push(text) };
            if let Err(wrong) = pushed {
                let what = column.describe(wrong, text);
                return Err(format!("{}: {what}", place(column.name(), index)));
            }
        }
        Ok(())
    }
}
