//! Atomics and locks of the standard library; when threads are modelled, those of `loom`, which tries all orders in which they may
//! run, or of `shuttle`, which tries random ones.

#[cfg(loom)]
use loom::sync as modelled;
#[cfg(shuttle)]
use shuttle::sync as modelled;
#[cfg(not(any(loom, shuttle)))]
use std::sync as modelled;

pub use modelled::{
    MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};
/// Bits in pages are not modelled: they lie in memory that no model knows.
#[cfg(not(shuttle))]
pub use std::sync::atomic::AtomicU8;

/// Bits in pages: memory that shuttle does not know, but other threads have a turn before they change. So it is seen when a page is
/// passed on before all of it is written.
#[cfg(shuttle)]
#[repr(transparent)]
#[derive(Debug)]
pub struct AtomicU8(std::sync::atomic::AtomicU8);

#[cfg(shuttle)]
impl AtomicU8 {
    /// As that of the standard library.
    pub fn store(&self, bits: u8, order: Ordering) {
        others();
        self.0.store(bits, order);
    }

    /// As that of the standard library.
    pub fn fetch_or(&self, bits: u8, order: Ordering) -> u8 {
        others();
        self.0.fetch_or(bits, order)
    }
}

/// Gives other threads a turn, as each access to an atomic does.
#[cfg(shuttle)]
fn others() {
    modelled::atomic::AtomicBool::new(false).load(Ordering::Relaxed);
}

/// A lock that a panic does not poison: what it guards is changed at one stroke.
#[derive(Debug)]
pub struct Mutex<T>(modelled::Mutex<T>);

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Mutex<T> {
    /// An open lock.
    pub fn new(value: T) -> Self {
        Self(modelled::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
