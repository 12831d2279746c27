//! Blocks of memory that are used again: taken from the system in slabs, under a budget, and never given back while they are of use.
//!
//! ```text
//! slab: 2 MiB or a multiple, aligned to 2 MiB, so that the system may back it by huge pages
//! | block | block | block | …            all of one size: 4 KiB, 8 KiB, … 4 MiB, 5 MiB
//! ```
//!
//! At steady state taking a block is a pop from a list, and its memory has been touched before.

use std::{
    alloc::{Layout, alloc, dealloc},
    fmt,
    ptr::NonNull,
    sync::Arc,
};

use arrow_buffer::Buffer;

use crate::sync::{Mutex, MutexGuard};

/// The sizes that are kept in slabs; what is larger has memory of its own.
const SIZES: [usize; 12] = [
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
    5 << 20,
];

/// What the system may back by one huge page.
pub const HUGE: usize = 2 << 20;

/// Blocks of memory under a budget. Clones share it.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    budget: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Free blocks by size, each with its slab's number.
    free: [Vec<(NonNull<u8>, usize)>; SIZES.len()],
    slabs: Vec<Option<Slab>>,
    /// What was taken from the system, and of it the bytes of blocks in use; now, and at most.
    reserved: usize,
    used: usize,
    peak: Peak,
    waiting: Vec<Waker>,
    /// Whether the system refused memory at a time when no block was in use, so that none would come back.
    is_refused: bool,
}

/// The most bytes that a pool had at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Taken from the system, used or not.
    pub reserved: usize,
    /// In use.
    pub used: usize,
}

/// Called once, when a block was given back.
type Waker = Box<dyn FnOnce() + Send>;

struct Slab {
    memory: NonNull<u8>,
    layout: Layout,
    blocks: usize,
    free: usize,
}

// SAFETY: a state owns the memory that its pointers name, which nobody reads or writes without a block.
#[allow(unsafe_code)]
unsafe impl Send for State {}

/// Memory that is its owner's alone, and goes back to its pool when it is dropped. Aligned to 4 KiB.
pub struct Block {
    memory: NonNull<u8>,
    bytes: usize,
    slab: usize,
    pool: Arc<Shared>,
}

// SAFETY: a block owns its memory.
#[allow(unsafe_code)]
unsafe impl Send for Block {}
// SAFETY: through a shared block memory is only read.
#[allow(unsafe_code)]
unsafe impl Sync for Block {}

impl Pool {
    /// A pool that takes at most so many bytes from the system.
    pub fn new(budget: usize) -> Self {
        Self { shared: Arc::new(Shared { budget, state: Mutex::new(State::default()) }) }
    }

    /// A block of at least so many bytes; `None` where the budget is spent. What it contains is what it contained before.
    pub fn take(&self, bytes: usize) -> Option<Block> {
        let mut state = self.shared.state();
        let class = class_of(bytes);
        let size = block_bytes(bytes);
        let (memory, slab) = match class.and_then(|class| state.free[class].pop()) {
            Some(block) => block,
            None => state.grow(size, class, self.shared.budget)?,
        };
        if let Some(slab) = &mut state.slabs[slab] {
            slab.free -= 1;
        }
        state.used += size;
        state.peak.used = state.peak.used.max(state.used);
        Some(Block { memory, bytes: size, slab, pool: Arc::clone(&self.shared) })
    }

    /// Calls back when the next block is given back: for who was refused one. A block may have come back since: ask once more
    /// behind this call, before waiting.
    pub fn when_free(&self, wake: impl FnOnce() + Send + 'static) {
        self.shared.state().waiting.push(Box::new(wake));
    }

    /// Whether a block of so many bytes could be taken if no other were in use.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        block_bytes(bytes) <= self.shared.budget
    }

    /// Whether the system, not the budget, refused the last block that a pool of which no block was in use asked for: nobody
    /// needs to wait for one to come back.
    pub fn is_refused(&self) -> bool {
        self.shared.state().is_refused
    }

    /// How many bytes it takes from the system at most.
    pub fn budget(&self) -> usize {
        self.shared.budget
    }

    /// How many bytes were taken from the system and are held, used or not.
    pub fn reserved(&self) -> usize {
        self.shared.state().reserved
    }

    /// How many bytes are in use.
    pub fn used(&self) -> usize {
        self.shared.state().used
    }

    /// The most that it ever had.
    pub fn peak(&self) -> Peak {
        self.shared.state().peak
    }
}

