//! The time-travel index of Scale-OIJ: rows by key and event time, which one thread writes while others search it, without a lock.
//!
//! ```text
//! keys     head ─► a ──────────► b ──────────► c ─► end
//!                  │             │             └─► head ─► (9, ↗) ─► end
//!                  │             └─► head ─► (2, ↗) ─► (3, ↗) ─► end
//!                  └─► head ─► (1, ↗) ─► (4, ↗) ─► (4, ↗) ─► (7, ↗) ─► end       times, each with what leads to its row
//! ```
//!
//! Both layers are skip lists, so that of all rows those alone are visited that lie in the span of time that is asked for. Who finds
//! a node finds all that it was filled with, since links are stored with release and loaded with acquire. Rows that are too old are
//! taken out while others read; their memory is used again when nobody can be there any more.
//!
//! ```
//! use thalweg_memory::index::{Row, Writer};
//! let mut writer = Writer::default();
//! let mut reader = writer.reader();
//! writer.insert_batch([Row { key: 7, time: 20, value: 1 }, Row { key: 7, time: 10, value: 2 }]);
//! assert_eq!(reader.frontier(), 2);
//! assert!(reader.pin().range(7, 5..=20).eq([(10, 2), (20, 1)]));
//! assert_eq!(writer.expire(15).rows, 1);
//! assert!(reader.pin().range(7, 5..=20).eq([(20, 1)]));
//! ```
//!
//! Source: Zhang et al., "Scalable Online Interval Join on Modern Multicore Processors in OpenMLDB", §V-A. The paper leaves open how
//! rows are taken out; that, and how the writer goes on where it was, is ours.

mod arena;
mod epoch;
mod list;
mod nodes;
mod reader;
mod writer;

#[cfg(test)]
mod tests;

pub use reader::{Range, Reader, View};
pub use writer::{Expired, Writer};

use self::{arena::Arena, epoch::Epochs};
use crate::{page::shared::Padded, sync::AtomicU64};

/// A row of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The number of its key, or a hash of it: then who reads compares the keys themselves.
    pub key: u64,
    /// Its event time, in any unit.
    pub time: i64,
    /// What leads to it. What the writer's thread wrote before it inserted the row is seen by who finds the value.
    pub value: u64,
}

/// What the writer shares with the readers.
#[derive(Default)]
struct Shared {
    arena: Arena,
    epochs: Epochs,
    /// How many rows were inserted.
    frontier: Padded<AtomicU64>,
}

/// Numbers that are in the order of times.
fn order_of(time: i64) -> u64 {
    time as u64 ^ 1 << 63
}

fn time_of(order: u64) -> i64 {
    (order ^ 1 << 63) as i64
}
