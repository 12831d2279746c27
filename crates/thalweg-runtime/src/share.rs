//! What of the exchanges' memory is one sender's, and what it makes of it.

use arrow_schema::SchemaRef;
use thalweg_core::{Error, Result};
use thalweg_memory::page::{layout::SMALLEST, staging::footprint};
use thalweg_plan::settings::{Scatter, Settings};
use thalweg_shuffle::scatter::{Sizes, choice::Walk};

use crate::packing::Packing;

/// What rows on their way may take, if nobody has said; or so much for each pair of a sender and a receiver, where that is more.
const MEMORY: usize = 64 << 20;
const MEMORY_OF_A_PAIR: usize = 4 * SMALLEST;

/// Pages are no larger than this: what a receiver reads is still in a cache then. With 8 MiB they cost a fourth more.
const LARGEST: usize = 512 << 10;

/// Buffers do not take more than this: they pay while they lie in the caches.
const BUFFERS: usize = 1 << 20;

/// What one sender of an exchange has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// How many bytes its pages may take.
    pub pages: usize,
    /// How many bytes its buffers of one kind of batches may take, about.
    pub buffers: usize,
    /// How large its pages are.
    pub sizes: Sizes,
    receivers: usize,
    asked: Scatter,
    batch_rows: usize,
}

impl Share {
    /// What `'exchange.memory'` leaves to a sender with so many receivers, where so many pairs of a sender and a receiver share it.
    ///
    /// Errors: `Error::Query` if it is too little for a page that is open and one that is on its way, for each pair.
    pub fn new(settings: &Settings, pairs: usize, receivers: usize) -> Result<Self> {
        let pairs = pairs.max(1);
        let memory = settings.exchange_memory.unwrap_or(MEMORY.max(pairs * MEMORY_OF_A_PAIR));
        let least = 2 * SMALLEST * pairs;
        if memory < least {
            let message = format!(
                "'exchange.memory' is {memory} bytes, and {pairs} pairs of a sender and a receiver need {least}"
            );
            return Err(Error::query(message).with_hint("SET a larger 'exchange.memory', or a smaller 'parallelism'"));
        }
        let all = memory / pairs * receivers;
        let spare = all - 2 * SMALLEST * receivers;
        // Batches with and without late rows have buffers each.
        let is_affordable = |bytes: &usize| 2 * footprint(*bytes) <= spare.min(all / 2);
        let sizes = std::iter::successors(Some((all / 8).min(BUFFERS)), |bytes| (*bytes > 0).then_some(bytes / 2));
        let buffers = sizes.into_iter().find(is_affordable).unwrap_or(0);
        let pages = all - 2 * footprint(buffers);
        let mut sizes = Sizes::within(pages, 1, receivers);
        sizes.largest = sizes.largest.min(LARGEST);
        let (asked, batch_rows) = (settings.exchange_scatter, settings.batch_rows);
        Ok(Self { pages, buffers, sizes, receivers, asked, batch_rows })
    }

    /// How it fills its pages with rows of a schema; `None` where pages cannot hold these, which are copied.
    pub fn walk(&self, schema: &SchemaRef) -> Option<Walk> {
        let packing = Packing::new(schema, false)?;
        Some(match self.asked {
            Scatter::Auto => Walk::choose(packing.layout(), self.receivers, self.buffers, self.batch_rows),
            Scatter::Buffered => Walk::Buffered { bytes: self.buffers },
            Scatter::Hybrid => Walk::Hybrid,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unless_somebody_says_how_much_there_is_enough_for_any_number_of_instances() {
        for pairs in [1, 4, 4096, 128 * 128, 3 * 128 * 128] {
            let share = Share::new(&Settings::default(), pairs, 128).unwrap();
            assert!(share.pages >= 2 * SMALLEST * 128, "{pairs} pairs");
        }
        let few = Share::new(&Settings::default(), 16, 4).unwrap();
        assert_eq!(few, Share::new(&Settings { exchange_memory: Some(MEMORY), ..Settings::default() }, 16, 4).unwrap());
    }
}
