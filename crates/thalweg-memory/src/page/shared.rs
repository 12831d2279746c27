//! Several threads fill a page: each reserves slots, and writes them when nobody waits for it.
//!
//! ```text
//! state    closed? 1 bit │ bytes used at the end, 31 bits │ slots reserved, 32 bits      one compare-and-exchange reserves both
//! written  rows that were written; closing adds 2³² less the rows reserved: whoever makes it 2³² is the last, and has the page
//! ```

use std::{ops::Range, ptr::NonNull, sync::Arc};

use thalweg_core::{Error, Result};

use super::{
    Header, Page,
    layout::{Place, RowLayout, Shape},
    rows::{Cells, Lengths, Rows, write},
    writer::LONGEST,
};
use crate::{
    pool::Block,
    sync::{AtomicU8, AtomicU64, Mutex, Ordering},
};

const CLOSED: u64 = 1 << 63;
const ALL_WRITTEN: u64 = 1 << 32;

/// A page that threads fill together: rows of one reservation lie behind each other, and no slot stays empty before the last.
///
/// Source: the lock-free page of the shuffle thesis (section 3.3.2), with the bytes at the page's end in the same word as the slots,
/// so that rows of any length are reserved at once.
pub struct SharedPage {
    layout: Arc<RowLayout>,
    places: Vec<Place>,
    /// Taken by whoever finishes the page.
    block: Mutex<Option<Block>>,
    start: NonNull<u8>,
    capacity: usize,
    /// How many bytes there are between the minipages and the page's end.
    room: usize,
    bytes: usize,
    state: Padded<AtomicU64>,
    written: Padded<AtomicU64>,
}

/// Alone on its cache lines, so that threads that write it do not disturb the readers of its neighbours.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Padded<T>(pub T);

// SAFETY: the pointer is that of the block, whose bytes are written by those alone who reserved them.
#[allow(unsafe_code)]
unsafe impl Send for SharedPage {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for SharedPage {}

/// What a page had room for.
pub struct Reserved<'p> {
    /// The slots, if there were any; the rows they are for are the first of those that were asked for.
    pub slots: Option<Slots<'p>>,
    /// Whether the page takes no more rows.
    pub is_closed: bool,
    /// The page, if this closed it and all its rows were written.
    pub page: Option<Page>,
}

/// Slots of a page that belong to whoever reserved them, until they are written.
pub struct Slots<'p> {
    page: &'p SharedPage,
    slots: Range<usize>,
    tail: Range<usize>,
}

impl SharedPage {
    /// An empty page in a block, for at most so many rows, for whose minipages the block has room.
    ///
    /// Errors: `Error::Bug` if it has none.
    pub(super) fn new(layout: Arc<RowLayout>, mut block: Block, capacity: usize) -> Result<Self> {
        let bytes = block.len().min(LONGEST);
        let room = bytes.checked_sub(layout.bytes(capacity)).filter(|_| u32::try_from(capacity).is_ok());
        let room = room.ok_or_else(|| Error::bug("a page has no room for its minipages"))?;
        let places = layout.places(capacity);
        // Bits of neighbouring slots share bytes: they are added to what must be zeros.
        for (column, place) in layout.columns().iter().zip(&places) {
            let bits = capacity.div_ceil(8);
            let of_values = (column.shape == Shape::Bits).then_some(place.values);
            for at in place.validity.into_iter().chain(of_values) {
                block.bytes_mut()[at..at + bits].fill(0);
            }
        }
        let start = block.start();
        Ok(Self {
            layout,
            places,
            block: Mutex::new(Some(block)),
            start,
            capacity,
            room,
            bytes,
            state: Padded(AtomicU64::new(0)),
            written: Padded(AtomicU64::new(0)),
        })
    }

