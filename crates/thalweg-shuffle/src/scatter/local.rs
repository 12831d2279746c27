//! Each thread has pages of its own, which are merged when they must be full.

use std::{cmp::Reverse, sync::Arc};

use thalweg_core::Result;
use thalweg_memory::{
    page::{
        Page,
        layout::RowLayout,
        rows::{Picked, Rows},
        shared::Padded,
        source::Source,
        staging::Staging,
    },
    pool::Pool,
    sync::{AtomicUsize, Mutex, Ordering},
};

use super::{
    Sizes,
    buffered::{Buffers, stage},
    manager::{Filled, Outlet},
    ordered::around,
    own::OwnPage,
    work::{Scatter, Work, share},
};

/// Pages of threads, merged at each flush: the rows of the emptier ones go into the fuller ones.
///
/// Source: the shuffle thesis, sections 3.3.4 and 3.7.
pub struct LocalMerge {
    layout: Arc<RowLayout>,
    pool: Pool,
    threads: usize,
    sizes: Sizes,
    buffers: Vec<Padded<Mutex<Staging>>>,
    /// By thread, then by partition.
    pages: Vec<Vec<Padded<Mutex<OwnPage>>>>,
    /// How many pages of each partition were passed on.
    passed: Vec<Padded<AtomicUsize>>,
}

impl LocalMerge {
    /// For so many threads.
    ///
    /// Errors: `Error::Environment` if there is no memory for the buffers.
    pub fn new(
        layout: Arc<RowLayout>,
        pool: Pool,
        partitions: usize,
        threads: usize,
        sizes: Sizes,
        buffers: Buffers,
    ) -> Result<Self> {
        let local = || Padded(Mutex::new(OwnPage::new(sizes)));
        let pages = (0..threads).map(|_| (0..partitions).map(|_| local()).collect()).collect();
        let buffer = |_| Ok(Padded(Mutex::new(buffers.of_thread(&layout, partitions, threads)?)));
        let buffers = (0..threads).map(buffer).collect::<Result<_>>()?;
        let passed = (0..partitions).map(|_| Padded::default()).collect();
        Ok(Self { layout, pool, threads, sizes, buffers, pages, passed })
    }

    fn partitions(&self) -> usize {
        self.passed.len()
    }

    fn pass_on(&self, partition: u32, page: Page, outlet: &dyn Outlet) -> Result<()> {
        let number = self.passed[partition as usize].0.fetch_add(1, Ordering::AcqRel);
        outlet.take(Filled { partition, number, page })
    }

    /// Puts rows into pages of one thread, and passes on those that are full.
    fn fill<R: Rows + Copy>(&self, own: &mut OwnPage, partition: u32, mut rows: R, outlet: &dyn Outlet) -> Result<()> {
        loop {
            let pass_on = |page| self.pass_on(partition, page, outlet);
            rows = rows.behind(own.fill(&self.layout, &self.pool, rows, pass_on)?);
            if rows.is_empty() {
                return Ok(());
            }
            outlet.wait()?;
        }
    }

    fn empty(&self, thread: usize, buffers: &mut Staging, partition: u32, outlet: &dyn Outlet) -> Result<()> {
        let mut local = self.pages[thread][partition as usize].0.lock();
        self.fill(&mut local, partition, buffers.waiting(partition as usize), outlet)?;
        buffers.clear(partition as usize);
        Ok(())
    }

    /// Merges what the threads' pages of a partition hold, the fullest first, and passes all of it on.
    fn merge(&self, partition: u32, outlet: &dyn Outlet) -> Result<()> {
        let mut open = Vec::new();
        for thread in &self.pages {
            let mut local = thread[partition as usize].0.lock();
            open.extend(local.close(&self.layout));
        }
        open.sort_by_key(|page| Reverse(page.rows()));
        let mut open = open.into_iter();
        let Some(fullest) = open.next() else { return Ok(()) };
        // What does not fit into it goes into pages of the same kind.
        let mut merged = OwnPage::with(fullest, self.sizes);
        for page in open {
            let batch = page.finish().batch()?;
            let source = Source::new(&self.layout, &batch)?;
            let rows: Vec<u32> = (0..batch.num_rows() as u32).collect();
            self.fill(&mut merged, partition, Picked { source: &source, rows: &rows }, outlet)?;
        }
        merged.open.map_or(Ok(()), |page| self.pass_on(partition, page.finish(), outlet))
    }
}

impl Scatter for LocalMerge {
    fn steps(&self, work: &Work<'_>) -> usize {
        if work.is_flush { 2 } else { 1 }
    }

    fn step(&self, step: usize, thread: usize, work: &Work<'_>, outlet: &dyn Outlet) -> Result<()> {
        if step == 1 {
            let mine = share(self.partitions(), thread, self.threads);
            return mine.into_iter().try_for_each(|partition| self.merge(partition as u32, outlet));
        }
        let mut buffers = self.buffers[thread].0.lock();
        work.each(thread, |batch| {
            stage(&mut buffers, batch.picked(), &batch.partitions, |buffers, partition| {
                self.empty(thread, buffers, partition, outlet)
            })
        })?;
        if work.is_flush {
            for partition in around(self.partitions(), thread, self.threads) {
                self.empty(thread, &mut buffers, partition, outlet)?;
            }
        }
        Ok(())
    }

    fn settle(&mut self) {}
}
