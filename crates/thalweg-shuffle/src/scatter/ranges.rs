//! Threads divide the partitions, and each looks at all rows.

use std::{ops::Range, sync::Arc};

use thalweg_core::Result;
use thalweg_memory::{
    page::{layout::RowLayout, rows::Picked, shared::Padded, staging::Staging},
    sync::Mutex,
};

use super::{
    buffered::{Buffers, stage},
    manager::{Outlet, PageManager},
    ordered::seal,
    work::{Prepared, Scatter, Work, share},
};

/// Units of threads: a unit walks through the batches of its senders together, and each of its threads takes the rows of a range of
/// partitions. With one unit no page is written by two threads.
///
/// Source: collaborative morsel processing, the shuffle thesis, sections 3.6.2 (one unit) and 3.6.3.
pub struct Collaborative {
    pages: PageManager,
    threads: usize,
    units: usize,
    buffers: Vec<Padded<Mutex<Mine>>>,
}

/// What a thread has for its range.
struct Mine {
    buffers: Staging,
    rows: Vec<u32>,
    partitions: Vec<u32>,
}

impl Collaborative {
    /// For so many threads in so many units.
    ///
    /// Errors: `Error::Environment` if there is no memory for the buffers.
    pub fn new(
        pages: PageManager,
        layout: &Arc<RowLayout>,
        threads: usize,
        units: usize,
        buffers: Buffers,
    ) -> Result<Self> {
        let units = units.clamp(1, threads);
        let mut this = Self { pages, threads, units, buffers: Vec::new() };
        let mine = |thread| {
            let (_, range) = this.place(thread);
            let buffers = buffers.of_thread(layout, range.len(), threads)?;
            Ok(Padded(Mutex::new(Mine { buffers, rows: Vec::new(), partitions: Vec::new() })))
        };
        this.buffers = (0..threads).map(mine).collect::<Result<_>>()?;
        Ok(this)
    }

    /// A thread's unit, and its range of partitions.
    fn place(&self, thread: usize) -> (usize, Range<usize>) {
        let unit = thread * self.units / self.threads;
        let members = (0..self.threads).filter(|other| other * self.units / self.threads == unit);
        let (before, all) =
            members.fold((0, 0), |(before, all), other| (before + usize::from(other < thread), all + 1));
        (unit, share(self.pages.partitions(), before, all))
    }

    fn empty(&self, buffers: &mut Staging, first: usize, partition: u32, outlet: &dyn Outlet) -> Result<()> {
        self.pages.put(first as u32 + partition, buffers.waiting(partition as usize), outlet)?;
        buffers.clear(partition as usize);
        Ok(())
    }
}

impl Mine {
    /// The rows of a batch that go to the range, with their partitions counted from its beginning.
    fn pick(&mut self, batch: &Prepared<'_>, range: &Range<usize>) {
        self.rows.clear();
        self.partitions.clear();
        let (first, count) = (range.start as u32, range.len() as u32);
        // Written whether it is ours or not, and kept if it is: no branch to be mispredicted.
        self.rows.resize(batch.rows.len() + 1, 0);
        self.partitions.resize(batch.rows.len() + 1, 0);
        let mut kept = 0;
        for (row, partition) in batch.rows.iter().zip(batch.partitions.iter()) {
            let place = partition.wrapping_sub(first);
            (self.rows[kept], self.partitions[kept]) = (*row, place);
            kept += usize::from(place < count);
        }
        self.rows.truncate(kept);
        self.partitions.truncate(kept);
    }
}

impl Scatter for Collaborative {
    fn steps(&self, work: &Work<'_>) -> usize {
        if work.is_flush { 3 } else { 2 }
    }

    fn step(&self, step: usize, thread: usize, work: &Work<'_>, outlet: &dyn Outlet) -> Result<()> {
        match step {
            0 => return work.prepare(thread),
            1 => {}
            _ => return seal(&self.pages, thread, self.threads, outlet),
        }
        let (unit, range) = self.place(thread);
        let mut mine = self.buffers[thread].0.lock();
        for sender in (0..work.senders()).filter(|sender| sender % self.units == unit) {
            for batch in work.of(sender) {
                mine.pick(batch, &range);
                let Mine { buffers, rows, partitions } = &mut *mine;
                stage(buffers, Picked { source: &batch.source, rows }, partitions, |buffers, full| {
                    self.empty(buffers, range.start, full, outlet)
                })?;
            }
        }
        if work.is_flush {
            for partition in 0..range.len() {
                self.empty(&mut mine.buffers, range.start, partition as u32, outlet)?;
            }
        }
        Ok(())
    }

    fn settle(&mut self) {
        self.pages.settle();
    }
}