    /// Reserves slots for as many of the rows as fit; where that is not all of them, the page is closed.
    pub fn reserve(&self, rows: &impl Lengths) -> Reserved<'_> {
        let mut state = self.state.0.load(Ordering::Acquire);
        loop {
            if state & CLOSED != 0 {
                return Reserved { slots: None, is_closed: true, page: None };
            }
            let (used, tails) = (state as u32 as usize, (state >> 32) as usize);
            let (fitting, bytes) = rows.fitting(self.capacity - used, self.room - tails);
            let is_full = fitting < rows.len();
            let next = (used + fitting) as u64 | ((tails + bytes) as u64) << 32 | if is_full { CLOSED } else { 0 };
            match self.state.0.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire) {
                Err(now) => state = now,
                Ok(_) => {
                    let end = self.bytes - tails;
                    let slots = (fitting > 0).then(|| Slots {
                        page: self,
                        slots: used..used + fitting,
                        tail: end - bytes..end,
                    });
                    let page = if is_full { self.add_written(ALL_WRITTEN - (used + fitting) as u64) } else { None };
                    return Reserved { slots, is_closed: is_full, page };
                }
            }
        }
    }

    /// Whether it takes no more rows.
    pub fn is_closed(&self) -> bool {
        self.state.0.load(Ordering::Acquire) & CLOSED != 0
    }

    /// How many slots are reserved.
    pub fn rows(&self) -> usize {
        self.state.0.load(Ordering::Acquire) as u32 as usize
    }

    /// How many bytes at the page's end are reserved.
    pub fn tail_bytes(&self) -> usize {
        ((self.state.0.load(Ordering::Acquire) & !CLOSED) >> 32) as usize
    }

    /// Lets no more rows in. The page, if all its rows are written and nobody closed it before: else whoever writes the last has it.
    pub fn close(&self) -> Option<Page> {
        let state = self.state.0.fetch_or(CLOSED, Ordering::AcqRel);
        if state & CLOSED != 0 {
            return None;
        }
        self.add_written(ALL_WRITTEN - u64::from(state as u32))
    }

    /// Counts rows that were written; the page, if these were the last.
    fn add_written(&self, rows: u64) -> Option<Page> {
        // Release: what was written is seen by whoever is last. Acquire: the last sees it.
        let before = self.written.0.fetch_add(rows, Ordering::AcqRel);
        (before + rows == ALL_WRITTEN).then(|| self.finish()).flatten()
    }

    fn finish(&self) -> Option<Page> {
        let mut block = self.block.lock().take()?;
        let header = Header {
            columns: self.layout.columns().len() as u16,
            bytes: block.len() as u32,
            capacity: self.capacity as u32,
            rows: self.rows() as u32,
            tail: (self.bytes - self.tail_bytes()) as u32,
            fingerprint: self.layout.fingerprint(),
        };
        header.write(block.bytes_mut());
        Some(Page::new(Arc::clone(&self.layout), block, header))
    }
}

impl Slots<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Never: there are no slots without rows.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The same slots, to be written later; `page` is where they were reserved.
    pub fn planned(self, page: &Arc<SharedPage>) -> PlannedSlots {
        assert!(std::ptr::eq(self.page, Arc::as_ptr(page)), "slots are of the page that they were reserved in");
        PlannedSlots { page: Arc::clone(page), slots: self.slots, tail: self.tail }
    }

    /// Writes the first rows into the slots, as many as there are; the page, if these were the last that it waited for.
    pub fn write(self, rows: &impl Rows) -> Option<Page> {
        let Self { page, slots, tail } = self;
        let count = slots.len();
        let mine = Mine { page };
        match count == rows.len() {
            true => write(mine, &page.layout, &page.places, slots, tail, rows),
            false => write(mine, &page.layout, &page.places, slots, tail, &rows.first(count)),
        }
        page.add_written(count as u64)
    }
}

/// Slots that are written later, perhaps by another thread.
pub struct PlannedSlots {
    page: Arc<SharedPage>,
    slots: Range<usize>,
    tail: Range<usize>,
}

impl PlannedSlots {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether all were written.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Writes rows into the first slots that were not written; the page, if these were the last that it waited for. The rows
    /// must be those that the slots were reserved for, in their order.
    pub fn write_next(&mut self, rows: &impl Rows) -> Option<Page> {
        let (count, bytes) = (rows.len(), rows.tails());
        assert!(count <= self.slots.len() && bytes <= self.tail.len(), "there are slots for these rows");
        let slots = self.slots.start..self.slots.start + count;
        let tail = self.tail.end - bytes..self.tail.end;
        (self.slots.start, self.tail.end) = (slots.end, tail.start);
        Slots { page: &self.page, slots, tail }.write(rows)
    }
}

/// The bytes of slots that were reserved.
struct Mine<'p> {
    page: &'p SharedPage,
}

impl Mine<'_> {
    #[allow(unsafe_code, clippy::mut_from_ref)]
    fn slice(&self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.page.bytes, "what is written lies in the page");
        // SAFETY: the range is within the block, which is not given away before these rows are counted as written. `write` asks
        // for cells of reserved slots, and for reserved bytes at the end, which nobody else has, and for no byte twice at a time.
        unsafe { std::slice::from_raw_parts_mut(self.page.start.add(range.start).as_ptr(), range.len()) }
    }
}

impl Cells for Mine<'_> {
    fn bytes(&mut self, range: Range<usize>) -> &mut [u8] {
        self.slice(range)
    }

    fn two(&mut self, first: Range<usize>, second: Range<usize>) -> (&mut [u8], &mut [u8]) {
        assert!(first.end <= second.start, "the second lies behind the first");
        (self.slice(first), self.slice(second))
    }

    #[allow(unsafe_code)]
    fn set_bits(&mut self, at: usize, slots: Range<usize>, bit: impl Fn(usize) -> bool) {
        let mut slot = slots.start;
        while slot < slots.end {
            let (byte, end) = (slot / 8, slots.end.min((slot / 8 + 1) * 8));
            let bits = (slot..end).fold(0, |bits, one| bits | u8::from(bit(one - slots.start)) << (one % 8));
            assert!(at + byte < self.page.bytes, "what is written lies in the page");
            // SAFETY: the byte is within the block; all who write bits of it do so atomically, and it was zeroed before.
            let shared = unsafe { &*self.page.start.add(at + byte).as_ptr().cast::<AtomicU8>() };
            match end - slot {
                8 => shared.store(bits, Ordering::Relaxed),
                _ => drop(shared.fetch_or(bits, Ordering::Relaxed)),
            }
            slot = end;
        }
    }
}
