//! A table that grows with its rows: the header stands once, columns get wider when a value needs it, nothing is cut off.
//!
//! ```text
//!  origin │ flights
//! ────────┼─────────
//!  EWR    │      12
//! ```

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema};
use thalweg_connectors::Cells;
use thalweg_core::{Progress, Result};
use unicode_width::UnicodeWidthStr;

use super::write;

const NULL: &str = "NULL";

/// Writes rows as a table.
pub struct TableWriter<W> {
    writer: W,
    layout: Layout,
    has_header: bool,
}

impl<W: Write> TableWriter<W> {
    /// A table, in which colours may tell what is a value and what is not.
    pub fn new(writer: W, has_colour: bool) -> Self {
        Self { writer, layout: Layout { columns: vec![], has_colour }, has_header: false }
    }

    /// Names the columns. The header waits for the first rows, which say how wide they are.
    pub fn begin(&mut self, schema: &Schema, is_first: bool) -> Result<Progress> {
        self.layout.columns =
            schema.fields().iter().map(|field| Column::new(field.name(), field.data_type())).collect();
        write(&mut self.writer, if is_first { b"" } else { b"\n" })
    }

    /// Writes rows. [`Progress::Finished`]: nobody reads any more.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<Progress> {
        let columns = rows.columns().iter().map(texts).collect::<Result<Vec<_>>>()?;
        self.layout.widen(&columns);
        let mut text = self.header();
        (0..rows.num_rows()).for_each(|row| self.layout.row(&columns, row, &mut text));
        write(&mut self.writer, text.as_bytes())
    }

    /// There are no more rows: the header stands alone if there were none.
    pub fn finish(&mut self) -> Result<Progress> {
        let text = self.header();
        write(&mut self.writer, text.as_bytes())
    }

    /// The header, the first time.
    fn header(&mut self) -> String {
        let mut text = String::new();
        if !std::mem::replace(&mut self.has_header, true) {
            self.layout.header(&mut text);
        }
        text
    }
}

/// How columns stand.
struct Layout {
    columns: Vec<Column>,
    has_colour: bool,
}

struct Column {
    name: String,
    is_number: bool,
    width: usize,
}

impl Column {
    fn new(name: &str, data_type: &DataType) -> Self {
        let name = printable(name);
        Self { width: name.width(), name, is_number: data_type.is_numeric() }
    }
}

impl Layout {
    fn widen(&mut self, columns: &[Vec<Option<String>>]) {
        for (column, texts) in self.columns.iter_mut().zip(columns) {
            let widest = texts.iter().map(|text| text.as_deref().unwrap_or(NULL).width()).max();
            column.width = column.width.max(widest.unwrap_or(0));
        }
    }

    fn header(&self, out: &mut String) {
        self.line(out, |column| (column.name.as_str(), "\x1b[1m"));
        let rules: Vec<_> = self.columns.iter().map(|column| "─".repeat(column.width + 2)).collect();
        *out += self.dim();
        *out += &rules.join("┼");
        *out += self.plain();
        out.push('\n');
    }

    fn row(&self, columns: &[Vec<Option<String>>], row: usize, out: &mut String) {
        let mut columns = columns.iter();
        self.line(out, |_| match columns.next().and_then(|texts| texts[row].as_deref()) {
            Some(text) => (text, ""),
            None => (NULL, self.dim()),
        });
    }

    /// One line of the table: for each column a text and its style.
    fn line<'a>(&'a self, out: &mut String, mut cell: impl FnMut(&'a Column) -> (&'a str, &'a str)) {
        for (i, column) in self.columns.iter().enumerate() {
            if i > 0 {
                *out += &format!("{}│{}", self.dim(), self.plain());
            }
            let (text, style) = cell(column);
            let (style, plain) = if self.has_colour && !style.is_empty() { (style, self.plain()) } else { ("", "") };
            let blanks = " ".repeat(column.width - text.width());
            let is_last = i + 1 == self.columns.len();
            match column.is_number {
                true => *out += &format!(" {blanks}{style}{text}{plain}"),
                false if is_last => *out += &format!(" {style}{text}{plain}"),
                false => *out += &format!(" {style}{text}{plain}{blanks}"),
            }
            *out += if is_last { "\n" } else { " " };
        }
    }

