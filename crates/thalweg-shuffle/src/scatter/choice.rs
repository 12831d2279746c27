//! Which way of filling pages is taken where nobody says: a small rule, from what was measured.
//!
//! The figures behind it are in the book, on the page about the shuffle. In short: a visit to a page costs a handful of cache
//! misses, so that as many rows as possible should share one. Buffers that lie in the caches bring more rows to a page than a
//! batch has for it, until rows are so wide, or partitions so many, that a buffer has room for a few only. Pages of each thread
//! need nobody's agreement, and are taken where there is memory for them.

use super::variant::{Setup, Variant};

/// How one thread that has pages of its own walks through a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// Rows wait in buffers of about so many bytes together, until one is full.
    Buffered {
        /// How many bytes they take.
        bytes: usize,
    },
    /// A histogram of the batch, then the rows of each partition behind each other.
    Hybrid,
}

/// Buffers pay from so many rows on in each.
const ROWS: usize = 8;

/// Whether buffers of so many bytes together have room for enough rows of each partition.
fn buffers_pay(bytes: usize, partitions: usize, row_bytes: usize) -> bool {
    bytes / partitions.max(1) / row_bytes.max(1) >= ROWS
}

impl Walk {
    /// The better way for rows of so many bytes to so many partitions, if buffers may take so many bytes together.
    pub fn choose(row_bytes: usize, partitions: usize, bytes: usize) -> Self {
        if buffers_pay(bytes, partitions, row_bytes) { Self::Buffered { bytes } } else { Self::Hybrid }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Buffered { .. } => "buffered",
            Self::Hybrid => "hybrid",
        }
    }
}

impl Variant {
    /// The best way for several threads that fill pages together.
    pub fn choose(setup: &Setup) -> Self {
        let Setup { layout, partitions, threads, buffers, .. } = setup;
        if !buffers_pay(buffers.bytes / threads, *partitions, layout.row_bytes()) {
            return Self::Hybrid;
        }
        match Self::LocalMerge.least_memory(setup) <= setup.pool.budget() {
            true => Self::LocalMerge,
            false => Self::BufferedLockFreeBatched,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_rows_to_many_partitions_go_by_a_histogram() {
        assert_eq!(Walk::choose(16, 4, 1 << 20), Walk::Buffered { bytes: 1 << 20 });
        assert_eq!(Walk::choose(100, 1024, 1 << 20), Walk::Buffered { bytes: 1 << 20 });
        assert_eq!(Walk::choose(200, 1024, 1 << 20), Walk::Hybrid);
        assert_eq!(Walk::choose(16, 4, 0), Walk::Hybrid);
    }
}
