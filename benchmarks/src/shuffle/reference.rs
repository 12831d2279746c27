//! The best that could be: rows go to pages as they lie, a buffer's worth to one partition, the next to the next.
//!
//! Source: the best-case references of the shuffle thesis, section 4.2.2. Its buffers are filled before they are copied; with columns
//! there is nothing to fill, and rows are copied once.

use std::sync::Arc;

use thalweg_core::Result;
use thalweg_memory::{
    page::{
        layout::RowLayout,
        rows::{Lengths, Picked, Rows},
        shared::Padded,
        writer::{Growth, PageWriter},
    },
    pool::Pool,
    sync::Mutex,
};
use thalweg_shuffle::scatter::{
    manager::{Agreement, Filled, Outlet, PageManager},
    variant::Setup,
    work::{Scatter, Work},
};

/// Who writes to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Threads have pages of their own.
    Apart,
    /// Threads share pages.
    Shared,
}

impl Reference {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Apart, Self::Shared];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Apart => "best case",
            Self::Shared => "best case, shared",
        }
    }

    /// Makes it.
    pub fn make(self, setup: &Setup) -> Box<dyn Scatter> {
        let Setup { layout, pool, partitions, threads, sizes, buffers } = setup;
        let row = layout.bytes(1 << 16) >> 16;
        let run = (buffers.bytes / threads / partitions / row.max(1)).max(8);
        match self {
            Self::Apart => {
                let open = || Open { growth: Growth::new(sizes.smallest, sizes.largest), page: None };
                let pages =
                    (0..*threads).map(|_| Padded(Mutex::new((0..*partitions).map(|_| open()).collect()))).collect();
                Box::new(Apart { layout: Arc::clone(layout), pool: pool.clone(), pages, run })
            }
            Self::Shared => {
                let agreement = Agreement::LockFree;
                let pages = PageManager::new(Arc::clone(layout), pool.clone(), *partitions, *sizes, agreement);
                Box::new(Shared { pages, threads: *threads, run })
            }
        }
    }
}

struct Open {
    growth: Growth,
    page: Option<PageWriter>,
}

struct Apart {
    layout: Arc<RowLayout>,
    pool: Pool,
    pages: Vec<Padded<Mutex<Vec<Open>>>>,
    run: usize,
}

impl Scatter for Apart {
    fn steps(&self, _: &Work<'_>) -> usize {
        1
    }

    fn step(&self, _: usize, thread: usize, work: &Work<'_>, outlet: &dyn Outlet) -> Result<()> {
        let mut partitions = self.pages[thread].0.lock();
        let mut to = 0;
        let take = |open: &mut Open, partition: usize, is_full: bool| match open.page.take() {
            Some(page) => {
                open.growth.closed(&self.layout, page.rows(), page.tail_bytes(), is_full);
                outlet.take(Filled { partition: partition as u32, number: 0, page: page.finish() })
            }
            None => Ok(()),
        };
        work.each(thread, |batch| {
            for rows in batch.rows.chunks(self.run) {
                let mut rows = Picked { source: &batch.source, rows };
                let open = &mut partitions[to];
                while !rows.is_empty() {
                    match &mut open.page {
                        Some(page) => rows = rows.behind(page.append(&rows)),
                        None => match open.growth.open(&self.layout, &self.pool, rows.tail(0))? {
                            Some(page) => {
                                open.page = Some(page);
                                continue;
                            }
                            None => outlet.wait()?,
                        },
                    }
                    if !rows.is_empty() {
                        take(open, to, true)?;
                    }
                }
                to = (to + 1) % partitions.len();
            }
            Ok(())
        })?;
        partitions.iter_mut().enumerate().try_for_each(|(partition, open)| take(open, partition, false))
    }

    fn settle(&mut self) {}
}

struct Shared {
    pages: PageManager,
    threads: usize,
    run: usize,
}

impl Scatter for Shared {
    fn steps(&self, _: &Work<'_>) -> usize {
        2
    }

    fn step(&self, step: usize, thread: usize, work: &Work<'_>, outlet: &dyn Outlet) -> Result<()> {
        let partitions = self.pages.partitions();
        let mut to = partitions * thread / self.threads;
        if step == 1 {
            let end = partitions * (thread + 1) / self.threads;
            return (to..end).try_for_each(|partition| self.pages.seal(partition as u32, outlet));
        }
        work.each(thread, |batch| {
            for rows in batch.rows.chunks(self.run) {
                self.pages.put(to as u32, Picked { source: &batch.source, rows }, outlet)?;
                to = (to + 1) % partitions;
            }
            Ok(())
        })
    }

    fn settle(&mut self) {
        self.pages.settle();
    }
}
