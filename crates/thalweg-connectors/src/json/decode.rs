//! JSON lines to columns.

use std::borrow::Cow;

use arrow_array::RecordBatch;
use thalweg_core::{Result, connector::TableDefinition, error::lower_first};

use super::{
    block::Blocks,
    keys::Names,
    object::{Members, walk},
};
use crate::{
    columns::{Column, Columns},
    format::{
        BATCH_BYTES, Decoded, Decoder,
        bad_rows::BadRows,
        window::{RECORD_LIMIT, Window},
    },
    text::{Wrong, shown},
};

/// Decodes the objects of one input.
pub(crate) struct JsonDecoder {
    table: TableDefinition,
    blocks: Blocks,
    row: Row,
    bad: BadRows,
    batch_bytes: usize,
    is_discarding: bool,
}

impl JsonDecoder {
    /// A decoder of a table's rows.
    pub(crate) fn new(table: &TableDefinition, input: &str) -> Result<Self> {
        let bad = BadRows::new(&table.options, input)?;
        let row = Row::new(table)?;
        let blocks = Blocks::new(&row.names);
        Ok(Self { table: table.clone(), blocks, row, bad, batch_bytes: 0, is_discarding: false })
    }

    /// The same, but one line after the other.
    #[cfg(test)]
    pub(crate) fn one_by_one(mut self) -> Self {
        self.blocks.stop();
        self
    }

    /// Takes lines from the beginning of the window on, if they can be taken together.
    fn block(&mut self, window: &mut Window, rows: usize) -> bool {
        if self.is_discarding {
            return false;
        }
        let columns = &mut self.row.columns;
        let rows = rows - columns.len();
        let Some(taken) = self.blocks.take(window.unread(), columns, &self.row.names, rows) else { return false };
        self.batch_bytes += taken.bytes;
        window.consume(taken.bytes, taken.rows as u64);
        true
    }

    /// Takes the line at the beginning of the window, if all of it is there.
    fn line(&mut self, window: &mut Window) -> Result<bool> {
        let unread = window.unread();
        let end = memchr::memchr(b'\n', unread);
        let (length, lines) = match end {
            Some(end) => (end + 1, 1),
            None if window.has_ended() || unread.len() > RECORD_LIMIT => (unread.len(), 0),
            None => return Ok(false),
        };
        let line = unread[..end.unwrap_or(length)].trim_ascii();
        if self.is_discarding {
            self.is_discarding = end.is_none();
        } else if length > RECORD_LIMIT {
            self.is_discarding = end.is_none();
            self.bad.add(window.line(), "the line is longer than 16 MiB")?;
        } else if !line.is_empty()
            && let Err(what) = self.row.push(line)
        {
            self.row.columns.roll_back();
            self.bad.add(window.line(), &what)?;
        }
        self.batch_bytes += length;
        window.consume(length, lines);
        Ok(length > 0)
    }
}

impl Decoder for JsonDecoder {
    fn decode(&mut self, window: &mut Window, rows: usize) -> Result<Decoded> {
        loop {
            let len = self.row.columns.len();
            if len >= rows || (self.batch_bytes >= BATCH_BYTES && len > 0) {
                return Ok(Decoded::Full);
            }
            if !self.block(window, rows) && !self.line(window)? {
                return Ok(Decoded::Hungry);
            }
        }
    }

    fn take(&mut self) -> Result<RecordBatch> {
        self.batch_bytes = 0;
        self.row.columns.take()
    }

    fn bad_rows(&self) -> u64 {
        self.bad.count()
    }

    fn fork(&self) -> Result<Option<Box<dyn Decoder>>> {
        if self.is_discarding {
            return Ok(None);
        }
        Ok(Some(Box::new(Self::new(&self.table, self.bad.input())?)))
    }

    fn cut(&self, bytes: &[u8]) -> Option<usize> {
        memchr::memrchr(b'\n', bytes).map(|end| end + 1)
    }
}

/// A row in the making.
struct Row {
    columns: Columns,
    names: Names,
    /// How well the key of each column's value matched, in this row.
    matches: Vec<Match>,
    /// The match of the key that was found last.
    found: Match,
    wrong: Option<String>,
}

