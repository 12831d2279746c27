//! Many records at once, as long as they are in the usual form: column by column.

use thalweg_memory::{
    kernels::fields::{Marks, field_ends},
    simd::Level,
};

use super::{Csv, header::Layout};
use crate::columns::{
    Columns,
    block::{Fields, Unusual},
};

/// How many bytes are looked at together: they stay in the nearest cache.
const BLOCK: usize = 16 << 10;

/// How many records go one by one after one that is not in the usual form, so that looking ahead in vain costs little.
const PAUSE: usize = 8;

/// Takes records apart at once, where it can.
pub(super) struct Blocks {
    marks: Marks,
    comment: Option<u8>,
    ends: Vec<u32>,
    /// How many records are to go one by one.
    pause: usize,
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
        Self { marks, comment: csv.comment, ends: vec![0; BLOCK], pause: 0 }
    }

    /// Lets every record go by itself.
    #[cfg(test)]
    pub(super) fn stop(&mut self) {
        self.pause = usize::MAX;
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
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        // A batch of few rows must not look far ahead each time.
        let text = &unread[..unread.len().min(BLOCK).min(rows.saturating_mul(256))];
        let found = field_ends(Level::best(), text, self.marks, &mut self.ends);
        let rows = self.usual_rows(text, found.ends, layout.width).min(rows);
        if rows == 0 {
            self.pause = PAUSE;
            return None;
        }
        let ends = &self.ends[..rows * layout.width];
        let text = &text[..ends[ends.len() - 1] as usize + 1];
        let is_ascii = text.is_ascii();
        let quote = self.marks.quote.filter(|_| found.has_quotes);
        let fields = Fields { text, ends, width: layout.width, index: 0, quote, null, is_ascii };
        let added = columns
            .each()
            .iter_mut()
            .zip(&layout.fields)
            .try_for_each(|(column, index)| column.extend(&Fields { index: *index, ..fields }));
        match added {
            Ok(()) => {
                columns.commit_many(rows);
                Some(Taken { bytes: text.len(), lines: memchr::memchr_iter(b'\n', text).count() as u64 })
            }
            Err(Unusual) => {
                columns.roll_back();
                self.pause = rows;
                None
            }
        }
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
