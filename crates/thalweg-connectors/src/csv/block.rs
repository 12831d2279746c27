//! Many records at once, as long as they are in the usual form: column by column.

use thalweg_memory::{
    kernels::fields::{Marks, field_ends},
    simd::Level,
};

use super::{Csv, header::Layout};
use crate::{
    columns::{
        Columns,
        block::{Texts, Value},
    },
    format::ahead::{Ahead, BLOCK},
};

/// How many bytes a record may have, where few are wanted.
const RECORD: usize = 256;

/// Takes records apart at once, where it can.
pub(super) struct Blocks {
    marks: Marks,
    comment: Option<u8>,
    ends: Vec<u32>,
    ahead: Ahead,
}

/// Records that were added as rows, in so many bytes with so many line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) bytes: usize,
    pub(super) lines: u64,
}

impl Blocks {
    /// For records of a dialect.
    pub(super) fn new(csv: &Csv) -> Self {
        let marks = Marks { delimiter: csv.delimiter, quote: csv.quote, escape: csv.escape };
        Self { marks, comment: csv.comment, ends: vec![0; BLOCK], ahead: Ahead::new() }
    }

    /// Lets every record go by itself.
    #[cfg(test)]
    pub(super) fn stop(&mut self) {
        self.ahead.stop();
    }

    /// Adds at most `rows` of the complete records that `unread` begins with; `None` if the next one is to go by itself.
    pub(super) fn take(
        &mut self,
        unread: &[u8],
        layout: &Layout,
        null: &[u8],
        columns: &mut Columns,
        rows: usize,
    ) -> Option<Taken> {
        let looked = &unread[..unread.len().min(self.ahead.look(rows, RECORD)?)];
        let found = field_ends(Level::best(), looked, self.marks, &mut self.ends);
        let usual = self.usual_rows(looked, found.ends, layout.width).min(rows);
        let ends = &self.ends[..usual * layout.width];
        let text = &looked[..ends.last().map_or(0, |end| *end as usize + 1)];
        let quote = self.marks.quote.filter(|_| found.has_quotes);
        let fields = Fields { text, ends, width: layout.width, index: 0, quote, null, is_ascii: text.is_ascii() };
        let added = columns.extend(usual, |column| Fields { index: layout.fields[column], ..fields });
        let bytes = (added * layout.width).checked_sub(1).map_or(0, |last| ends[last] as usize + 1);
        let is_all = added == usual && (added > 0 || memchr::memchr(b'\n', looked).is_none());
        self.ahead.took(added, bytes, is_all);
        let lines = || memchr::memchr_iter(b'\n', &text[..bytes]).count() as u64;
        (added > 0).then(|| Taken { bytes, lines: if quote.is_some() { lines() } else { added as u64 } })
    }

    /// How many records, from the first on, have as many fields as they should, and are no comments.
    fn usual_rows(&self, text: &[u8], ends: usize, width: usize) -> usize {
        let mut start = 0;
        for (row, ends) in self.ends[..ends].chunks_exact(width).enumerate() {
            let (last, others) = ends.split_last().expect("a record has a field");
            let end = *last as usize;
            let is_usual = text[end] == b'\n' && others.iter().all(|end| text[*end as usize] != b'\n');
            // A blank line is not a record, or one of its own kind.
            let is_blank = width == 1 && matches!(text[start..end], [] | [b'\r']);
            if !is_usual || is_blank || self.comment == Some(text[start]) {
                return row;
            }
            start = end + 1;
        }
        ends / width
    }
}

/// The fields of one column in consecutive records.
#[derive(Clone, Copy)]
struct Fields<'a> {
    /// The text of the records.
    text: &'a [u8],
    /// Where each field of each record ends; the next one begins one byte behind.
    ends: &'a [u32],
    /// How many fields a record has.
    width: usize,
    /// Which of them is the column's.
    index: usize,
    /// The byte around fields, if there is any in the text.
    quote: Option<u8>,
    /// What means null.
    null: &'a [u8],
    is_ascii: bool,
}

impl Texts for Fields<'_> {
    const ARE_JSON: bool = false;

    fn text(&self) -> &[u8] {
        self.text
    }

    fn is_ascii(&self) -> bool {
        self.is_ascii
    }

    #[inline(always)]
    fn value(&self, row: usize, is_text: bool) -> Value {
        let at = row * self.width + self.index;
        let mut start = if at == 0 { 0 } else { self.ends[at - 1] as usize + 1 };
        let mut end = self.ends[at] as usize;
        if self.index + 1 == self.width && end > start && self.text[end - 1] == b'\r' {
            end -= 1;
        }
        let mut is_bare = true;
        if let Some(quote) = self.quote
            && end > start
            && self.text[start] == quote
        {
            if end - start < 2 || self.text[end - 1] != quote {
                return Value::Unusual;
            }
            (start, end, is_bare) = (start + 1, end - 1, false);
        }
        let is_null = self.text[start..end] == *self.null;
        match if is_text { is_bare && is_null } else { start == end || is_null } {
            true => Value::Null,
            false => Value::Text { start, end, is_bare },
        }
    }
}
