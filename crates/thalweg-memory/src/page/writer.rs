//! One thread fills a page.

use std::{ops::Range, sync::Arc};

use thalweg_core::{Error, Result};

use super::{
    Header, Page,
    layout::{Place, RowLayout},
    source::{INLINE, Source, SourceColumn, Values},
};
use crate::pool::{Block, Pool};

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
        // What lies behind the longest page that a header can name stays unused.
        let bytes = block.len().min(LONGEST);
        let most = layout.capacity(bytes.checked_sub(first)?, 0);
        let capacity = layout.capacity(bytes, average).max(1).min(most).min(LONGEST);
        (capacity > 0).then(|| Self::with_capacity(layout, block, capacity))
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

    /// How many rows fit if they take no bytes at the end.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many bytes the rows so far take at the end.
    pub fn tail_bytes(&self) -> usize {
        self.block.len().min(LONGEST) - self.tail
    }

    /// Adds rows of a batch in this order, as many as fit; returns how many those are.
    pub fn append(&mut self, source: &Source<'_>, rows: &[u32]) -> usize {
        let rows = &rows[..self.fitting(source, rows)];
        let slots = self.rows..self.rows + rows.len();
        let Self { layout, places, block, tail, .. } = self;
        let page = block.bytes_mut();
        for ((column, place), source) in layout.columns().iter().zip(places).zip(source.columns()) {
            if let Some(validity) = place.validity.filter(|_| column.is_nullable) {
                write_validity(&mut page[validity..], slots.clone(), source, rows);
            }
            match &source.values {
                Values::Fixed(bytes, width) => write_fixed(&mut page[place.values..], *width, slots.start, bytes, rows),
                Values::Bits(bits) => {
                    write_bits(&mut page[place.values..], slots.clone(), |i| bits.value(rows[i] as usize))
                }
                Values::Bytes(bytes) => {
                    *tail = write_views(page, place.values + 16 * slots.start, *tail, bytes, rows);
                }
            }
        }
        self.rows = slots.end;
        rows.len()
    }

    /// How many of the rows fit.
    fn fitting(&self, source: &Source<'_>, rows: &[u32]) -> usize {
        let most = rows.len().min(self.capacity - self.rows);
        if !source.has_tails() {
            return most;
        }
        let mut left = self.tail - self.floor;
        let fits = |row: &&u32| match left.checked_sub(source.tail(**row as usize)) {
            Some(less) => {
                left = less;
                true
            }
            None => false,
        };
        rows[..most].iter().take_while(fits).count()
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

    /// Opens the next page; `None` where the pool has no room.
    pub fn open(&mut self, layout: &Arc<RowLayout>, pool: &Pool, first: usize) -> Result<Option<PageWriter>> {
        let tail = if layout.has_views() { self.tail } else { 0 };
        let least = layout.bytes(1) + first;
        let Some(block) = pool.take(self.next.max(least)) else { return Ok(None) };
        if least > self.largest {
            // A page of its own.
            return Ok(Some(PageWriter::with_capacity(Arc::clone(layout), block, 1)));
        }
        let writer = PageWriter::new(Arc::clone(layout), block, tail, first);
        writer.map(Some).ok_or_else(|| Error::bug("a page has no room for a row"))
    }

    /// Learns from a page that is full, or was closed before it was.
    pub fn closed(&mut self, writer: &PageWriter, is_full: bool) {
        self.tail = writer.tail_bytes().checked_div(writer.rows()).unwrap_or(self.tail);
        self.next = match is_full {
            true => (self.next * 4).min(self.largest),
            // As large as what was in it asks for.
            false => (writer.layout.bytes(writer.rows()) + writer.tail_bytes()).clamp(self.smallest, self.next),
        };
    }
}

fn write_validity(bits: &mut [u8], slots: Range<usize>, source: &SourceColumn<'_>, rows: &[u32]) {
    match &source.nulls {
        None => write_bits(bits, slots, |_| true),
        Some(nulls) => write_bits(bits, slots, |i| nulls.is_valid(rows[i] as usize)),
    }
}

/// Sets the bits of slots.
fn write_bits(bytes: &mut [u8], slots: Range<usize>, bit: impl Fn(usize) -> bool) {
    for (i, slot) in slots.enumerate() {
        let (byte, mask) = (&mut bytes[slot / 8], 1 << (slot % 8));
        *byte = if bit(i) { *byte | mask } else { *byte & !mask };
    }
}

fn write_fixed(page: &mut [u8], width: usize, slot: usize, values: &[u8], rows: &[u32]) {
    match width {
        1 => write_width::<1>(page, slot, values, rows),
        2 => write_width::<2>(page, slot, values, rows),
        4 => write_width::<4>(page, slot, values, rows),
        8 => write_width::<8>(page, slot, values, rows),
        16 => write_width::<16>(page, slot, values, rows),
        0 => {}
        _ => {
            for (to, row) in page[slot * width..].chunks_exact_mut(width).zip(rows) {
                let from = *row as usize * width;
                to.copy_from_slice(&values[from..from + width]);
            }
        }
    }
}

fn write_width<const WIDTH: usize>(page: &mut [u8], slot: usize, values: &[u8], rows: &[u32]) {
    let (values, _) = values.as_chunks::<WIDTH>();
    let (places, _) = page.as_chunks_mut::<WIDTH>();
    for (place, row) in places[slot..].iter_mut().zip(rows) {
        *place = values[*row as usize];
    }
}

/// Writes views at `at`, and the bytes of what is longer before `tail`; returns where these begin.
fn write_views(page: &mut [u8], at: usize, mut tail: usize, values: &[&[u8]], rows: &[u32]) -> usize {
    for (i, row) in rows.iter().enumerate() {
        let value = values[*row as usize];
        let mut view = [0; 16];
        view[..4].copy_from_slice(&(value.len() as u32).to_le_bytes());
        if value.len() <= INLINE {
            view[4..4 + value.len()].copy_from_slice(value);
        } else {
            tail -= value.len();
            page[tail..tail + value.len()].copy_from_slice(value);
            // Buffer 0 of a column is its page.
            view[4..8].copy_from_slice(&value[..4]);
            view[12..].copy_from_slice(&(tail as u32).to_le_bytes());
        }
        page[at + 16 * i..][..16].copy_from_slice(&view);
    }
    tail
}
