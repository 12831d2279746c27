//! One sender, with an open page for each receiver.

use std::sync::Arc;

use arrow_array::RecordBatch;
use thalweg_core::{Error, Result};
use thalweg_memory::{
    page::{
        Page,
        layout::{LARGEST, RowLayout, SMALLEST},
        rows::{Lengths, Picked, Rows},
        source::Source,
        staging::Staging,
    },
    pool::Pool,
};

use super::{choice::Walk, order::Order, own::OwnPage};
use crate::route::Destinations;

/// The sending end of an exchange.
///
/// Pages begin small and grow where many rows go, so that a thousand partitions cost what their rows do. A page leaves when it is
/// full, or when all are sealed. Rows of one partition keep their order.
///
/// Source: the shuffle thesis, sections 3.4.2 (buffers) and 3.5.3 (a histogram for each batch), for one thread, which needs no lock.
pub struct Outbox {
    pages: Pages,
    buffers: Option<Buffers>,
    pending: Option<Pending>,
    /// 0, 1, 2 … for batches of which all rows are meant.
    all: Vec<u32>,
    /// Whether no row is in it.
    is_empty: bool,
}

struct Pages {
    layout: Arc<RowLayout>,
    pool: Pool,
    partitions: Vec<OwnPage>,
}

/// Where rows wait before they go into a page.
struct Buffers {
    staging: Staging,
    /// How many rows of the buffer that is being emptied are in pages.
    emptied: usize,
}

/// What was begun, and waits for room.
enum Pending {
    /// The rows of a batch, partition by partition; of this partition so many are in pages.
    Hybrid { source: Source, order: Order, partition: usize, done: usize },
    /// The rows of a batch and their partitions, as they came; so many are in buffers.
    Buffered { source: Source, rows: Vec<u32>, partitions: Vec<u32>, done: usize },
    /// All pages are to be closed.
    Seal,
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

/// Whether what was begun is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is.
    Done,
    /// The pool has no room: [`Outbox::resume`] goes on when it has. All open pages were sealed, full or not: senders that wait
    /// with pages open could wait for each other for ever.
    NoRoom,
}

impl Outbox {
    /// An outbox for so many partitions of rows of a layout.
    ///
    /// Errors: `Error::Environment` if there is no memory for buffers.
    pub fn new(layout: Arc<RowLayout>, pool: Pool, partitions: usize, sizes: Sizes, walk: Walk) -> Result<Self> {
        let buffers = match walk {
            Walk::Hybrid => None,
            Walk::Buffered { bytes } => {
                let staging = Staging::new(Arc::clone(&layout), partitions, bytes, false)?;
                Some(Buffers { staging, emptied: 0 })
            }
        };
        let partitions = (0..partitions).map(|_| OwnPage::new(sizes)).collect();
        let pages = Pages { layout, pool, partitions };
        Ok(Self { pages, buffers, pending: None, all: Vec::new(), is_empty: true })
    }

    /// Whether no row is in it.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Takes in the selected rows of a batch (`None` is all); pages that become full are appended to `full` with their partition.
    ///
    /// Errors: `Error::Bug` if the columns are not the layout's, or something waits for room; `Error::Environment` for a row that is
    /// too long for any page.
    pub fn scatter(
        &mut self,
        batch: &RecordBatch,
        selected: Option<&[u32]>,
        destinations: Destinations,
        full: &mut Vec<(u32, Page)>,
    ) -> Result<Progress> {
        if self.pending.is_some() {
            return Err(Error::bug("an outbox takes one batch after the other"));
        }
        self.is_empty = false;
        let Some(buffers) = &mut self.buffers else {
            let order = Order::new(selected, &destinations, self.pages.partitions.len());
            let source = Source::new(&self.pages.layout, batch)?;
            self.pending = Some(Pending::Hybrid { source, order, partition: 0, done: 0 });
            return self.resume(full);
        };
        let known = self.all.len() as u32;
        self.all.extend(known..batch.num_rows() as u32);
        let rows = selected.unwrap_or(&self.all[..batch.num_rows()]);
        let source = Source::new(&self.pages.layout, batch)?;
        // What is not finished keeps its rows; most batches need not be copied for that.
        let mut put = |rows: &[u32], partitions: &[u32]| buffers.put(&mut self.pages, &source, rows, partitions, full);
        let (rows, partitions, done) = match destinations {
            Destinations::One(partitions) => {
                let done = put(rows, &partitions)?;
                let rows = if done < rows.len() { rows.to_vec() } else { Vec::new() };
                (rows, partitions, done)
            }
            lines => {
                let (rows, partitions) = lines.each(rows);
                let done = put(&rows, &partitions)?;
                (rows, partitions, done)
            }
        };
        let is_short = done < partitions.len();
        self.pending = is_short.then_some(Pending::Buffered { source, rows, partitions, done });
        Ok(self.progress(full))
    }