/// Which of the sizes a block of so many bytes has, if any.
fn class_of(bytes: usize) -> Option<usize> {
    SIZES.iter().position(|size| *size >= bytes)
}

/// How many bytes a block of at least so many has.
pub fn block_bytes(bytes: usize) -> usize {
    class_of(bytes).map_or_else(|| bytes.next_multiple_of(HUGE), |class| SIZES[class])
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Takes a slab from the system, and a block from it.
    fn grow(&mut self, size: usize, class: Option<usize>, budget: usize) -> Option<(NonNull<u8>, usize)> {
        let slab_bytes = match class {
            // Two blocks of 5 MiB are five huge pages.
            Some(_) if size > HUGE && !size.is_multiple_of(HUGE) => 2 * size,
            Some(_) if size > HUGE => size,
            // A slab of a huge page for each size, unless that would be much of the budget.
            Some(_) if budget >= 64 * HUGE => HUGE,
            Some(_) => HUGE.min(size * 16),
            None => size,
        };
        self.is_refused = false;
        if self.reserved + slab_bytes > budget {
            self.release();
        }
        // Where little is left, a block alone will do.
        let left = budget.saturating_sub(self.reserved);
        let bytes = if slab_bytes <= left { slab_bytes } else { size };
        if bytes > left {
            return None;
        }
        let alignment = if bytes % HUGE == 0 { HUGE } else { SIZES[0] };
        let layout = Layout::from_size_align(bytes, alignment).ok()?;
        let memory = allocate(layout).or_else(|| {
            self.release();
            allocate(layout)
        });
        self.is_refused = memory.is_none() && self.used == 0;
        let memory = memory?;
        let slab = Slab { memory, layout, blocks: bytes / size, free: bytes / size };
        let number = self.slabs.iter().position(Option::is_none).unwrap_or(self.slabs.len());
        let blocks = slab.blocks;
        match self.slabs.get_mut(number) {
            Some(place) => *place = Some(slab),
            None => self.slabs.push(Some(slab)),
        }
        self.reserved += bytes;
        self.peak.reserved = self.peak.reserved.max(self.reserved);
        if let Some(class) = class {
            // The last first, so that the first ones are taken first.
            self.free[class].extend((1..blocks).rev().map(|block| (block_of(memory, block * size), number)));
        }
        Some((memory, number))
    }

    /// Gives slabs back to the system of which no block is in use.
    fn release(&mut self) {
        for number in 0..self.slabs.len() {
            if self.slabs[number].as_ref().is_some_and(|slab| slab.free == slab.blocks) {
                self.drop_slab(number);
            }
        }
    }

    fn drop_slab(&mut self, number: usize) {
        if let Some(slab) = self.slabs[number].take() {
            self.free.iter_mut().for_each(|free| free.retain(|(_, owner)| *owner != number));
            self.reserved -= slab.layout.size();
            deallocate(slab.memory, slab.layout);
        }
    }

    fn put(&mut self, memory: NonNull<u8>, bytes: usize, number: usize) -> Vec<Waker> {
        self.used -= bytes;
        if let Some(slab) = &mut self.slabs[number] {
            slab.free += 1;
        }
        match SIZES.iter().position(|size| *size == bytes) {
            Some(class) => self.free[class].push((memory, number)),
            None => self.drop_slab(number),
        }
        std::mem::take(&mut self.waiting)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // Blocks keep the state alive: none is in use.
        (0..self.slabs.len()).for_each(|number| self.drop_slab(number));
    }
}

impl Block {
    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Where it begins.
    pub fn start(&self) -> NonNull<u8> {
        self.memory
    }

    /// Its bytes.
    #[allow(unsafe_code)]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is this block's, of this size, and was zeros when it was allocated.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.bytes) }
    }

    /// Its bytes, to be written.
    #[allow(unsafe_code)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; nobody else has a reference.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.bytes) }
    }
}

impl Block {
    /// Some bytes of a block that does not change any more; they keep it.
    #[allow(unsafe_code)]
    pub fn buffer(block: &Arc<Self>, at: usize, bytes: usize) -> Buffer {
        assert!(at + bytes <= block.bytes, "what is read of a block lies in it");
        // SAFETY: the bytes lie in the block, which the buffer keeps, and which is shared, so that nobody writes it.
        unsafe { Buffer::from_custom_allocation(block.memory.add(at), bytes, Arc::clone(block) as _) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let waiting = self.pool.state().put(self.memory, self.bytes, self.slab);
        waiting.into_iter().for_each(|wake| wake());
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block of {} bytes", self.bytes)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool of {} bytes, {} of them reserved", self.shared.budget, self.reserved())
    }
}

