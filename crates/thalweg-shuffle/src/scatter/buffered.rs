//! Rows wait in small buffers of their thread until it pays to visit a page.

use std::sync::Arc;

use thalweg_core::Result;
use thalweg_memory::{
    page::{
        layout::RowLayout,
        rows::{Lengths, Picked, Rows},
        shared::Padded,
        staging::Staging,
    },
    sync::Mutex,
};

use super::{
    manager::{Outlet, PageManager},
    ordered::{around, seal},
    work::{Scatter, Work},
};

/// Software-managed buffers: each thread collects a few rows of each partition, and takes them to the partition's page together.
///
/// Source: the shuffle thesis, section 3.4.2.
pub struct Buffered {
    pages: PageManager,
    threads: usize,
    buffers: Vec<Padded<Mutex<Staging>>>,
    is_batched: bool,
}

/// How buffers are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// How many bytes those of all threads take together.
    pub bytes: usize,
    /// Whether what leaves them goes past the caches.
    pub past_caches: bool,
}

impl Buffers {
    /// The buffers of one of so many threads.
    ///
    /// Errors: `Error::Environment` if there is no memory for them.
    pub fn of_thread(self, layout: &Arc<RowLayout>, partitions: usize, threads: usize) -> Result<Staging> {
        Staging::new(Arc::clone(layout), partitions, (self.bytes / threads).max(1), self.past_caches)
    }
}

impl Buffered {
    /// For so many threads. What is in a buffer is reserved at once if it is batched, and row by row if not.
    ///
    /// Errors: `Error::Environment` if there is no memory for the buffers.
    pub fn new(
        pages: PageManager,
        layout: &Arc<RowLayout>,
        threads: usize,
        buffers: Buffers,
        is_batched: bool,
    ) -> Result<Self> {
        let partitions = pages.partitions();
        let buffer = |_| Ok(Padded(Mutex::new(buffers.of_thread(layout, partitions, threads)?)));
        let buffers = (0..threads).map(buffer).collect::<Result<_>>()?;
        Ok(Self { pages, threads, buffers, is_batched })
    }

    fn empty(&self, buffers: &mut Staging, partition: u32, outlet: &dyn Outlet) -> Result<()> {
        let rows = buffers.waiting(partition as usize);
        if self.is_batched {
            self.pages.put(partition, rows, outlet)?;
        } else {
            (0..rows.len()).try_for_each(|row| self.pages.put(partition, rows.behind(row).first(1), outlet))?;
        }
        buffers.clear(partition as usize);
        Ok(())
    }
}

/// Puts rows into buffers, each into that of its partition; those that are full are emptied.
pub(super) fn stage(
    buffers: &mut Staging,
    mut rows: Picked<'_>,
    mut partitions: &[u32],
    mut empty: impl FnMut(&mut Staging, u32) -> Result<()>,
) -> Result<()> {
    loop {
        let taken = buffers.put(&rows, partitions);
        (rows, partitions) = (rows.behind(taken), &partitions[taken..]);
        match partitions.first() {
            Some(full) if !buffers.waiting(*full as usize).is_empty() => empty(buffers, *full)?,
            Some(_) => {}
            None => return Ok(()),
        }
        if buffers.is_long(rows.tail(0)) {
            let taken = buffers.put_long(&rows, partitions);
            (rows, partitions) = (rows.behind(taken), &partitions[taken..]);
        }
    }
}

impl Scatter for Buffered {
    fn steps(&self, work: &Work<'_>) -> usize {
        if work.is_flush { 2 } else { 1 }
    }

    fn step(&self, step: usize, thread: usize, work: &Work<'_>, outlet: &dyn Outlet) -> Result<()> {
        if step == 1 {
            return seal(&self.pages, thread, self.threads, outlet);
        }
        let mut buffers = self.buffers[thread].0.lock();
        work.each(thread, |batch| {
            stage(&mut buffers, batch.picked(), &batch.partitions, |buffers, partition| {
                self.empty(buffers, partition, outlet)
            })
        })?;
        if work.is_flush {
            for partition in around(self.pages.partitions(), thread, self.threads) {
                self.empty(&mut buffers, partition, outlet)?;
            }
        }
        Ok(())
    }

    fn settle(&mut self) {
        self.pages.settle();
    }
}