    /// Goes on with what waits for room.
    ///
    /// Errors: as [`Outbox::scatter`].
    pub fn resume(&mut self, full: &mut Vec<(u32, Page)>) -> Result<Progress> {
        let pages = &mut self.pages;
        self.pending = match self.pending.take() {
            None => None,
            Some(Pending::Hybrid { source, order, mut partition, mut done }) => loop {
                if partition == order.partitions() {
                    break None;
                }
                let rows = order.of_partition(partition);
                done += pages.fill(partition, Picked { source: &source, rows: &rows[done..] }, full)?;
                if done < rows.len() {
                    break Some(Pending::Hybrid { source, order, partition, done });
                }
                (partition, done) = (partition + 1, 0);
            },
            Some(Pending::Buffered { source, rows, partitions, mut done }) => {
                if let Some(buffers) = &mut self.buffers {
                    done += buffers.put(pages, &source, &rows[done..], &partitions[done..], full)?;
                }
                (done < rows.len()).then_some(Pending::Buffered { source, rows, partitions, done })
            }
            Some(Pending::Seal) => {
                let is_done = self.buffers.as_mut().map_or(Ok(true), |buffers| buffers.empty_all(pages, full))?;
                self.is_empty = is_done;
                if is_done {
                    pages.close(full);
                }
                (!is_done).then_some(Pending::Seal)
            }
        };
        Ok(self.progress(full))
    }

    /// Closes all pages that have rows, as a watermark or a barrier asks for; what comes later goes into new ones.
    ///
    /// Errors: as [`Outbox::scatter`].
    pub fn seal(&mut self, sealed: &mut Vec<(u32, Page)>) -> Result<Progress> {
        match self.pending {
            Some(_) => return Err(Error::bug("an outbox is sealed when all rows of a batch are in it")),
            None if self.is_empty => return Ok(Progress::Done),
            None => self.pending = Some(Pending::Seal),
        }
        self.resume(sealed)
    }

    fn progress(&mut self, full: &mut Vec<(u32, Page)>) -> Progress {
        if self.pending.is_none() {
            return Progress::Done;
        }
        self.pages.close(full);
        Progress::NoRoom
    }
}

impl Pages {
    /// Puts rows into pages; returns how many there was room for.
    fn fill<R: Rows + Copy>(&mut self, partition: usize, rows: R, full: &mut Vec<(u32, Page)>) -> Result<usize> {
        self.partitions[partition].fill(&self.layout, &self.pool, rows, |page| {
            full.push((partition as u32, page));
            Ok(())
        })
    }

    fn close(&mut self, closed: &mut Vec<(u32, Page)>) {
        for (number, partition) in (0..).zip(&mut self.partitions) {
            closed.extend(partition.close(&self.layout).map(|page| (number, page.finish())));
        }
    }
}

impl Buffers {
    /// Puts rows into buffers, and what is in a full one into a page; returns how many of the rows there was room for.
    fn put(
        &mut self,
        pages: &mut Pages,
        source: &Source,
        rows: &[u32],
        partitions: &[u32],
        full: &mut Vec<(u32, Page)>,
    ) -> Result<usize> {
        let mut done = 0;
        loop {
            done += self.staging.put(&Picked { source, rows: &rows[done..] }, &partitions[done..]);
            let Some(partition) = partitions.get(done).map(|partition| *partition as usize) else { return Ok(done) };
            if !self.empty(pages, partition, full)? {
                return Ok(done);
            }
            if self.staging.is_long(source.tail(rows[done] as usize)) {
                // It would take more than buffers may.
                match pages.fill(partition, Picked { source, rows: &rows[done..done + 1] }, full)? {
                    0 => return Ok(done),
                    written => done += written,
                }
            }
        }
    }

    /// Puts what is in a buffer into pages; returns whether there was room for all.
    fn empty(&mut self, pages: &mut Pages, partition: usize, full: &mut Vec<(u32, Page)>) -> Result<bool> {
        let rows = self.staging.waiting(partition).behind(self.emptied);
        let put = pages.fill(partition, rows, full)?;
        if put < rows.len() {
            self.emptied += put;
            return Ok(false);
        }
        self.staging.clear(partition);
        self.emptied = 0;
        Ok(true)
    }

    fn empty_all(&mut self, pages: &mut Pages, full: &mut Vec<(u32, Page)>) -> Result<bool> {
        // The one that was being emptied is the first that has any.
        for partition in 0..self.staging.partitions() {
            if !self.staging.waiting(partition).is_empty() && !self.empty(pages, partition, full)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
