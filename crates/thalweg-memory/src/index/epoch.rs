//! Epochs: when nobody can see any more what the writer has taken out.
//!
//! The writer takes nodes out in one epoch, and ends it. A reader that pins an epoch does not see what was taken out in earlier ones.
//! So a node may be used again when all readers that are pinned have pinned a later epoch than that in which it was taken out.
//!
//! ```text
//! writer   takes out in e │ now = e + 1 │ fence │ looks at all slots: all idle, or > e? Then those of e are free
//! reader                    slot = now │ fence │ reads … │ slot = idle
//! ```
//!
//! One of the two fences is first. If it is the reader's, the writer sees its slot; if it is the writer's, the reader sees all that the
//! writer did before, and finds none of these nodes. No more is needed with one writer: nobody waits for readers to arrive in an epoch.

use crate::{
    page::shared::Padded,
    stable::Stable,
    sync::{AtomicU64, AtomicUsize, Ordering, fence},
};

/// A slot that belongs to no reader.
const FREE: u64 = 0;
/// A slot whose reader reads nothing now: later than all epochs.
const IDLE: u64 = u64::MAX;

/// The first epoch.
pub(super) const FIRST: u64 = 1;

/// The epoch that is now, and those that readers have pinned.
pub(super) struct Epochs {
    now: Padded<AtomicU64>,
    slots: Stable<Padded<AtomicU64>>,
    count: AtomicUsize,
}

impl Default for Epochs {
    fn default() -> Self {
        Self { now: Padded(AtomicU64::new(FIRST)), slots: Stable::default(), count: AtomicUsize::new(0) }
    }
}

impl Epochs {
    /// A slot for one reader, until it leaves.
    pub(super) fn enter(&self) -> usize {
        let is_taken =
            |slot: &Padded<AtomicU64>| slot.0.compare_exchange(FREE, IDLE, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let count = self.count.load(Ordering::Acquire);
        if let Some(slot) = (0..count).find(|slot| self.slots.get(*slot).is_some_and(is_taken)) {
            return slot;
        }
        let slot = self.count.fetch_add(1, Ordering::AcqRel);
        self.slots.set(slot, Padded(AtomicU64::new(IDLE)));
        slot
    }

    /// Gives the slot back.
    pub(super) fn leave(&self, slot: usize) {
        self.set(slot, FREE);
    }

    /// Pins the epoch that is now.
    pub(super) fn pin(&self, slot: usize) {
        self.set(slot, self.now.0.load(Ordering::Relaxed));
        // It also acquires what belongs to the epoch: what was taken out in earlier ones is not found.
        fence(Ordering::SeqCst);
    }

    /// Ends what `pin` began.
    pub(super) fn unpin(&self, slot: usize) {
        self.set(slot, IDLE);
    }

    /// Begins the next epoch. The writer calls it.
    pub(super) fn begin(&self, epoch: u64) {
        // Release: who pins it sees what was taken out before.
        self.now.0.store(epoch, Ordering::Release);
        // A model interrupts threads where they touch the same thing, and no fence is one: a reader may pin before the next one.
        #[cfg(loom)]
        self.slots.get(0).map(|slot| slot.0.load(Ordering::Relaxed));
    }

    /// The earliest epoch that is pinned; later than all where none is. The writer calls it.
    pub(super) fn earliest(&self) -> u64 {
        fence(Ordering::SeqCst);
        let slots = (0..self.count.load(Ordering::Acquire)).filter_map(|slot| self.slots.get(slot));
        // Acquire: what its reader did before is over.
        let epochs = slots.map(|slot| slot.0.load(Ordering::Acquire)).filter(|epoch| *epoch != FREE);
        epochs.min().unwrap_or(IDLE)
    }

    fn set(&self, slot: usize, epoch: u64) {
        if let Some(slot) = self.slots.get(slot) {
            // Release, always: whichever epoch the writer sees here, it knows that what was read in those before is over.
            slot.0.store(epoch, Ordering::Release);
        }
    }
}
