//! One thread fills a page.

use std::sync::Arc;

use thalweg_core::{Error, Result};

use super::{
    Header, Page,
    layout::{Place, RowLayout},
    rows::{Rows, write},
    shared::SharedPage,
};
use crate::pool::{Block, Pool, block_bytes};

/// The longest page: views name places in it with 31 bits.
pub const LONGEST: usize = i32::MAX as usize;

/// A page that is being filled: rows go behind each other from slot 0 on.
pub struct PageWriter {
    layout: Arc<RowLayout>,
    places: Vec<Place>,
    block: Block,
    capacity: usize,
    rows: usize,
    /// Where the bytes at the end begin.
    tail: usize,
    /// Where the minipages end.
    floor: usize,
}

impl PageWriter {
    /// An empty page in a block, for rows that take so many bytes at its end on average, and the first of them so many; `None`
    /// where not one row fits.
    pub fn new(layout: Arc<RowLayout>, block: Block, average: usize, first: usize) -> Option<Self> {
        let capacity = capacity(&layout, block.len(), average, first)?;
        Some(Self::with_capacity(layout, block, capacity))
    }

    /// An empty page for at most so many rows, for whose minipages the block has room.
    fn with_capacity(layout: Arc<RowLayout>, block: Block, capacity: usize) -> Self {
        let tail = block.len().min(LONGEST);
        let floor = layout.bytes(capacity);
        let places = layout.places(capacity);
        Self { layout, places, block, capacity, rows: 0, tail, floor }
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many bytes its block has.
    pub fn size(&self) -> usize {
        self.block.len()
    }

    /// How many rows fit if they take no bytes at the end.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many bytes the rows so far take at the end.
    pub fn tail_bytes(&self) -> usize {
        self.block.len().min(LONGEST) - self.tail
    }

    /// Adds rows in this order, as many as fit; returns how many those are.
    pub fn append(&mut self, rows: &impl Rows) -> usize {
        let (fitting, tails) = rows.fitting(self.capacity - self.rows, self.tail - self.floor);
        let (slots, tail) = (self.rows..self.rows + fitting, self.tail - tails..self.tail);
        (self.rows, self.tail) = (slots.end, tail.start);
        let page = self.block.bytes_mut();
        match fitting == rows.len() {
            true => write(page, &self.layout, &self.places, slots, tail, rows),
            false => write(page, &self.layout, &self.places, slots, tail, &rows.first(fitting)),
        }
        fitting
    }

    /// The page, to be read.
    pub fn finish(mut self) -> Page {
        let header = Header {
            columns: self.layout.columns().len() as u16,
            bytes: self.block.len() as u32,
            capacity: self.capacity as u32,
            rows: self.rows as u32,
            tail: self.tail as u32,
            fingerprint: self.layout.fingerprint(),
        };
        header.write(self.block.bytes_mut());
        Page::new(self.layout, self.block, header)
    }
}

/// What opens pages for one partition: each as large as the ones before let expect.
pub struct Growth {
    smallest: usize,
    largest: usize,
    next: usize,
    /// How many bytes a row of the last page took at its end.
    tail: usize,
}

impl Growth {
    /// Pages from the smallest size to the largest, which may be the same.
    pub fn new(smallest: usize, largest: usize) -> Self {
        Self { smallest, largest, next: smallest, tail: 32 }
    }

    /// Opens the next page for one thread; `None` where the pool has no room. `first` is what its first row takes at the end.
    ///
    /// Errors: `Error::Environment` for a row that is larger than all that the pool may ever have, or where the system has no memory
    /// for the first page.
    pub fn open(&mut self, layout: &Arc<RowLayout>, pool: &Pool, first: usize) -> Result<Option<PageWriter>> {
        let block = self.block(layout, pool, first)?;
        Ok(block.map(|(block, capacity)| PageWriter::with_capacity(Arc::clone(layout), block, capacity)))
    }

    /// Opens the next page for several threads; `None` where the pool has no room.
    pub fn open_shared(&mut self, layout: &Arc<RowLayout>, pool: &Pool, first: usize) -> Result<Option<SharedPage>> {
        let block = self.block(layout, pool, first)?;
        block.map(|(block, capacity)| SharedPage::new(Arc::clone(layout), block, capacity)).transpose()
    }

    /// The next page's block, and for how many rows it has minipages.
    fn block(&self, layout: &RowLayout, pool: &Pool, first: usize) -> Result<Option<(Block, usize)>> {
        let tail = if layout.has_views() { self.tail } else { 0 };
        let least = layout.bytes(1) + first;
        if !pool.has_room_for(least) {
            // It never will: who waited for that would wait for ever.
            let (page, all) = (block_bytes(least), pool.budget());
            let message = format!("a row needs a page of {page} bytes, and all pages may take {all}");
            return Err(Error::environment(message));
        }
        let bytes = self.next.max(least);
        let Some(block) = pool.take(bytes) else {
            let message = || format!("the system has no memory for a page of {} bytes", block_bytes(bytes));
            return if pool.is_refused() { Err(Error::environment(message())) } else { Ok(None) };
        };
        if least > self.largest {
            // A page of its own.
            return Ok(Some((block, 1)));
        }
        let capacity = capacity(layout, block.len(), tail, first);
        Ok(Some((block, capacity.ok_or_else(|| Error::bug("a page has no room for a row"))?)))
    }

    /// Whether a page of so many bytes was made for one long row alone.
    pub fn is_for_one(&self, bytes: usize) -> bool {
        bytes > block_bytes(self.largest)
    }

    /// Learns from a page that is full, or was closed before it was: how many rows it had, and how many bytes these took at its end.
    pub fn closed(&mut self, layout: &RowLayout, rows: usize, tail_bytes: usize, is_full: bool) {
        if layout.bytes(rows) + tail_bytes > self.largest {
            // A page of one row alone is no sign of what comes.
            return;
        }
        self.tail = tail_bytes.checked_div(rows).unwrap_or(self.tail);
        self.next = match is_full {
            true => (self.next * 4).min(self.largest),
            // As large as what was in it asks for.
            false => (layout.bytes(rows) + tail_bytes).clamp(self.smallest, self.next),
        };
    }

    /// Makes the next page large enough for so many rows that take so many bytes at its end, if pages may be so large.
    pub fn expect(&mut self, layout: &RowLayout, rows: usize, tail_bytes: usize) {
        // Few rows that are longer than a page say little of the others: a page is not to have room for one row alone.
        self.tail = tail_bytes.checked_div(rows).unwrap_or(self.tail).min(self.largest / 8);
        self.next = (layout.bytes(rows) + tail_bytes).clamp(self.smallest, self.largest);
    }
}

/// For how many rows a page has minipages, if these take so many bytes at its end on average, and the first of them so many; `None`
/// where not one row fits.
fn capacity(layout: &RowLayout, bytes: usize, average: usize, first: usize) -> Option<usize> {
    // What lies behind the longest page that a header can name stays unused.
    let bytes = bytes.min(LONGEST);
    let most = layout.capacity(bytes.checked_sub(first)?, 0);
    Some(layout.capacity(bytes, average).max(1).min(most).min(LONGEST)).filter(|capacity| *capacity > 0)
}
