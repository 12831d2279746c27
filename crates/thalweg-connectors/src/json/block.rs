//! Many lines at once, as long as they hold flat objects in the usual form: first all keys, then column by column.
//!
//! A kernel finds where members end. A key is then compared with the one that is expected there, and what remains is the place
//! of a value, which goes into its column as a field of CSV does. Whatever is unusual, malformed input first of all, ends the
//! block before its line, which goes by itself, and that decides.

use thalweg_memory::{kernels::members::member_ends, simd::Level};

use super::keys::{Keys, Names};
use crate::{
    columns::{
        Columns,
        block::{Texts, Value, is_scalar},
    },
    format::ahead::{Ahead, BLOCK},
};

/// How many bytes a line may have, where few are wanted.
const LINE: usize = 1024;

/// Takes lines apart at once, where it can.
pub(super) struct Blocks {
    ends: Vec<u32>,
    keys: Keys,
    /// The place of each column's value, line after line.
    places: Vec<Place>,
    ahead: Ahead,
}

/// Where a value begins and ends; it never begins at 0, which means that there is none.
#[derive(Clone, Copy, Default)]
struct Place {
    start: u32,
    end: u32,
}

/// Lines that were added as rows, in so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

impl Blocks {
    /// For objects whose members are columns of these names.
    pub(super) fn new(names: &Names) -> Self {
        Self { ends: vec![0; BLOCK], keys: Keys::new(names), places: Vec::new(), ahead: Ahead::new() }
    }

    /// Lets every line go by itself.
    #[cfg(test)]
    pub(super) fn stop(&mut self) {
        self.ahead.stop();
    }

    /// Adds at most `rows` of the complete lines that `unread` begins with; `None` if the next one is to go by itself.
    pub(super) fn take(&mut self, unread: &[u8], columns: &mut Columns, names: &Names, rows: usize) -> Option<Taken> {
        let text = &unread[..unread.len().min(self.ahead.look(rows, LINE)?)];
        let count = member_ends(Level::best(), text, &mut self.ends);
        let width = columns.each().len();
        let (usual, bytes) = self.find_values(text, count, names, width, rows);
        let lines = &text[..bytes];
        let values = Values { text: lines, places: &self.places, width, index: 0, is_ascii: lines.is_ascii() };
        let added = columns.extend(usual, |index| Values { index, ..values });
        let bytes = if added == usual { bytes } else { end_of_line(lines, added) };
        let is_all = added == usual && (added > 0 || memchr::memchr(b'\n', text).is_none());
        self.ahead.took(added, bytes, is_all);
        (added > 0).then_some(Taken { rows: added, bytes })
    }

    /// Finds the places of the values in at most `rows` lines, until one is unusual: how many lines, in how many bytes.
    fn find_values(&mut self, text: &[u8], count: usize, names: &Names, width: usize, rows: usize) -> (usize, usize) {
        self.places.clear();
        let (mut row, mut start, mut ends) = (0, 0, &self.ends[..count]);
        while row < rows {
            self.places.resize((row + 1) * width, Place::default());
            let places = &mut self.places[row * width..];
            match line(text, start, ends, &mut self.keys, names, places) {
                Some(count) => {
                    start = ends[count - 1] as usize + 1;
                    ends = &ends[count..];
                }
                None => break,
            }
            row += 1;
        }
        (row, start)
    }
}

/// Finds the places of the values in the line that begins at `start`, and says how many members it has; `None` if it is unusual
/// or not all there.
#[inline(always)]
fn line(
    text: &[u8],
    start: usize,
    ends: &[u32],
    keys: &mut Keys,
    names: &Names,
    places: &mut [Place],
) -> Option<usize> {
    if *text.get(start)? != b'{' {
        return None;
    }
    keys.begin();
    let mut begin = start + 1;
    for (i, end) in ends.iter().enumerate() {
        let behind = *end as usize;
        let is_last = text[behind] == b'\n';
        let mut end = behind;
        if is_last {
            end -= if text[end - 1] == b'\r' { 2 } else { 1 };
            if text[end] != b'}' {
                return None;
            }
        }
        let (column, start) = keys.find(text, begin, names)?;
        match column {
            Some(column) => {
                let place = &mut places[column];
                // Which of two counts is decided elsewhere.
                if place.start != 0 {
                    return None;
                }
                *place = Place { start: start as u32, end: end as u32 };
            }
            None => is_value(&text[start..end]).then_some(())?,
        }
        if is_last {
            return Some(i + 1);
        }
        begin = behind + 1;
    }
    None
}

