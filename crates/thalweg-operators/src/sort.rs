//! Sorts all rows of a bounded input.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{SchemaRef, SortOptions};
use arrow_select::take::take_record_batch;
use thalweg_core::{
    Batch, Error, Frontier, Held, KeyGroup, Operator, Output, Port, Progress, Result, Snapshot, State, Timestamp,
    expression::Expression,
};

use crate::rows;

/// Sorts all rows once the input has ended, and keeps the first `fetch`. Rows with equal keys are sorted by their content, so
/// that the order never depends on how rows arrived.
///
/// Shape:  any row → the same row.
/// State:  all rows until the end; with `fetch`, never many more than that. O(rows).
pub struct Sort {
    keys: Vec<(Arc<dyn Expression>, SortOptions)>,
    fetch: Option<usize>,
    schema: SchemaRef,
    waiting: Vec<Batch>,
    /// How many rows wait, and how many bytes of memory they take: there may be as many batches as rows.
    rows: usize,
    bytes: usize,
    sorted: Option<RecordBatch>,
    batch_rows: usize,
}

const VERSION: u16 = 1;
/// A top-k is cut back to k when this many more rows are waiting.
const SLACK: usize = 65_536;

impl Sort {
    /// A sort by these keys, most significant first, that emits batches of `batch_rows`.
    pub fn new(
        keys: Vec<(Arc<dyn Expression>, SortOptions)>,
        fetch: Option<usize>,
        schema: SchemaRef,
        batch_rows: usize,
    ) -> Self {
        Self { keys, fetch, schema, waiting: Vec::new(), rows: 0, bytes: 0, sorted: None, batch_rows }
    }

    /// These wait behind those that do.
    fn put(&mut self, batches: Vec<Batch>) {
        self.rows += batches.iter().map(Batch::len).sum::<usize>();
        self.bytes += rows::bytes(&batches);
        self.waiting.extend(batches);
    }

    /// All that wait, which do so no longer.
    fn take(&mut self) -> Vec<Batch> {
        (self.rows, self.bytes) = (0, 0);
        std::mem::take(&mut self.waiting)
    }

    fn sort(&mut self) -> Result<RecordBatch> {
        let waiting = self.take();
        let all = rows::together(&self.schema, &waiting)?;
        drop(waiting);
        if u32::try_from(all.num_rows()).is_err() {
            return Err(Error::query("ORDER BY over more than 4,294,967,295 rows").with_hint("add a LIMIT or a WHERE"));
        }
        let order = self.order(&all)?;
        Ok(take_record_batch(&all, &order)?)
    }

    /// The numbers of the first `fetch` rows in sorted order.
    fn order(&self, all: &RecordBatch) -> Result<UInt32Array> {
        let batch = Batch::new(all.clone());
        let mut columns: Vec<ArrayRef> = Vec::new();
        let mut fields = Vec::new();
        for (key, options) in &self.keys {
            columns.push(rows::canonical(&key.evaluate(&batch)?));
            fields.push(SortField::new_with_options(columns[columns.len() - 1].data_type().clone(), *options));
        }
        for (number, column) in all.columns().iter().enumerate() {
            // A column that is a key itself tells nothing more.
            if !self.keys.iter().any(|(key, _)| key.column() == Some(number)) {
                columns.push(rows::canonical(column));
                fields.push(SortField::new(column.data_type().clone()));
            }
        }
        // Floats may be equal and not the same, as −0.0 and 0.0 are.
        for column in all.columns().iter().filter(|column| column.data_type().is_floating()) {
            columns.push(Arc::clone(column));
            fields.push(SortField::new(column.data_type().clone()));
        }
        let encoded = RowConverter::new(fields)?.convert_columns(&columns)?;
        // Most rows are told apart by their first bytes, which lie side by side here.
        let mut order: Vec<(u64, u32)> =
            encoded.iter().zip(0..).map(|(row, number)| (prefix(row.as_ref()), number)).collect();
        let whole = |a: u32, b: u32| encoded.row(a as usize).cmp(&encoded.row(b as usize));
        order.sort_unstable_by(|(a, left), (b, right)| a.cmp(b).then_with(|| whole(*left, *right)));
        order.truncate(self.fetch.unwrap_or(usize::MAX));
        Ok(order.into_iter().map(|(_, row)| row).collect::<Vec<_>>().into())
    }
}

/// The first bytes of a row, as a number that is ordered as they are.
fn prefix(row: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = row.len().min(8);
    bytes[..length].copy_from_slice(&row[..length]);
    u64::from_be_bytes(bytes)
}

impl Operator for Sort {
    fn on_batch(&mut self, _: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        out.hold(Timestamp::MIN);
        self.put(vec![batch]);
        if self.fetch.is_some_and(|fetch| self.rows > fetch.saturating_add(SLACK)) {
            let first = self.sort()?;
            self.put(vec![Batch::new(first)]);
        }
        Ok(Progress::Done)
    }

    fn on_time(&mut self, frontier: &Frontier, out: &mut Output) -> Result<Progress> {
        if frontier.combined() < Timestamp::MAX {
            out.hold(Timestamp::MIN);
            return Ok(Progress::Done);
        }
        out.hold(Timestamp::MAX);
        self.sorted = Some(self.sort()?);
        self.resume(out)
    }

    fn resume(&mut self, out: &mut Output) -> Result<Progress> {
        while let Some(sorted) = self.sorted.take_if(|sorted| sorted.num_rows() > 0) {
            if out.room() == 0 {
                self.sorted = Some(sorted);
                return Ok(Progress::More);
            }
            let rows = sorted.num_rows().min(self.batch_rows);
            out.emit(Batch::new(sorted.slice(0, rows)))?;
            self.sorted = Some(sorted.slice(rows, sorted.num_rows() - rows));
        }
        Ok(Progress::Done)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Sort {
    fn save(&mut self, group: KeyGroup) -> Result<Snapshot> {
        if group != KeyGroup::FIRST {
            return Ok(Snapshot::default());
        }
        let mut snapshot = Snapshot::new(VERSION);
        rows::save(&self.waiting, &mut snapshot)?;
        Ok(snapshot)
    }

    fn load(&mut self, group: KeyGroup, snapshot: &Snapshot) -> Result<()> {
        if group == KeyGroup::FIRST {
            self.take();
            self.put(rows::load(&mut snapshot.read(VERSION)?)?);
        }
        Ok(())
    }

    fn forget(&mut self, group: KeyGroup) -> Result<()> {
        if group == KeyGroup::FIRST {
            self.take();
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes + self.sorted.as_ref().map_or(0, RecordBatch::get_array_memory_size)
    }

    fn held(&self) -> Vec<Held> {
        let sorted = self.sorted.as_ref().map_or(0, RecordBatch::num_rows);
        match (self.rows, sorted) {
            (0, 0) => Vec::new(),
            (0, rows) => vec![Held::new(rows, ["sorted row", "sorted rows"])],
            (rows, _) => vec![Held::new(rows, ["row that waits to be sorted", "rows that wait to be sorted"])],
        }
    }
}
