//! A table that grows with its rows: the header stands once, columns get wider when a value needs it, nothing is cut off.
//! Rows that are wider than the screen stand one below the other, as records.
//!
//! ```text
//!  origin │ flights        ─ row 1 ─┬─────────────────────
//! ────────┼─────────        origin  │ EWR
//!  EWR    │      12        flights │ 12
//! ```

use std::io::Write;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema;
use thalweg_connectors::Cells;
use thalweg_core::{Progress, Result};

use super::{
    layout::{Column, Layout, Texts},
    write,
};

/// Where a table is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    /// Whether colours may tell what is a value and what is not.
    pub has_colour: bool,
    /// How many columns the screen has, if it is one.
    pub screen: Option<usize>,
}

/// Writes rows as a table.
pub struct TableWriter<W> {
    writer: W,
    layout: Layout,
    shape: Shape,
    screen: Option<usize>,
}

/// How rows stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// The first rows will tell.
    Unknown,
    /// Each on a line, below a header.
    Lines,
    /// Each value on a line; so many rows have been.
    Records(u64),
}

impl<W: Write> TableWriter<W> {
    /// A table that looks like this.
    pub fn new(writer: W, looks: Looks) -> Self {
        let layout = Layout { columns: vec![], has_colour: looks.has_colour };
        Self { writer, layout, shape: Shape::Unknown, screen: looks.screen }
    }

    /// Names the columns. The header waits for the first rows, which say how wide they are.
    pub fn begin(&mut self, schema: &Schema, is_first: bool) -> Result<Progress> {
        self.layout.columns =
            schema.fields().iter().map(|field| Column::new(field.name(), field.data_type())).collect();
        write(&mut self.writer, if is_first { b"" } else { b"\n" })
    }

    /// Writes rows. [`Progress::Finished`]: nobody reads any more.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<Progress> {
        if rows.num_rows() == 0 {
            return Ok(Progress::Done);
        }
        let columns = rows.columns().iter().map(texts).collect::<Result<Vec<_>>>()?;
        self.layout.widen(&columns);
        let mut text = String::new();
        self.decide(&mut text);
        for row in 0..rows.num_rows() {
            match &mut self.shape {
                Shape::Records(number) => {
                    *number += 1;
                    self.layout.record(&columns, row, *number, &mut text);
                }
                _ => self.layout.row(&columns, row, &mut text),
            }
        }
        write(&mut self.writer, text.as_bytes())
    }

    /// There are no more rows: the header stands alone if there were none.
    pub fn finish(&mut self) -> Result<Progress> {
        let mut text = String::new();
        if self.shape == Shape::Unknown {
            self.layout.header(&mut text);
        }
        write(&mut self.writer, text.as_bytes())
    }

    /// Decides how rows stand, the first time; a header is written where they stand on lines.
    fn decide(&mut self, text: &mut String) {
        if self.shape != Shape::Unknown {
            return;
        }
        let is_too_wide = self.screen.is_some_and(|screen| self.layout.width() > screen);
        self.shape = match is_too_wide && self.layout.columns.len() > 1 {
            true => Shape::Records(0),
            false => Shape::Lines,
        };
        if self.shape == Shape::Lines {
            self.layout.header(text);
        }
    }
}

/// A column's values as text; null is none.
fn texts(column: &ArrayRef) -> Result<Texts> {
    let cells = Cells::new(column)?;
    let mut bytes = Vec::new();
    let text = |row| {
        if cells.is_null(row) {
            return Ok(None);
        }
        bytes.clear();
        cells.write(row, &mut bytes)?;
        Ok(Some(super::layout::printable(&String::from_utf8_lossy(&bytes))))
    };
    (0..column.len()).map(text).collect()
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

    fn table(batches: &[RecordBatch], looks: Looks) -> String {
        let mut table = TableWriter::new(Vec::new(), looks);
        table.begin(&batches[0].schema(), true).unwrap();
        batches.iter().for_each(|batch| assert_eq!(table.write(batch).unwrap(), Progress::Done));
        table.finish().unwrap();
        String::from_utf8(table.writer).unwrap()
    }

    #[test]
    fn numbers_stand_right_and_the_header_stands_once() {
        let batches = [batch(&[Some("a"), None], &[Some(1), Some(200)]), batch(&[Some("longer")], &[None])];
        assert_eq!(
            table(&batches, Looks::default()),
            " word │   n\n\
             ──────┼─────\n a    │   1\n NULL │ 200\n longer │ NULL\n"
        );
    }

    #[test]
    fn a_table_without_rows_is_its_header() {
        assert_eq!(table(&[batch(&[], &[])], Looks::default()), " word │ n\n──────┼───\n");
    }

    #[test]
    fn a_table_without_columns_is_empty_lines() {
        let mut table = TableWriter::new(Vec::new(), Looks::default());
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
            table(&[rows], Looks::default()),
            " name         │     x\n\
             ──────────────┼───────\n \
             日本         │   1.5\n \
             é            │ -0.25\n \
             a\\n\\u{1b}[2J │ 1e300\n"
        );
    }

    #[test]
    fn with_colours_null_is_not_the_word() {
        let text =
            table(&[batch(&[Some("NULL"), None], &[Some(1), Some(2)])], Looks { has_colour: true, screen: None });
        assert!(text.contains(" NULL "), "{text:?}");
        assert!(text.contains(" \x1b[2mNULL\x1b[0m "), "{text:?}");
    }

    #[test]
    fn rows_wider_than_the_screen_are_records() {
        let batches = [batch(&[Some("a word"), None], &[Some(1), Some(200)]), batch(&[Some("b")], &[None])];
        let on = |width| table(&batches, Looks { has_colour: false, screen: Some(width) });
        let rule = "─".repeat(30);
        assert_eq!(
            on(12),
            format!(
                "─ row 1 ──┬{rule}\n word     │ a word\n n        │ 1\n\
                 ─ row 2 ──┬{rule}\n word     │ NULL\n n        │ 200\n\
                 ─ row 3 ──┬{rule}\n word     │ b\n n        │ NULL\n"
            )
        );
        assert!(on(13).starts_with(" word   │   n\n"), "{}", on(13));
    }
}
