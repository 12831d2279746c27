//! All rows are counted before one is written.

use std::sync::OnceLock;

use thalweg_core::{Error, Result};
use thalweg_memory::{
    page::rows::{Picked, Rows},
    sync::Mutex,
};

use super::{
    manager::{Chunk, Filled, Outlet, PageManager},
    order::Order,
    ordered::seal,
    work::{Scatter, Work, share},
};

/// Radix partitioning: a histogram over everything since the last flush, pages as large as it says, and slots planned for each
/// thread before one writes.
///
/// Source: the shuffle thesis, sections 3.3.3 and 3.5.2. A stream has no end to wait for: here it plans at each flush.
pub struct Radix {
    pages: PageManager,
    threads: usize,
    /// The rows of each sender's batches, by partition.
    orders: Vec<OnceLock<Vec<Order>>>,
    /// What each thread planned for each sender: the batch, and the chunk with its first row's place among the partition's.
    plans: Vec<Vec<Mutex<Vec<Planned>>>>,
}

struct Planned {
    batch: usize,
    first: usize,
    chunk: Chunk,
}

impl Radix {
    /// For so many threads, and as many senders.
    pub fn new(pages: PageManager, threads: usize) -> Self {
        let plans = (0..threads).map(|_| (0..threads).map(|_| Mutex::default()).collect()).collect();
        Self { pages, threads, orders: (0..threads).map(|_| OnceLock::new()).collect(), plans }
    }

    fn order(&self, sender: usize, batch: usize) -> Result<&Order> {
        let order = self.orders[sender].get().and_then(|orders| orders.get(batch));
        order.ok_or_else(|| Error::bug("a batch was not counted"))
    }

    /// Plans slots for all rows of a partition: each sender's behind those of the one before.
    fn plan(&self, thread: usize, partition: usize, work: &Work<'_>, outlet: &dyn Outlet) -> Result<()> {
        let all = || {
            let of = |sender| work.of(sender).enumerate().map(move |(number, batch)| (sender, number, batch));
            (0..work.senders()).flat_map(of)
        };
        let (mut rows, mut tails) = (0, 0);
        for (sender, number, batch) in all() {
            let mine = Picked { source: &batch.source, rows: self.order(sender, number)?.of_partition(partition) };
            (rows, tails) = (rows + mine.len(), tails + mine.tails());
        }
        self.pages.expect(partition as u32, rows, tails);
        for (sender, number, batch) in all() {
            let mine = Picked { source: &batch.source, rows: self.order(sender, number)?.of_partition(partition) };
            let mut first = 0;
            let mut planned = self.plans[thread][sender].lock();
            self.pages.plan(partition as u32, mine, &AllAtOnce(outlet), |chunk| {
                let rows = chunk.rows;
                planned.push(Planned { batch: number, first, chunk });
                first += rows;
            })?;
        }
        Ok(())
    }

    fn write(&self, sender: usize, work: &Work<'_>, outlet: &dyn Outlet) -> Result<()> {
        let batches: Vec<_> = work.of(sender).collect();
        for plans in &self.plans {
            let planned = std::mem::take(&mut *plans[sender].lock());
            for Planned { batch, first, chunk } in planned {
                let order = self.order(sender, batch)?.of_partition(chunk.partition as usize);
                let rows = Picked { source: &batches[batch].source, rows: &order[first..first + chunk.rows] };
                self.pages.write(chunk, &rows, outlet)?;
            }
        }
        Ok(())
    }
}

/// Planned pages come back only when they are written, for which all must be planned.
struct AllAtOnce<'a>(&'a dyn Outlet);

impl Outlet for AllAtOnce<'_> {
    fn take(&self, filled: Filled) -> Result<()> {
        self.0.take(filled)
    }

    fn wait(&self) -> Result<()> {
        let error = Error::environment(
            "radix partitioning needs pages for all rows at once, and the pool has no room for them",
        );
        Err(error.with_hint("give it more memory, flush more often, or choose another variant"))
    }
}

impl Scatter for Radix {
    fn steps(&self, _: &Work<'_>) -> usize {
        4
    }

    fn step(&self, step: usize, thread: usize, work: &Work<'_>, outlet: &dyn Outlet) -> Result<()> {
        let partitions = self.pages.partitions();
        match step {
            0 => {
                work.prepare(thread)?;
                let order =
                    |batch: &super::work::Prepared<'_>| Order::of_rows(&batch.rows, &batch.partitions, partitions);
                drop(self.orders[thread].set(work.of(thread).map(order).collect()));
                Ok(())
            }
            1 => share(partitions, thread, self.threads).try_for_each(|p| self.plan(thread, p, work, outlet)),
            2 => self.write(thread, work, outlet),
            _ => seal(&self.pages, thread, self.threads, outlet),
        }
    }

    fn settle(&mut self) {
        self.orders.iter_mut().for_each(|orders| drop(orders.take()));
        self.plans.iter().flatten().for_each(|plans| plans.lock().clear());
        self.pages.settle();
    }

    fn materializes(&self) -> bool {
        true
    }
}
