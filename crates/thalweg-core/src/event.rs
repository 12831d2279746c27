//! What travels on a pipe, in order; nothing overtakes.

use crate::{Batch, Timestamp};

/// One thing that arrives.
#[derive(Clone, Debug)]
pub enum Event {
    /// Rows.
    Batch(Batch),
    /// All rows before this time have come, but for those that are late. [`Timestamp::MAX`] ends the stream.
    Watermark(Timestamp),
    /// Nothing is to be waited for here until the next event of another kind.
    Idle,
    /// All that belongs to the epoch has come; the next one starts.
    Barrier(Epoch),
}

/// The number of an epoch: what lies between two barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);
