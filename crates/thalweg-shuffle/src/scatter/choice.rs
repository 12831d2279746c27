//! Which way of filling pages is taken where nobody says: a small rule, from what was measured.
//!
//! The figures behind it are in the book, on the page about the shuffle. In short: a visit to a page costs a handful of cache
//! misses, so that as many rows as possible should share one. Buffers that lie in the caches bring more rows to a page than a
//! batch has for it, until rows are so wide, or partitions so many, that a buffer has room for a few only, and batches so large that they have more. Values of any length
//! to two partitions are the exception: copying them twice costs more than the visits. Pages of each thread need nobody's
//! agreement, and are taken where there is memory for them.

use thalweg_memory::page::layout::RowLayout;

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

/// Rows of a batch stay where they are if each of those who take some of them gets so many, as a rule: then what it costs them to look
/// at one more batch is little for a row, and less than what pages cost. Each of them reads the lines of the others' rows, too.
const SELECTED: usize = 2048;

/// Whether so many rows, of which each partition gets its share, had better stay where they are.
pub fn selecting_pays(rows: usize, partitions: usize) -> bool {
    rows >= SELECTED * partitions
}

/// Buffers pay from so many rows on in each, and before that where a batch has less than half as many for each partition.
const ROWS: usize = 32;

/// Buffers have room for so many rows at least.
const FEWEST: usize = 8;

/// Whether buffers of so many bytes together are better than a histogram of each batch of so many rows.
fn buffers_pay(bytes: usize, partitions: usize, layout: &RowLayout, batch_rows: usize) -> bool {
    let partitions = partitions.max(1);
    let rows = layout.buffer_rows(bytes, partitions);
    rows >= (2 * batch_rows / partitions).clamp(FEWEST, ROWS) && !(layout.has_views() && partitions <= 2)
}

impl Walk {
    /// The better way to so many partitions, if buffers may take so many bytes together, and batches have so many rows.
    pub fn choose(layout: &RowLayout, partitions: usize, bytes: usize, batch_rows: usize) -> Self {
        if buffers_pay(bytes, partitions, layout, batch_rows) { Self::Buffered { bytes } } else { Self::Hybrid }
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
    /// The best way for several threads that fill pages together from batches of so many rows.
    pub fn choose(setup: &Setup, batch_rows: usize) -> Self {
        let Setup { layout, partitions, threads, buffers, .. } = setup;
        if !buffers_pay(buffers.bytes / threads, *partitions, layout, batch_rows) {
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
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema};
    use thalweg_memory::pool::Pool;

    use super::*;
    use crate::scatter::{Sizes, buffered::Buffers};

    fn layout(kinds: &[DataType]) -> Arc<RowLayout> {
        let fields: Vec<_> = kinds.iter().map(|kind| Field::new("a", kind.clone(), false)).collect();
        Arc::new(RowLayout::new(Arc::new(Schema::new(fields))).unwrap())
    }

    #[test]
    fn wide_rows_to_many_partitions_and_texts_to_two_go_by_a_histogram() {
        let buffered = Walk::Buffered { bytes: 1 << 20 };
        let fixed = |width| layout(&[DataType::FixedSizeBinary(width)]);
        let choose = |layout: &RowLayout, partitions, bytes| Walk::choose(layout, partitions, bytes, 16 << 10);
        assert_eq!(choose(&fixed(16), 2, 1 << 20), buffered);
        assert_eq!(choose(&fixed(100), 256, 1 << 20), buffered);
        assert_eq!(choose(&fixed(100), 1024, 1 << 20), Walk::Hybrid);
        assert_eq!(choose(&fixed(16), 4, 0), Walk::Hybrid);
        let text = layout(&[DataType::Int64, DataType::Utf8View]);
        assert_eq!((choose(&text, 2, 1 << 20), choose(&text, 4, 1 << 20)), (Walk::Hybrid, buffered));
    }

    #[test]
    fn small_batches_wait_in_small_buffers() {
        let wide = layout(&[DataType::FixedSizeBinary(100)]);
        let choose = |batch_rows| Walk::choose(&wide, 1024, 1 << 20, batch_rows).name();
        assert_eq!([1024, 4096, 8192, 65536].map(choose), ["buffered", "buffered", "hybrid", "hybrid"]);
        assert_eq!(Walk::choose(&wide, 1024, 0, 1).name(), "hybrid");
    }

    #[test]
    fn pages_of_each_thread_are_taken_where_there_is_memory_for_them() {
        let chosen = |partitions, budget, buffers| {
            let setup = Setup {
                layout: layout(&[DataType::Int64]),
                pool: Pool::new(budget),
                partitions,
                threads: 8,
                sizes: Sizes { smallest: 4 << 10, largest: 64 << 10 },
                buffers: Buffers { bytes: buffers, past_caches: false },
            };
            let variant = Variant::choose(&setup, 16 << 10);
            assert!(variant.make(&setup).is_ok(), "{variant}");
            variant
        };
        assert_eq!(chosen(32, 1 << 30, 1 << 20), Variant::LocalMerge);
        assert_eq!(chosen(32, 32 * 2 * (64 << 10), 1 << 20), Variant::BufferedLockFreeBatched);
        assert_eq!(chosen(1024, 1 << 30, 1 << 16), Variant::Hybrid);
    }
}