/// How well a key matches a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    None,
    AnyCase,
    Exact,
}

impl Row {
    fn new(table: &TableDefinition) -> Result<Self> {
        let names = table.columns.fields().iter().map(|field| field.name().as_str());
        Ok(Self {
            columns: Columns::new(table)?,
            matches: vec![Match::None; names.len()],
            names: Names::new(names),
            found: Match::None,
            wrong: None,
        })
    }

    /// Adds an object as a row, or says what is wrong with it.
    fn push(&mut self, line: &[u8]) -> Result<(), String> {
        self.matches.fill(Match::None);
        walk(line, self).map_err(|error| self.wrong.take().unwrap_or_else(|| not_json(&error, line)))?;
        for (column, found) in self.columns.each().iter_mut().zip(&self.matches) {
            if *found == Match::None {
                column.push_null().map_err(|wrong| in_column(column, wrong, b""))?;
            }
        }
        self.columns.commit();
        Ok(())
    }
}

impl Members for Row {
    fn find(&mut self, key: &str) -> Option<usize> {
        let (column, found) = match self.names.exact(key) {
            Some(column) => (column, Match::Exact),
            None => (self.names.any_case(key)?, Match::AnyCase),
        };
        self.found = found;
        (found >= self.matches[column]).then_some(column)
    }

    fn take(&mut self, number: usize, json: &[u8]) -> Result<(), ()> {
        let rows = self.columns.len();
        let column = &mut self.columns.each()[number];
        if self.matches[number] != Match::None {
            column.truncate(rows);
        }
        self.matches[number] = self.found;
        push_json(column, json).map_err(|wrong| self.wrong = Some(in_column(column, wrong, json)))
    }
}

/// Adds a value from its JSON text.
fn push_json(column: &mut Column, json: &[u8]) -> Result<(), Wrong> {
    match json[0] {
        b'n' => column.push_null(),
        b'"' => column.push(&unescaped(json).ok_or(Wrong::Utf8)?),
        b'{' | b'[' if !column.is_text() => Err(Wrong::Type),
        _ if column.is_binary() => Err(Wrong::Type),
        _ => column.push(json),
    }
}

/// The characters of a JSON string, if its escapes make any.
fn unescaped(json: &[u8]) -> Option<Cow<'_, [u8]>> {
    match memchr::memchr(b'\\', json) {
        None => Some(Cow::Borrowed(&json[1..json.len() - 1])),
        Some(_) => serde_json::from_slice(json).ok().map(|text: String| Cow::Owned(text.into_bytes())),
    }
}

fn in_column(column: &Column, wrong: Wrong, json: &[u8]) -> String {
    let json = json.strip_prefix(b"\"").and_then(|json| json.strip_suffix(b"\"")).unwrap_or(json);
    format!("column \"{}\": {}", column.name(), column.describe(wrong, json))
}

/// `serde_json`'s message, which counts lines within the line.
fn not_json(error: &serde_json::Error, line: &[u8]) -> String {
    let place = format!("not a JSON object, at character {}", error.column());
    match line.first() {
        Some(b'[') => "an array, expected one object per line".to_string(),
        Some(b'{') if error.is_eof() => format!("{place}: the object is not closed on its line"),
        Some(b'{') => {
            let message = error.to_string();
            let message = message.rsplit_once(" at line ").map_or(&*message, |(message, _)| message);
            format!("{place}: {}", lower_first(message))
        }
        _ => format!("{} is not a JSON object", shown(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_show_where_a_line_is_broken() {
        let message = |line: &[u8]| not_json(&walk(line, &mut Nothing).unwrap_err(), line);
        assert_eq!(message(br#"{"a":1,}"#), "not a JSON object, at character 8: trailing comma");
        assert_eq!(message(b"[1]"), "an array, expected one object per line");
        assert_eq!(message(b"{"), "not a JSON object, at character 1: the object is not closed on its line");
        assert_eq!(message(b"12"), "\"12\" is not a JSON object");
    }

    struct Nothing;

    impl Members for Nothing {
        fn find(&mut self, _: &str) -> Option<usize> {
            None
        }

        fn take(&mut self, _: usize, _: &[u8]) -> Result<(), ()> {
            Ok(())
        }
    }
}
