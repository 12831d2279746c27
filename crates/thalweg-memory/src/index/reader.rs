//! Who searches an index.

use std::{fmt, iter::FusedIterator, ops::RangeInclusive, sync::Arc};

use super::{
    Shared,
    arena::{Arena, Node},
    list::find,
    order_of, time_of,
};
use crate::sync::Ordering;

/// Searches the index of a writer from any thread. Each thread has its own; a clone searches the same index.
pub struct Reader {
    shared: Arc<Shared>,
    pub(super) slot: usize,
}

impl Reader {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), slot: shared.epochs.enter() }
    }

    /// How many rows were inserted, at least: a view that is pinned after this call shows all of them, but those that were expired.
    pub fn frontier(&self) -> u64 {
        // Acquire: what was inserted is found from now on.
        self.shared.frontier.0.load(Ordering::Acquire)
    }

    /// Lets the reader look, for a batch of lookups: what it sees is not used again before the view is dropped, so that the writer
    /// needs more memory the longer a view is kept. It costs as much as a few lookups do.
    pub fn pin(&mut self) -> View<'_> {
        self.shared.epochs.pin(self.slot);
        View { reader: self }
    }
}

impl Clone for Reader {
    fn clone(&self) -> Self {
        Self::new(&self.shared)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.epochs.leave(self.slot);
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader of an index into which {} rows were inserted", self.frontier())
    }
}

/// An index while a reader looks. It goes on to change: what is inserted or expired meanwhile may be found or not.
pub struct View<'r> {
    reader: &'r Reader,
}

impl View<'_> {
    /// As [`Reader::frontier`]: lookups after this call find all of these rows.
    pub fn frontier(&self) -> u64 {
        self.reader.frontier()
    }

    /// The rows of a key with times from the first to the last: times and values, by time, and as they were inserted where times
    /// are equal.
    ///
    /// It takes O(log keys + log rows of the key), and visits the rows that it gives and no others.
    pub fn range(&self, key: u64, times: RangeInclusive<i64>) -> Range<'_> {
        let arena = &self.reader.shared.arena;
        let (first, last) = times.into_inner();
        let node = find(arena, arena.head(Node::ROOT), key).filter(|node| first <= last && arena.order(*node) == key);
        let next = node.and_then(|node| find(arena, arena.head(node), order_of(first)));
        Range { arena, next, last: order_of(last) }
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        self.reader.shared.epochs.unpin(self.reader.slot);
    }
}

/// Times and values of rows, as [`View::range`] gives them.
pub struct Range<'v> {
    arena: &'v Arena,
    next: Option<Node>,
    last: u64,
}

impl Iterator for Range<'_> {
    type Item = (i64, u64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let node = self.next?;
        let order = self.arena.order(node);
        if order > self.last {
            self.next = None;
            return None;
        }
        self.next = self.arena.next(node, 0);
        Some((time_of(order), self.arena.value(node)))
    }
}

impl FusedIterator for Range<'_> {}
