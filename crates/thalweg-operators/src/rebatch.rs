//! Puts rows into batches of equal size.

use arrow_schema::SchemaRef;
use thalweg_core::{
    Batch, Frontier, Held, KeyGroup, Operator, Output, Port, Progress, Result, Selection, Snapshot, State, Timestamp,
};

use crate::rows;

/// Puts rows into batches of `size` rows, in the order in which they come; the last batch of a stream may have fewer.
///
/// Rows wait until their batch is full, and time waits with them: a watermark passes when all rows that came before it have.
///
/// Shape:  any row → the same row.
/// State:  fewer than `size` rows.
pub struct Rebatch {
    size: usize,
    schema: SchemaRef,
    waiting: Vec<Batch>,
    waiting_rows: usize,
    /// How far time had come when the first of the waiting rows came.
    waits_since: Timestamp,
    reached: Timestamp,
}

const VERSION: u16 = 1;

impl Rebatch {
    /// Batches of so many rows, at least one.
    pub fn new(size: usize, schema: SchemaRef) -> Self {
        let size = size.max(1);
        let (waits_since, reached) = (Timestamp::MIN, Timestamp::MIN);
        Self { size, schema, waiting: Vec::new(), waiting_rows: 0, waits_since, reached }
    }

    fn wait(&mut self, batch: Batch) {
        if self.waiting_rows == 0 {
            self.waits_since = self.reached;
        }
        self.waiting_rows += batch.len();
        self.waiting.push(batch);
    }

    /// The first `rows` of the waiting rows as one batch.
    fn first(&mut self, rows: usize) -> Result<Batch> {
        let (mut taken, mut missing) = (Vec::new(), rows);
        let mut waiting = std::mem::take(&mut self.waiting).into_iter();
        while missing > 0
            && let Some(batch) = waiting.next()
        {
            let (head, tail) = halves(batch, missing);
            missing -= head.len();
            taken.push(head);
            self.waiting.extend(tail);
        }
        self.waiting.extend(waiting);
        self.waiting_rows -= rows;
        self.waits_since = self.reached;
        together(&self.schema, taken)
    }
}

/// The first `rows` rows of a batch, and the others.
fn halves(batch: Batch, rows: usize) -> (Batch, Option<Batch>) {
    if batch.len() <= rows {
        return (batch, None);
    }
    let all: Vec<u32> = batch.rows().map(|row| row as u32).collect();
    let (head, tail) = all.split_at(rows);
    let of = |rows: &[u32]| batch.clone().with_selection(Selection::new(rows.to_vec()));
    (of(head), Some(of(tail)))
}

/// One batch with the rows of several, and with the watermark that each met if one of them knows it.
fn together(schema: &SchemaRef, batches: Vec<Batch>) -> Result<Batch> {
    if let [only] = &batches[..] {
        return Ok(only.clone());
    }
    let columns = rows::together(schema, &batches)?;
    if batches.iter().all(|batch| batch.behind().is_none()) {
        return Ok(Batch::new(columns));
    }
    let met = batches
        .iter()
        .flat_map(|batch| batch.rows().map(|row| batch.behind().map_or(Timestamp::MIN, |behind| behind[row])));
    Ok(Batch::new(columns).with_behind(met.collect()))
}

impl Operator for Rebatch {
    fn on_batch(&mut self, _: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        self.wait(batch);
        self.resume(out)
    }

    fn on_time(&mut self, frontier: &Frontier, out: &mut Output) -> Result<Progress> {
        self.reached = frontier.combined();
        self.resume(out)
    }

    fn resume(&mut self, out: &mut Output) -> Result<Progress> {
        let is_over = self.reached == Timestamp::MAX;
        while self.waiting_rows >= self.size || (is_over && self.waiting_rows > 0) {
            if out.room() == 0 {
                out.hold(self.waits_since);
                return Ok(Progress::More);
            }
            let rows = self.waiting_rows.min(self.size);
            let batch = self.first(rows)?;
            out.emit(batch)?;
        }
        out.hold(if self.waiting_rows == 0 { self.reached } else { self.waits_since });
        Ok(Progress::Done)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Rebatch {
    fn save(&mut self, group: KeyGroup) -> Result<Snapshot> {
        if group != KeyGroup::FIRST {
            return Ok(Snapshot::default());
        }
        let mut snapshot = Snapshot::new(VERSION);
        snapshot.number(self.reached.0);
        snapshot.number(self.waits_since.0);
        rows::save(&self.waiting, &mut snapshot)?;
        Ok(snapshot)
    }

    fn load(&mut self, group: KeyGroup, snapshot: &Snapshot) -> Result<()> {
        if group == KeyGroup::FIRST {
            let mut snapshot = snapshot.read(VERSION)?;
            self.reached = Timestamp(snapshot.number()?);
            self.waits_since = Timestamp(snapshot.number()?);
            self.waiting = rows::load(&mut snapshot)?;
            self.waiting_rows = self.waiting.iter().map(Batch::len).sum();
        }
        Ok(())
    }

    fn forget(&mut self, group: KeyGroup) -> Result<()> {
        if group == KeyGroup::FIRST {
            self.waiting.clear();
            self.waiting_rows = 0;
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        rows::bytes(&self.waiting)
    }

    fn held(&self) -> Vec<Held> {
        let names = ["row that waits for its batch to fill", "rows that wait for their batch to fill"];
        if self.waiting_rows == 0 { Vec::new() } else { vec![Held::new(self.waiting_rows, names)] }
    }
}
