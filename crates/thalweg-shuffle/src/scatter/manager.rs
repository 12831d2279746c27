//! Who may write to the pages of a partition, when several threads do.

use std::sync::Arc;

use thalweg_core::Result;
use thalweg_memory::{
    page::{
        Page,
        layout::RowLayout,
        rows::{Lengths, Rows},
        shared::{Padded, PlannedSlots, SharedPage},
        writer::Growth,
    },
    pool::Pool,
    stable::Stable,
    sync::{AtomicUsize, Mutex, MutexGuard, Ordering},
};

use super::Sizes;

/// A page that takes no more rows, for its receiver.
#[derive(Debug)]
pub struct Filled {
    /// Whose it is.
    pub partition: u32,
    /// Which of the partition's pages it is: a page may be ready before an earlier one.
    pub number: usize,
    /// The page.
    pub page: Page,
}

/// Where pages go when they are filled, and what is done where the pool has no room for another.
pub trait Outlet: Sync {
    /// Takes a page.
    ///
    /// Errors: those of the receiver, which end the scattering.
    fn take(&self, filled: Filled) -> Result<()>;

    /// Returns when the pool may have room: some page went back. Pages that are being filled never take all of the pool.
    ///
    /// Errors: whatever says that none will go back, which ends the scattering.
    fn wait(&self) -> Result<()>;
}

/// How threads agree on slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// A lock per partition, held while slots are reserved and never while they are written.
    Lock,
    /// One compare-and-exchange on the page; the lock is taken only to open the next one.
    LockFree,
}

/// The pages of all partitions, which any number of threads fill.
///
/// Source: the shuffle thesis, sections 3.3.1, 3.3.2 and 3.3.5.
pub struct PageManager {
    layout: Arc<RowLayout>,
    pool: Pool,
    agreement: Agreement,
    partitions: Vec<Padded<Partition>>,
}

struct Partition {
    /// The pages since the last [`PageManager::settle`], the one that is open last.
    pages: Stable<Arc<SharedPage>>,
    /// How many pages there are.
    opened: AtomicUsize,
    /// The number of the first page.
    first: AtomicUsize,
    opening: Mutex<Opening>,
}

/// What is needed to open a page.
struct Opening {
    growth: Growth,
    /// Whether the last page takes no more rows, and its size was learnt from.
    is_closed: bool,
}

impl PageManager {
    /// A manager of rows of a layout.
    pub fn new(layout: Arc<RowLayout>, pool: Pool, partitions: usize, sizes: Sizes, agreement: Agreement) -> Self {
        let partition = |_| {
            Padded(Partition {
                pages: Stable::default(),
                opened: AtomicUsize::new(0),
                first: AtomicUsize::new(0),
                opening: Mutex::new(Opening { growth: Growth::new(sizes.smallest, sizes.largest), is_closed: true }),
            })
        };
        Self { layout, pool, agreement, partitions: (0..partitions).map(partition).collect() }
    }

    /// Puts rows into pages of a partition, behind each other as far as a page has room.
    ///
    /// Errors: those of the outlet; `Error::Bug` where a row fits into no page.
    pub fn put<R: Rows + Copy>(&self, number: u32, mut rows: R, outlet: &dyn Outlet) -> Result<()> {
        let partition = &self.partitions[number as usize].0;
        while !rows.is_empty() {
            let opening = match self.agreement {
                Agreement::Lock => Some(self.open(partition, partition.opening.lock(), &rows, outlet)?),
                Agreement::LockFree => None,
            };
            let opened = partition.opened.load(Ordering::Acquire);
            let Some(page) = opened.checked_sub(1).and_then(|last| partition.pages.get(last)) else {
                drop(self.open(partition, partition.opening.lock(), &rows, outlet)?);
                continue;
            };
            let reserved = page.reserve(&rows);
            // Nobody waits while rows are written.
            drop(opening);
            let taken = reserved.slots.as_ref().map_or(0, |slots| slots.len());
            let written = reserved.slots.and_then(|slots| slots.write(&rows));
            for page in written.into_iter().chain(reserved.page) {
                outlet.take(partition.filled(number, opened - 1, page))?;
            }
            rows = rows.behind(taken);
            if reserved.is_closed && !rows.is_empty() {
                drop(self.open(partition, partition.opening.lock(), &rows, outlet)?);
            }
        }
        Ok(())
    }

