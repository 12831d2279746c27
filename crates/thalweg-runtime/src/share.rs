//! What of the exchanges' memory is one sender's, and what it makes of it.

use arrow_array::Array;
use arrow_schema::{FieldRef, SchemaRef};
use thalweg_core::{Batch, Error, Result};
use thalweg_memory::page::{layout::SMALLEST, staging::footprint};
use thalweg_plan::settings::{Scatter, Settings};
use thalweg_shuffle::scatter::{
    Sizes,
    choice::{Walk, selecting_pays},
};

use crate::{packing::Packing, pipe::CAPACITY};

/// What rows on their way may take, if nobody has said; or so much for each pair of a sender and a receiver, where that is more.
const MEMORY: usize = 64 << 20;
const MEMORY_OF_A_PAIR: usize = 4 * SMALLEST;

/// Pages are no larger than this: what a receiver reads is still in a cache then. With 8 MiB they cost a fourth more.
const LARGEST: usize = 512 << 10;

/// Buffers do not take more than this: they pay while they lie in the caches.
const BUFFERS: usize = 1 << 20;

/// So many batches of a sender are on their way to a receiver at once, at most, where it gets them as they are: what a pipe holds and as
/// many that its receiver has taken out of it together, the one that it works on, and the one that waits for room. They are others' as
/// well, as a rule: who gets few rows of a batch gets copies, and a pipe that is full stops the sender.
const ALIVE: usize = 2 * CAPACITY + 2;

/// What one sender of an exchange has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// How many bytes its pages may take.
    pub pages: usize,
    /// How many bytes its buffers of one kind of batches may take, about.
    pub buffers: usize,
    /// How large its pages are.
    pub sizes: Sizes,
    /// How many bytes a batch may have that receivers get as it is.
    pub batch: usize,
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
        Ok(Self { pages, buffers, sizes, batch: all / ALIVE, receivers, asked, batch_rows })
    }

    /// Whether receivers get a batch as it is, each with the numbers of its rows. Who did so with the one before goes on for longer: what
    /// lies in pages travels at each change.
    pub fn selects(&self, batch: &Batch, is_going_on: bool) -> bool {
        let rows = if is_going_on { 2 * batch.len() } else { batch.len() };
        self.would_select(rows) && bytes(batch) <= self.batch
    }

    /// How rows of a schema get to their receivers where batches are as full as they may be.
    pub fn how(&self, schema: &SchemaRef) -> &'static str {
        // Of values of any length their views alone are known.
        let width = |field: &FieldRef| field.data_type().primitive_width().unwrap_or(size_of::<u128>());
        let row: usize = schema.fields().iter().map(width).sum();
        match self.would_select(self.batch_rows) && self.batch_rows * row <= self.batch {
            true => "selected",
            false => self.walk(schema).map_or("copied", Walk::name),
        }
    }

    /// Whether receivers would get a batch of so many rows as it is, if it is small enough.
    fn would_select(&self, rows: usize) -> bool {
        match self.asked {
            Scatter::Auto => selecting_pays(rows, self.receivers),
            Scatter::Selected => true,
            Scatter::Buffered | Scatter::Hybrid => false,
        }
    }

    /// How it fills its pages with rows of a schema; `None` where pages cannot hold these, which are copied.
    pub fn walk(&self, schema: &SchemaRef) -> Option<Walk> {
        let packing = Packing::new(schema, false)?;
        Some(match self.asked {
            Scatter::Auto | Scatter::Selected => {
                Walk::choose(packing.layout(), self.receivers, self.buffers, self.batch_rows)
            }
            Scatter::Buffered => Walk::Buffered { bytes: self.buffers },
            Scatter::Hybrid => Walk::Hybrid,
        })
    }
}

/// How many bytes the rows of a batch take, selected or not.
fn bytes(batch: &Batch) -> usize {
    // What cannot be said of a column is that it is small.
    let bytes = |column: &dyn Array| column.to_data().get_slice_memory_size().unwrap_or(usize::MAX / 2);
    batch.columns().columns().iter().fold(0, |sum, column| sum.saturating_add(bytes(column.as_ref())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};

    use super::*;

    #[test]
    fn batches_stay_where_they_are_if_many_rows_go_to_each_and_memory_is_enough_for_as_many_as_may_be_on_their_way() {
        let numbers = |rows: i64| Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef;
        let batch = |rows| Batch::new(RecordBatch::try_from_iter([("v", numbers(rows))]).unwrap());
        let share = |settings: &Settings, receivers| Share::new(settings, 2 * receivers, receivers).unwrap();
        let auto = Settings::default();
        let selects = |receivers, rows, is_going_on| share(&auto, receivers).selects(&batch(rows), is_going_on);
        assert!(selects(2, 8192, false) && selects(4, 8192, false) && !selects(5, 8192, false));
        assert!(!selects(4, 4096, false), "too few for each");
        assert!(selects(4, 4096, true) && !selects(4, 4095, true), "who selects goes on for longer");
        let schema = batch(1).schema();
        assert_eq!([4, 5].map(|receivers| share(&auto, receivers).how(&schema)), ["selected", "buffered"]);
        let asked =
            |scatter, memory| Settings { exchange_scatter: scatter, exchange_memory: memory, ..Settings::default() };
        assert!(!share(&asked(Scatter::Hybrid, None), 2).selects(&batch(8192), false));
        assert_eq!(share(&asked(Scatter::Buffered, None), 2).how(&schema), "buffered");
        let selected = asked(Scatter::Selected, None);
        assert!(share(&selected, 64).selects(&batch(1), false), "as was asked");
        assert_eq!(share(&selected, 64).how(&schema), "selected");
        // A slice of much is what it has itself.
        let least = |rows: i64| Some(2 * ALIVE * 8 * rows as usize);
        let few = batch(100_000).slice(10..1010);
        assert!(share(&asked(Scatter::Selected, least(1000)), 2).selects(&few, false));
        let tight = share(&asked(Scatter::Selected, least(999)), 2);
        assert!(!tight.selects(&few, false));
        assert_eq!(tight.how(&schema), "buffered");
        let texts = Arc::new(StringArray::from(vec!["a text of some length"; 1000])) as ArrayRef;
        let texts = Batch::new(RecordBatch::try_from_iter([("t", texts)]).unwrap());
        assert!(!share(&asked(Scatter::Selected, least(2000)), 2).selects(&texts, false), "its bytes are counted");
    }

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
