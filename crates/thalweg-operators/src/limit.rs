//! Passes some rows only, then wants nothing more.

use thalweg_core::{Batch, KeyGroup, Operator, Output, Port, Progress, Result, Selection, Snapshot, State};

/// Drops `skip` rows, passes `fetch`, and then says that nothing more is wanted.
///
/// Shape:  any row → the same row, or none. Nothing is copied.
/// State:  how many rows are still to be dropped and passed.
pub struct Limit {
    skip: usize,
    fetch: usize,
}

const VERSION: u16 = 1;

impl Limit {
    /// A limit; `None` passes all rows behind the dropped ones.
    pub fn new(skip: usize, fetch: Option<usize>) -> Self {
        Self { skip, fetch: fetch.unwrap_or(usize::MAX) }
    }
}

impl Operator for Limit {
    fn on_batch(&mut self, _: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        let skipped = self.skip.min(batch.len());
        let passed = self.fetch.min(batch.len() - skipped);
        self.skip -= skipped;
        self.fetch -= if self.fetch == usize::MAX { 0 } else { passed };
        let rows = batch.rows().skip(skipped).take(passed).map(|row| row as u32).collect();
        out.emit(batch.with_selection(Selection::new(rows)))?;
        Ok(if self.fetch == 0 { Progress::Finished } else { Progress::Done })
    }

    fn wants_nothing(&self) -> bool {
        self.fetch == 0
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Limit {
    fn save(&mut self, group: KeyGroup) -> Result<Snapshot> {
        if group != KeyGroup::FIRST {
            return Ok(Snapshot::default());
        }
        let mut snapshot = Snapshot::new(VERSION);
        snapshot.number(self.skip as i64);
        snapshot.number(self.fetch as i64);
        Ok(snapshot)
    }

    fn load(&mut self, group: KeyGroup, snapshot: &Snapshot) -> Result<()> {
        if group == KeyGroup::FIRST {
            let mut snapshot = snapshot.read(VERSION)?;
            self.skip = snapshot.number()? as usize;
            self.fetch = snapshot.number()? as usize;
        }
        Ok(())
    }

    fn forget(&mut self, group: KeyGroup) -> Result<()> {
        if group == KeyGroup::FIRST {
            (self.skip, self.fetch) = (0, 0);
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int32Array, RecordBatch};

    use super::*;

    fn batch(rows: i32) -> Batch {
        let column = Arc::new(Int32Array::from_iter_values(0..rows)) as ArrayRef;
        Batch::new(RecordBatch::try_from_iter([("a", column)]).unwrap())
    }

    fn passed(limit: &mut Limit, rows: i32) -> (Vec<usize>, Progress) {
        let mut out = Output::new(100);
        let progress = limit.on_batch(0, batch(rows), &mut out).unwrap();
        (out.take(0).iter().flat_map(|(_, batch)| batch.rows().collect::<Vec<_>>()).collect(), progress)
    }

    #[test]
    fn skips_then_passes_then_finishes() {
        let mut limit = Limit::new(2, Some(3));
        assert_eq!(passed(&mut limit, 1), (vec![], Progress::Done));
        assert_eq!(passed(&mut limit, 3), (vec![1, 2], Progress::Done));
        assert_eq!(passed(&mut limit, 3), (vec![0], Progress::Finished));
        assert_eq!(passed(&mut limit, 3), (vec![], Progress::Finished));
    }

    #[test]
    fn goes_on_where_its_snapshot_was_taken() {
        let mut limit = Limit::new(2, Some(3));
        passed(&mut limit, 3);
        let snapshot = limit.save(KeyGroup::FIRST).unwrap();
        let mut other = Limit::new(2, Some(3));
        other.load(KeyGroup::FIRST, &snapshot).unwrap();
        assert_eq!(passed(&mut other, 3), (vec![0, 1], Progress::Finished));
        let mut unlimited = Limit::new(1, None);
        assert_eq!(passed(&mut unlimited, 3), (vec![1, 2], Progress::Done));
        assert_eq!(passed(&mut unlimited, 1), (vec![0], Progress::Done));
    }
}