    /// Sees to it that a page is open, which may be so already.
    fn open<'p>(
        &self,
        partition: &'p Partition,
        mut opening: MutexGuard<'p, Opening>,
        rows: &impl Lengths,
        outlet: &dyn Outlet,
    ) -> Result<MutexGuard<'p, Opening>> {
        let opened = partition.opened.load(Ordering::Acquire);
        if let Some(page) = opened.checked_sub(1).and_then(|last| partition.pages.get(last)) {
            if !page.is_closed() {
                return Ok(opening);
            }
            if !opening.is_closed {
                opening.is_closed = true;
                opening.growth.closed(&self.layout, page.rows(), page.tail_bytes(), true);
            }
        }
        let page = loop {
            match opening.growth.open_shared(&self.layout, &self.pool, rows.tail(0))? {
                Some(page) => break page,
                None => outlet.wait()?,
            }
        };
        opening.is_closed = false;
        partition.pages.set(opened, Arc::new(page));
        partition.opened.store(opened + 1, Ordering::Release);
        Ok(opening)
    }

    /// Makes the next pages of a partition large enough for so many rows that take so many bytes at a page's end.
    pub fn expect(&self, number: u32, rows: usize, tail_bytes: usize) {
        let mut opening = self.partitions[number as usize].0.opening.lock();
        opening.growth.expect(&self.layout, rows, tail_bytes);
    }

    /// Reserves slots for rows of a partition, to be written later by any thread.
    ///
    /// Errors: as [`PageManager::put`].
    pub fn plan<L: Lengths>(
        &self,
        number: u32,
        rows: &L,
        behind: impl Fn(&L, usize) -> L,
        outlet: &dyn Outlet,
    ) -> Result<Vec<Chunk>> {
        let partition = &self.partitions[number as usize].0;
        let (mut planned, mut rest) = (Vec::new(), behind(rows, 0));
        while !rest.is_empty() {
            let opening = self.open(partition, partition.opening.lock(), &rest, outlet)?;
            let opened = partition.opened.load(Ordering::Acquire);
            let Some(page) = partition.pages.get(opened - 1) else { continue };
            let reserved = page.reserve(&rest);
            drop(opening);
            if let Some(page) = reserved.page {
                outlet.take(partition.filled(number, opened - 1, page))?;
            }
            if let Some(slots) = reserved.slots {
                rest = behind(&rest, slots.len());
                planned.push(Chunk { partition: number, place: opened - 1, slots: slots.planned(page) });
            }
        }
        Ok(planned)
    }

    /// Closes the open page of a partition; who writes its last row passes it on.
    ///
    /// Errors: those of the outlet.
    pub fn seal(&self, number: u32, outlet: &dyn Outlet) -> Result<()> {
        let partition = &self.partitions[number as usize].0;
        let mut opening = partition.opening.lock();
        let opened = partition.opened.load(Ordering::Acquire);
        let Some(page) = opened.checked_sub(1).and_then(|last| partition.pages.get(last)) else { return Ok(()) };
        if opening.is_closed || page.rows() == 0 {
            return Ok(());
        }
        let filled = page.close();
        opening.is_closed = true;
        opening.growth.closed(&self.layout, page.rows(), page.tail_bytes(), false);
        drop(opening);
        filled.map_or(Ok(()), |page| outlet.take(partition.filled(number, opened - 1, page)))
    }

    /// Writes the next rows of a chunk, which were planned for it.
    ///
    /// Errors: those of the outlet.
    pub fn write<R: Rows>(&self, chunk: &mut Chunk, rows: &R, outlet: &dyn Outlet) -> Result<()> {
        let filled = chunk.slots.write_next(rows);
        let of = &self.partitions[chunk.partition as usize].0;
        filled.map_or(Ok(()), |page| outlet.take(of.filled(chunk.partition, chunk.place, page)))
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Forgets pages that were passed on, when no thread is at work.
    pub fn settle(&mut self) {
        for Padded(partition) in &mut self.partitions {
            let opened = partition.opened.load(Ordering::Acquire);
            let last = opened.checked_sub(1).and_then(|last| partition.pages.get(last)).cloned();
            let last = last.filter(|page| !page.is_closed());
            let mut opening = partition.opening.lock();
            opening.is_closed |= last.is_none();
            drop(opening);
            partition.first.fetch_add(opened - usize::from(last.is_some()), Ordering::AcqRel);
            partition.opened.store(usize::from(last.is_some()), Ordering::Release);
            partition.pages.clear();
            if let Some(page) = last {
                partition.pages.set(0, page);
            }
        }
    }
}

/// Slots that were planned for rows of a partition.
pub struct Chunk {
    /// Whose they are.
    partition: u32,
    /// Which of the pages since the last settling.
    place: usize,
    slots: PlannedSlots,
}

impl Chunk {
    /// For how many rows that were not written there are slots.
    pub fn rows(&self) -> usize {
        self.slots.len()
    }
}

impl Partition {
    fn filled(&self, partition: u32, place: usize, page: Page) -> Filled {
        Filled { partition, number: self.first.load(Ordering::Acquire) + place, page }
    }
}
