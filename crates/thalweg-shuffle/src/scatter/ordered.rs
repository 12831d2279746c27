//! Row by row, or a histogram for each batch and then its rows partition by partition.

use thalweg_core::Result;
use thalweg_memory::page::rows::{Picked, Rows};

use super::{
    manager::{Outlet, PageManager},
    order::Order,
    work::{Scatter, Work, share},
};

/// Each row goes to its page at once.
///
/// Source: on-demand partitioning of the shuffle thesis, section 3.4.
pub struct OnDemand {
    pages: PageManager,
    threads: usize,
}

/// A histogram for each batch: all rows of a partition are reserved and written at once.
///
/// Source: the ad-hoc radix ("hybrid") partitioning of the shuffle thesis, section 3.5.3.
pub struct Hybrid {
    pages: PageManager,
    threads: usize,
}

impl OnDemand {
    /// For so many threads.
    pub fn new(pages: PageManager, threads: usize) -> Self {
        Self { pages, threads }
    }
}

impl Hybrid {
    /// For so many threads.
    pub fn new(pages: PageManager, threads: usize) -> Self {
        Self { pages, threads }
    }
}

/// The partitions, from another one on for each thread: so that they do not all begin at the same.
pub(super) fn around(partitions: usize, thread: usize, threads: usize) -> impl Iterator<Item = u32> {
    let first = partitions * thread / threads;
    (first..partitions).chain(0..first).map(|partition| partition as u32)
}

/// Closes a thread's share of the open pages.
pub(super) fn seal(pages: &PageManager, thread: usize, threads: usize, outlet: &dyn Outlet) -> Result<()> {
    share(pages.partitions(), thread, threads).try_for_each(|partition| pages.seal(partition as u32, outlet))
}

impl Scatter for OnDemand {
    fn steps(&self, work: &Work<'_>) -> usize {
        if work.is_flush { 2 } else { 1 }
    }

    fn step(&self, step: usize, thread: usize, work: &Work<'_>, outlet: &dyn Outlet) -> Result<()> {
        if step == 1 {
            return seal(&self.pages, thread, self.threads, outlet);
        }
        work.each(thread, |batch| {
            let all = batch.picked();
            let mut rows = batch.partitions.iter().enumerate();
            rows.try_for_each(|(row, partition)| self.pages.put(*partition, all.behind(row).first(1), outlet))
        })
    }

    fn settle(&mut self) {
        self.pages.settle();
    }
}

impl Scatter for Hybrid {
    fn steps(&self, work: &Work<'_>) -> usize {
        if work.is_flush { 2 } else { 1 }
    }

    fn step(&self, step: usize, thread: usize, work: &Work<'_>, outlet: &dyn Outlet) -> Result<()> {
        if step == 1 {
            return seal(&self.pages, thread, self.threads, outlet);
        }
        let partitions = self.pages.partitions();
        work.each(thread, |batch| {
            let order = Order::of_rows(&batch.rows, &batch.partitions, partitions);
            for partition in around(partitions, thread, self.threads) {
                let rows = order.of_partition(partition as usize);
                if !rows.is_empty() {
                    self.pages.put(partition, Picked { source: &batch.source, rows }, outlet)?;
                }
            }
            Ok(())
        })
    }

    fn settle(&mut self) {
        self.pages.settle();
    }
}
