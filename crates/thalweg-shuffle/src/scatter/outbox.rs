//! One sender, with an open page for each receiver.

use std::sync::Arc;

use arrow_array::RecordBatch;
use thalweg_core::{Error, Result};
use thalweg_memory::{
    page::{
        Page,
        layout::{LARGEST, RowLayout, SMALLEST},
        rows::Picked,
        source::Source,
        writer::{Growth, PageWriter},
    },
    pool::Pool,
};

use super::order::Order;
use crate::route::Destinations;

/// The sending end of an exchange: a histogram for each batch, then the rows of each partition behind each other into its page,
/// column by column.
///
/// Pages begin small and grow where many rows go, so that a thousand partitions cost what their rows do. A page leaves when it is
/// full, or when it is sealed. Rows of one partition keep their order.
///
/// Source: the hybrid partitioning of the shuffle thesis (section 3.5.3) for one thread, which needs no lock.
pub struct Outbox {
    layout: Arc<RowLayout>,
    pool: Pool,
    partitions: Vec<Partition>,
    pending: Option<Pending>,
}

struct Partition {
    growth: Growth,
    open: Option<PageWriter>,
}

/// A batch of which not all rows are in pages yet.
struct Pending {
    batch: RecordBatch,
    order: Order,
    partition: usize,
    /// How many rows of the partition are in pages.
    done: usize,
}

/// How large pages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The first page of a partition, in bytes.
    pub smallest: usize,
    /// The largest.
    pub largest: usize,
}

impl Sizes {
    /// The sizes that a budget gives to each of so many senders with so many receivers: all may have a page open, and as many may
    /// be on their way.
    pub fn within(budget: usize, senders: usize, receivers: usize) -> Self {
        let each = budget / (senders * receivers * 2).max(1);
        // A power of two, so that blocks have no rest.
        let largest = if each >= LARGEST { LARGEST } else { (each + 1).next_power_of_two() / 2 };
        Self { smallest: SMALLEST, largest: largest.max(SMALLEST) }
    }
}

/// Whether all rows are in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All are.
    Done,
    /// The pool has no room: [`Outbox::resume`] goes on when it has. All open pages were sealed, full or not: senders that wait
    /// with pages open could wait for each other for ever.
    NoRoom,
}

impl Outbox {
    /// An outbox for so many partitions of rows of a layout.
    pub fn new(layout: Arc<RowLayout>, pool: Pool, partitions: usize, sizes: Sizes) -> Self {
        let partition = |_| Partition { growth: Growth::new(sizes.smallest, sizes.largest), open: None };
        Self { layout, pool, partitions: (0..partitions).map(partition).collect(), pending: None }
    }

    /// Puts the selected rows of a batch (`None` is all) into pages; those that become full are appended to `full` with their
    /// partition.
    ///
    /// Errors: `Error::Bug` if the columns are not the layout's, or another batch is waiting; `Error::Environment` for a row that is
    /// too long for any page.
    pub fn scatter(
        &mut self,
        batch: &RecordBatch,
        selected: Option<&[u32]>,
        destinations: &Destinations,
        full: &mut Vec<(u32, Page)>,
    ) -> Result<Progress> {
        if self.pending.is_some() {
            return Err(Error::bug("an outbox takes one batch after the other"));
        }
        let order = Order::new(selected, destinations, self.partitions.len());
        self.pending = Some(Pending { batch: batch.clone(), order, partition: 0, done: 0 });
        self.resume(full)
    }

    /// Goes on with the batch for which there was no room.
    pub fn resume(&mut self, full: &mut Vec<(u32, Page)>) -> Result<Progress> {
        let Some(mut pending) = self.pending.take() else { return Ok(Progress::Done) };
        let batch = pending.batch.clone();
        let source = Source::new(&self.layout, &batch)?;
        while pending.partition < pending.order.partitions() {
            let rows = pending.order.of_partition(pending.partition);
            let partition = &mut self.partitions[pending.partition];
            pending.done += partition.fill(&self.layout, &self.pool, &source, &rows[pending.done..], |page| {
                full.push((pending.partition as u32, page));
            })?;
            if pending.done < rows.len() {
                self.pending = Some(pending);
                self.seal(full);
                return Ok(Progress::NoRoom);
            }
            (pending.partition, pending.done) = (pending.partition + 1, 0);
        }
        Ok(Progress::Done)
    }

    /// Closes all pages that have rows, as a watermark or a barrier asks for; what comes later goes into new ones.
    pub fn seal(&mut self, sealed: &mut Vec<(u32, Page)>) {
        for (number, partition) in (0..).zip(&mut self.partitions) {
            if let Some(writer) = partition.open.take_if(|writer| writer.rows() > 0) {
                partition.growth.closed(&self.layout, writer.rows(), writer.tail_bytes(), false);
                sealed.push((number, writer.finish()));
            }
        }
    }
}

impl Partition {
    /// Puts rows into pages; returns how many there was room for.
    fn fill(
        &mut self,
        layout: &Arc<RowLayout>,
        pool: &Pool,
        source: &Source<'_>,
        rows: &[u32],
        mut full: impl FnMut(Page),
    ) -> Result<usize> {
        let mut done = 0;
        while done < rows.len() {
            let writer = match &mut self.open {
                Some(writer) => writer,
                None => match self.growth.open(layout, pool, source.tail(rows[done] as usize))? {
                    Some(writer) => self.open.insert(writer),
                    None => return Ok(done),
                },
            };
            done += writer.append(&Picked { source, rows: &rows[done..] });
            if done < rows.len()
                && let Some(writer) = self.open.take()
            {
                self.growth.closed(layout, writer.rows(), writer.tail_bytes(), true);
                full(writer.finish());
            }
        }
        Ok(done)
    }
}