    fn dim(&self) -> &'static str {
        if self.has_colour { "\x1b[2m" } else { "" }
    }

    fn plain(&self) -> &'static str {
        if self.has_colour { "\x1b[0m" } else { "" }
    }
}

/// A column's values as text; null is none.
fn texts(column: &arrow_array::ArrayRef) -> Result<Vec<Option<String>>> {
    let cells = Cells::new(column)?;
    let mut bytes = Vec::new();
    let text = |row| {
        if cells.is_null(row) {
            return Ok(None);
        }
        bytes.clear();
        cells.write(row, &mut bytes)?;
        Ok(Some(printable(&String::from_utf8_lossy(&bytes))))
    };
    (0..column.len()).map(text).collect()
}

/// The text with escapes for what would break the table or speak to the terminal.
fn printable(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_string();
    }
    text.chars()
        .map(|letter| if letter.is_control() { letter.escape_default().to_string() } else { letter.into() })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};

    use super::*;

    fn batch(words: &[Option<&str>], numbers: &[Option<i64>]) -> RecordBatch {
        let words: ArrayRef = Arc::new(StringArray::from(words.to_vec()));
        let numbers: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        RecordBatch::try_from_iter([("word", words), ("n", numbers)]).unwrap()
    }

    fn table(batches: &[RecordBatch], has_colour: bool) -> String {
        let mut table = TableWriter::new(Vec::new(), has_colour);
        table.begin(&batches[0].schema(), true).unwrap();
        batches.iter().for_each(|batch| assert_eq!(table.write(batch).unwrap(), Progress::Done));
        table.finish().unwrap();
        String::from_utf8(table.writer).unwrap()
    }

    #[test]
    fn numbers_stand_right_and_the_header_stands_once() {
        let batches = [batch(&[Some("a"), None], &[Some(1), Some(200)]), batch(&[Some("longer")], &[None])];
        assert_eq!(
            table(&batches, false),
            " word │   n\n\
             ──────┼─────\n a    │   1\n NULL │ 200\n longer │ NULL\n"
        );
    }

    #[test]
    fn a_table_without_rows_is_its_header() {
        assert_eq!(table(&[batch(&[], &[])], false), " word │ n\n──────┼───\n");
    }

    #[test]
    fn a_table_without_columns_is_empty_lines() {
        let mut table = TableWriter::new(Vec::new(), false);
        table.begin(&Schema::empty(), false).unwrap();
        table.finish().unwrap();
        assert_eq!(table.writer, b"\n\n");
    }

    #[test]
    fn widths_are_those_on_the_screen_and_control_letters_are_escaped() {
        let column: ArrayRef = Arc::new(StringArray::from(vec!["日本", "é", "a\n\u{1b}[2J"]));
        let numbers: ArrayRef = Arc::new(Float64Array::from(vec![1.5, -0.25, 1e300]));
        let rows = RecordBatch::try_from_iter([("name", column), ("x", numbers)]).unwrap();
        assert_eq!(
            table(&[rows], false),
            " name         │     x\n\
             ──────────────┼───────\n \
             日本         │   1.5\n \
             é            │ -0.25\n \
             a\\n\\u{1b}[2J │ 1e300\n"
        );
    }

    #[test]
    fn with_colours_null_is_not_the_word() {
        let text = table(&[batch(&[Some("NULL"), None], &[Some(1), Some(2)])], true);
        assert!(text.contains(" NULL "), "{text:?}");
        assert!(text.contains(" \x1b[2mNULL\x1b[0m "), "{text:?}");
    }
}