#[allow(unsafe_code)]
fn block_of(slab: NonNull<u8>, offset: usize) -> NonNull<u8> {
    // SAFETY: the offset is within the slab.
    unsafe { slab.add(offset) }
}

#[allow(unsafe_code)]
fn allocate(layout: Layout) -> Option<NonNull<u8>> {
    // SAFETY: no slab is empty.
    let memory = NonNull::new(unsafe { alloc(layout) })?;
    #[cfg(target_os = "linux")]
    if layout.align() == HUGE {
        // A wish: where the system has no huge pages for it, small ones do.
        // SAFETY: the memory is ours, aligned, and of this size.
        unsafe { libc::madvise(memory.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
    }
    // Behind the wish: the first touch decides of which size a page is.
    // SAFETY: the memory is ours and of this size.
    unsafe { memory.write_bytes(0, layout.size()) };
    Some(memory)
}

#[allow(unsafe_code)]
fn deallocate(memory: NonNull<u8>, layout: Layout) {
    // SAFETY: it was allocated with this layout, and no block of it is in use.
    unsafe { dealloc(memory.as_ptr(), layout) };
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn blocks_are_used_again_and_the_budget_holds() {
        let pool = Pool::new(6 << 20);
        let mut first = pool.take(5000).unwrap();
        assert_eq!(first.len(), 8 << 10);
        first.bytes_mut()[4999] = 7;
        let place = first.start();
        drop(first);
        let again = pool.take(8 << 10).unwrap();
        assert_eq!((again.start(), again.bytes()[4999]), (place, 7), "the same memory");
        let reserved = pool.reserved();
        assert!(pool.take(6 << 20).is_none(), "a block that would exceed the budget");
        let large = pool.take(5 << 20).expect("for one block there is room, for a slab there is none");
        assert_eq!(large.start().as_ptr() as usize % 4096, 0);
        assert_eq!(pool.used(), (5 << 20) + (8 << 10));
        drop(large);
        drop(again);
        assert_eq!(pool.used(), 0);
        assert!(pool.reserved() > reserved);
        let most = Peak { reserved: pool.reserved(), used: (5 << 20) + (8 << 10) };
        assert_eq!(pool.peak(), most, "what was in use together, and nothing of what was refused");
        // What lies unused makes room for another size.
        assert_eq!(pool.take((5 << 20) + 1).unwrap().len(), 6 << 20);
        assert_eq!((pool.used(), pool.peak().used), (0, 6 << 20), "the most stays when all went back");
    }

    #[test]
    fn what_the_system_refuses_is_not_waited_for() {
        let more_than_there_is = 1 << 50;
        let pool = Pool::new(usize::MAX);
        let block = pool.take(5000).unwrap();
        assert!(pool.take(more_than_there_is).is_none() && !pool.is_refused(), "a block may come back");
        drop(block);
        assert!(pool.take(more_than_there_is).is_none() && pool.is_refused());
        assert!(pool.take(5000).is_some());
        let pool = Pool::new(more_than_there_is);
        assert!(pool.take(more_than_there_is + 1).is_none() && !pool.is_refused(), "the budget says no");
    }

    #[test]
    fn who_was_refused_is_called_when_a_block_comes_back() {
        let pool = Pool::new(5 << 20);
        let calls = Arc::new(AtomicUsize::new(0));
        let held = pool.take(5 << 20).unwrap();
        assert!(pool.take(4096).is_none());
        let called = Arc::clone(&calls);
        pool.when_free(move || {
            called.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(calls.load(Ordering::Relaxed), 0);
        drop(held);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        let again = pool.take(4096);
        drop(again);
        assert_eq!(calls.load(Ordering::Relaxed), 1, "once");
    }

    #[test]
    fn many_threads_have_blocks_of_their_own() {
        let pool = Pool::new(64 << 20);
        std::thread::scope(|threads| {
            for thread in 0..4_u8 {
                let pool = pool.clone();
                threads.spawn(move || {
                    let mut held = Vec::new();
                    for round in 0..2000_usize {
                        let mut block = pool.take(SIZES[round % 5]).unwrap();
                        block.bytes_mut().fill(thread);
                        held.push(block);
                        if held.len() > 20 {
                            let block = held.swap_remove(round % 20);
                            assert!(block.bytes().iter().all(|byte| *byte == thread));
                        }
                    }
                });
            }
        });
        assert_eq!(pool.used(), 0);
    }
}
