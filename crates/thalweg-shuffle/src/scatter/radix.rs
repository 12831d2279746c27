//! All rows are counted before one is written.

use std::{rc::Rc, sync::OnceLock};

use thalweg_core::{Error, Result};
use thalweg_memory::{
    page::{
        rows::{Lengths, Picked, Rows},
        shared::Padded,
    },
    sync::Mutex,
};

use super::{
    manager::{Chunk, Filled, Outlet, PageManager},
    order::Order,
    ordered::{around, seal},
    work::{Prepared, Scatter, Work, share},
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
    /// By sender, what was planned for each partition.
    plans: Vec<Vec<Padded<Mutex<Vec<Chunk>>>>>,
}

/// A partition's rows of a sender, batch by batch, from one of them on.
#[derive(Clone)]
struct Parts<'a> {
    parts: Rc<[Picked<'a>]>,
    /// How many rows there are in each part and those before.
    ends: Rc<[usize]>,
    first: usize,
}

impl<'a> Parts<'a> {
    fn new(parts: impl Iterator<Item = Picked<'a>>) -> Self {
        let parts: Rc<[Picked<'a>]> = parts.filter(|part| !part.is_empty()).collect();
        let mut end = 0;
        let ends = parts.iter().map(|part| {
            end += part.len();
            end
        });
        Self { ends: ends.collect(), parts, first: 0 }
    }

    /// All but the first rows.
    fn behind(&self, rows: usize) -> Self {
        Self { first: self.first + rows, ..self.clone() }
    }
}

impl Lengths for Parts<'_> {
    fn len(&self) -> usize {
        self.ends.last().map_or(0, |all| all - self.first)
    }

    fn tail(&self, row: usize) -> usize {
        let row = self.first + row;
        let part = self.ends.partition_point(|end| *end <= row);
        let before = if part == 0 { 0 } else { self.ends[part - 1] };
        self.parts[part].tail(row - before)
    }

    fn tails(&self) -> usize {
        match self.parts.iter().any(|part| part.source.has_tails()) {
            true => (0..self.len()).map(|row| self.tail(row)).sum(),
            false => 0,
        }
    }
}

impl Radix {
    /// For so many threads, and as many senders.
    pub fn new(pages: PageManager, threads: usize) -> Self {
        let plans = (0..threads).map(|_| (0..pages.partitions()).map(|_| Padded::default()).collect()).collect();
        Self { pages, threads, orders: (0..threads).map(|_| OnceLock::new()).collect(), plans }
    }

    /// A partition's rows of a sender.
    fn parts<'w>(&'w self, sender: usize, partition: usize, work: &'w Work<'_>) -> Parts<'w> {
        let orders = self.orders[sender].get().map_or(&[][..], Vec::as_slice);
        let of = |(batch, order): (&'w Prepared<'_>, &'w Order)| Picked {
            source: &batch.source,
            rows: order.of_partition(partition),
        };
        Parts::new(work.of(sender).zip(orders).map(of))
    }

    /// Plans slots for all rows of a partition: each sender's behind those of the one before.
    fn plan(&self, partition: usize, work: &Work<'_>, outlet: &dyn Outlet) -> Result<()> {
        let senders: Vec<Parts<'_>> = (0..self.threads).map(|sender| self.parts(sender, partition, work)).collect();
        let (rows, tails) = senders.iter().fold((0, 0), |(rows, tails), all| (rows + all.len(), tails + all.tails()));
        self.pages.expect(partition as u32, rows, tails);
        for (all, plans) in senders.iter().zip(&self.plans) {
            *plans[partition].0.lock() = self.pages.plan(partition as u32, all, Parts::behind, &AllAtOnce(outlet))?;
        }
        Ok(())
    }

    fn write(&self, sender: usize, work: &Work<'_>, outlet: &dyn Outlet) -> Result<()> {
        for partition in around(self.pages.partitions(), sender, self.threads) {
            let chunks = std::mem::take(&mut *self.plans[sender][partition as usize].0.lock());
            let mut chunks = chunks.into_iter();
            let mut chunk = chunks.next();
            for part in &*self.parts(sender, partition as usize, work).parts {
                let mut rows = *part;
                while !rows.is_empty() {
                    let Some(open) = &mut chunk else { return Err(Error::bug("rows for which no slot was planned")) };
                    let fitting = rows.len().min(open.rows());
                    self.pages.write(open, &rows.first(fitting), outlet)?;
                    rows = rows.behind(fitting);
                    if open.rows() == 0 {
                        chunk = chunks.next();
                    }
                }
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
            1 => share(partitions, thread, self.threads).try_for_each(|partition| self.plan(partition, work, outlet)),
            2 => self.write(thread, work, outlet),
            _ => seal(&self.pages, thread, self.threads, outlet),
        }
    }

    fn settle(&mut self) {
        self.orders.iter_mut().for_each(|orders| drop(orders.take()));
        self.plans.iter().flatten().for_each(|plans| plans.0.lock().clear());
        self.pages.settle();
    }

    fn materializes(&self) -> bool {
        true
    }
}
