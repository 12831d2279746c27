//! Rows whose results may change, with the results that were last given.

use arrow_array::{ArrayRef, RecordBatch};
use thalweg_core::Result;

use super::super::{
    entry::{At, Entry},
    index::runs::{Row, Runs},
    kept::Kept,
};

/// Rows whose results may change.
#[derive(Default)]
pub struct Answers {
    runs: Runs<Answered>,
    /// The aggregates that were last given.
    given: Kept,
}

/// A row whose result may change.
#[derive(Clone, Copy, Debug)]
struct Answered {
    base: Entry,
    /// Where the aggregates lie that were last given for it.
    given: At,
    /// Whether they may have changed, and nobody has looked yet.
    is_stale: bool,
}

impl Row for Answered {
    fn entry(&self) -> &Entry {
        &self.base
    }

    fn entry_mut(&mut self) -> &mut Entry {
        &mut self.base
    }
}

impl Answers {
    /// Marks the rows of a key with a time in some spans of which both ends are included, which ascend and do not overlap, and appends those
    /// that were not marked before.
    pub fn mark(&mut self, key: u32, spans: impl Iterator<Item = (i64, i64)>, found: &mut Vec<Entry>) {
        self.runs.change_between(key, spans, |row| {
            if !std::mem::replace(&mut row.is_stale, true) {
                found.push(row.base);
            }
        });
    }

    /// The time of the last row of a key.
    pub fn last(&self, key: u32) -> Option<i64> {
        self.runs.last(key).map(|row| row.base.time)
    }

    /// Where the aggregates lie that were last given for each row, if some were. They are not marked any more.
    pub fn given(&mut self, bases: &[Entry]) -> Vec<Option<At>> {
        let runs = &mut self.runs;
        if runs.rows() == 0 {
            return vec![None; bases.len()];
        }
        let given = bases.iter().enumerate().map(|(number, base)| {
            runs.prefetch(|ahead| Some(bases.get(number + ahead)?.key));
            let row = runs.get(base)?;
            row.is_stale = false;
            Some(row.given)
        });
        given.collect()
    }

    /// The row of a key with this time and position, if its result may change, and where the aggregates lie that were last given for it.
    pub fn find(&self, key: u32, time: i64, position: i64) -> Option<(Entry, At)> {
        // Rows of one time came in the order of their positions, unless several partitions have some.
        let sorted = |rows: &&[Answered]| rows.binary_search_by_key(&position, |row| row.base.position).ok();
        let of_time = || self.runs.between(key, time, time);
        let found = of_time().find_map(|rows| sorted(&rows).map(|row| &rows[row]));
        let found = found.or_else(|| of_time().flatten().find(|row| row.base.position == position));
        found.map(|row| (row.base, row.given))
    }

    /// Asks for the memory where rows will be put that were not answered before.
    pub fn prefetch(&self, bases: &[Entry]) {
        self.runs.prefetch_places(bases);
    }

    /// One of the aggregates that were last given.
    pub fn gather(&self, column: usize, rows: &[At]) -> Result<ArrayRef> {
        self.given.gather(column, rows)
    }

    /// Keeps the aggregates that are given for some rows, in place of those that were given before.
    pub fn put(&mut self, bases: &[Entry], columns: Vec<ArrayRef>) {
        if bases.is_empty() {
            return;
        }
        let batch = self.given.keep(columns, bases.len());
        for (base, row) in bases.iter().zip(0..) {
            self.runs.prefetch(|ahead| Some(bases.get(row as usize + ahead)?.key));
            let before = self.runs.put(Answered { base: *base, given: At { batch, row }, is_stale: false });
            let Some(before) = before else { continue };
            self.given.release(before.given);
            // What it was marked for is still to be looked at.
            if before.is_stale
                && let Some(row) = self.runs.get(base)
            {
                row.is_stale = true;
            }
        }
    }

    /// So many rows have come, with those that are not put here: what time has passed is dropped the sooner.
    pub fn pass(&mut self, rows: usize) {
        self.runs.pass(rows);
    }

    /// Drops rows with a time before `end`: nothing changes their results any more. `gone` is told where each lies.
    pub fn expire(&mut self, end: i64, mut gone: impl FnMut(At)) {
        let Self { runs, given } = self;
        runs.expire(end, |row| {
            given.release(row.given);
            gone(row.base.at);
        });
    }

    /// Drops the rows of the keys for which `is_gone` is true; `gone` is told where each lies.
    pub fn forget(&mut self, is_gone: impl Fn(u32) -> bool, mut gone: impl FnMut(At)) {
        let Self { runs, given } = self;
        runs.forget(is_gone, |row| {
            given.release(row.given);
            gone(row.base.at);
        });
    }

    /// Gives each key its new number.
    pub fn renumber(&mut self, moved: &[u32]) {
        self.runs.renumber(moved);
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.runs.iter().map(|row| &row.base)
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.runs.rows()
    }

    /// The aggregates, of which there are so many, that were last given for the rows of some keys, in the order of where these lie;
    /// `None` if there are none.
    pub fn saved(&self, is_wanted: impl Fn(u32) -> bool, aggregates: usize) -> Result<Option<RecordBatch>> {
        let mut rows: Vec<&Answered> = self.runs.iter().filter(|row| is_wanted(row.base.key)).collect();
        if rows.is_empty() || aggregates == 0 {
            return Ok(None);
        }
        rows.sort_by_key(|row| row.base.at);
        let given: Vec<At> = rows.iter().map(|row| row.given).collect();
        let columns = (0..aggregates).map(|column| Ok((column.to_string(), self.gather(column, &given)?, true)));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(Some(RecordBatch::try_from_iter_with_nullable(columns)?))
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        self.runs.bytes() + self.given.bytes()
    }
}
