//! What becomes of a row.

use std::{collections::VecDeque, sync::Arc};

use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_schema::SchemaRef;
use thalweg_core::{Batch, Output, Result};

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// It is there.
    Insert,
    /// It was so.
    Before,
    /// It is so now.
    After,
    /// It is not there after all.
    Delete,
}

impl Op {
    /// The one that is written so.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Insert, Self::Before, Self::After, Self::Delete].into_iter().find(|op| op.word() == word)
    }

    /// How it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Insert => "+I",
            Self::Before => "-U",
            Self::After => "+U",
            Self::Delete => "-D",
        }
    }
}

/// Rows that go out as soon as there is room for them.
#[derive(Default)]
pub struct Outbox {
    batches: VecDeque<Batch>,
    /// What becomes of rows of which each is there: of as many as there ever were in a batch.
    inserts: Option<StringArray>,
}

impl Outbox {
    /// Puts rows of these columns behind those that are there, in batches of so many, each row with what becomes of it. What a row was and
    /// what it is are in one batch, though it may have one more.
    pub fn put(&mut self, columns: Vec<ArrayRef>, ops: &[Op], output: &SchemaRef, batch_rows: usize) -> Result<()> {
        let words = Arc::new(words(ops.iter().copied()));
        self.divide(columns, words, output, batch_rows, |row| ops[row] == Op::Before)
    }

    /// The same of so many rows of which each is there, and was not.
    pub fn put_new(
        &mut self,
        columns: Vec<ArrayRef>,
        rows: usize,
        output: &SchemaRef,
        batch_rows: usize,
    ) -> Result<()> {
        let before = self.inserts.take().filter(|words| words.len() >= rows);
        let inserts = before.unwrap_or_else(|| words(std::iter::repeat_n(Op::Insert, rows)));
        let some = inserts.slice(0, rows);
        self.inserts = Some(inserts);
        self.divide(columns, Arc::new(some), output, batch_rows, |_| false)
    }

    fn divide(
        &mut self,
        mut columns: Vec<ArrayRef>,
        ops: ArrayRef,
        output: &SchemaRef,
        batch_rows: usize,
        is_first_of_two: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let rows = ops.len();
        columns.push(ops);
        let all = RecordBatch::try_new(Arc::clone(output), columns)?;
        let mut first = 0;
        while first < rows {
            let mut end = (first + batch_rows.max(1)).min(rows);
            end += usize::from(is_first_of_two(end - 1) && end < rows);
            self.batches.push_back(Batch::new(all.slice(first, end - first)));
            first = end;
        }
        Ok(())
    }

    /// Puts out what there is room for; whether that was all.
    pub fn send(&mut self, out: &mut Output) -> Result<bool> {
        while out.room() > 0 {
            let Some(batch) = self.batches.pop_front() else { break };
            out.emit(batch)?;
        }
        Ok(self.batches.is_empty())
    }
}

fn words(ops: impl Iterator<Item = Op>) -> StringArray {
    StringArray::from_iter_values(ops.map(Op::word))
}
