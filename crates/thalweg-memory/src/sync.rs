//! Atomics and locks of the standard library; those of `loom`, which tries all orders in which threads may run, when it models them.

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
/// Bits in pages are not modelled: they lie in memory that loom does not know.
#[cfg(loom)]
pub use std::sync::atomic::AtomicU8;

/// A lock that a panic does not poison: what it guards is changed at one stroke.
#[derive(Debug)]
pub struct Mutex<T>(Inner<T>);

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

#[cfg(not(loom))]
pub use std::sync::MutexGuard;

#[cfg(not(loom))]
use std::sync::Mutex as Inner;

#[cfg(loom)]
pub use loom::sync::MutexGuard;

#[cfg(loom)]
use loom::sync::Mutex as Inner;

impl<T> Mutex<T> {
    /// An open lock.
    pub fn new(value: T) -> Self {
        Self(Inner::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