/// Whether a value that nobody wants is one.
fn is_value(text: &[u8]) -> bool {
    match text {
        [b'"', .., b'"'] | b"null" => true,
        _ => is_scalar(text),
    }
}

/// Where so many lines end.
fn end_of_line(text: &[u8], lines: usize) -> usize {
    lines.checked_sub(1).and_then(|last| memchr::memchr_iter(b'\n', text).nth(last)).map_or(0, |end| end + 1)
}

/// The values of one column in consecutive lines.
#[derive(Clone, Copy)]
struct Values<'a> {
    text: &'a [u8],
    places: &'a [Place],
    /// How many columns there are.
    width: usize,
    /// Which of them it is.
    index: usize,
    is_ascii: bool,
}

impl Texts for Values<'_> {
    const ARE_JSON: bool = true;

    fn text(&self) -> &[u8] {
        self.text
    }

    fn is_ascii(&self) -> bool {
        self.is_ascii
    }

    #[inline(always)]
    fn value(&self, row: usize, _is_text: bool) -> Value {
        let Place { start, end } = self.places[row * self.width + self.index];
        let (start, end) = (start as usize, end as usize);
        if start == 0 {
            return Value::Null;
        }
        match self.text[start] {
            b'"' if end - start >= 2 && self.text[end - 1] == b'"' => {
                Value::Text { start: start + 1, end: end - 1, is_bare: false }
            }
            b'n' if self.text[start..end] == *b"null" => Value::Null,
            b'"' | b'n' => Value::Unusual,
            _ => Value::Text { start, end, is_bare: true },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{testing::table, text::write::tests::rows};

    /// How many rows are taken together, and all that are.
    fn taken(columns: &str, text: &str) -> (usize, Vec<String>) {
        let table = table(columns, "format=json");
        let mut columns = Columns::new(&table).unwrap();
        let names = Names::new(table.columns.fields().iter().map(|field| field.name().as_str()));
        let mut blocks = Blocks::new(&names);
        let taken = blocks.take(text.as_bytes(), &mut columns, &names, 4096).map_or(0, |taken| {
            assert_eq!(text.as_bytes()[taken.bytes - 1], b'\n', "lines are taken whole");
            taken.rows
        });
        (taken, rows(&columns.take().unwrap()))
    }

    #[test]
    fn the_usual_is_taken_together() {
        let text =
            "{\"a\":1,\"b\":\"x, y: z\"}\n{\"b\":null,\"c\":\"?\",\"a\":-2}\n{\"A\": 3}\r\n{\"b\":4.5, \"a\":4}\n";
        let expected = ["1 x, y: z", "-2 null", "3 null", "4 4.5"].map(String::from);
        assert_eq!(taken("a BIGINT, b STRING", text), (4, expected.to_vec()));
        let types = "{\"b\":true,\"d\":-1.5e3,\"t\":\"2013-01-01T10:15:00Z\",\"m\":2.345,\"y\":\"2013-01-01\"}\n";
        let columns = "b BOOLEAN, d DOUBLE, t TIMESTAMP, m DECIMAL, y DATE";
        assert_eq!(taken(columns, types).1, ["true -1500.0 2013-01-01T10:15:00Z 2.35 2013-01-01"]);
    }

    #[test]
    fn what_is_unusual_ends_what_is_taken() {
        for line in [
            "{}",
            "",
            "{\"a\":1",
            "{\"a\":1}x",
            "{\"a\":01}",
            "{\"a\":1.5}",
            "{\"a\":\"x\"}",
            "{\"a\":1,\"a\":2}",
            "{\"a\":1,\"A\":2}",
            "{\"b\":\"\\n\"}",
            "{\"b\":[1]}",
            "{\"b\":nil}",
            "{\"c\":[1]}",
            "{\"c\":tru}",
            "{\"c\" :1}",
            "[1]",
        ] {
            let text = format!("{{\"a\":1,\"b\":\"\"}}\n{line}\n{{\"a\":2}}\n");
            assert_eq!(taken("a BIGINT, b STRING", &text), (1, vec!["1 ".to_string()]), "{line}");
        }
        assert_eq!(taken("a BIGINT NOT NULL, b STRING", "{\"a\":1}\n{\"a\":null}\n").0, 1);
    }

    #[test]
    fn keys_that_never_come_again_are_not_kept() {
        let text: String = (0..200).map(|i| format!("{{\"key_{i}\":1,\"a\":{i}}}\n")).collect();
        let (rows, _) = taken("a BIGINT", &text);
        assert!((20..100).contains(&rows), "{rows} rows were taken together");
    }
}
