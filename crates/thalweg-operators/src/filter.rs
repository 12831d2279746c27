//! Keeps the rows for which a predicate is true.

use std::sync::Arc;

use thalweg_core::{Batch, Operator, Output, Port, Progress, Result, expression::Expression};

/// Keeps the rows for which a predicate is true; false and null drop a row.
///
/// Shape:  any row → the same row, or none. No row is copied: the batch carries a selection.
/// State:  none.
/// Errors: what the predicate gives for a row it cannot be computed for.
pub struct Filter {
    predicate: Arc<dyn Expression>,
}

impl Filter {
    /// A filter by a boolean expression.
    pub fn new(predicate: Arc<dyn Expression>) -> Self {
        Self { predicate }
    }
}

impl Operator for Filter {
    fn on_batch(&mut self, _: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        match self.predicate.select(&batch)? {
            None => out.emit(batch), // Nothing was filtered, so pass the buffers on.
            Some(selection) => out.emit(batch.with_selection(selection)), // The rows stay where they are.
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, cast::AsArray};

    use super::*;

    #[derive(Debug)]
    struct Column(usize);

    impl Expression for Column {
        fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
            Ok(Arc::clone(batch.column(self.0)))
        }
    }

    /// The row numbers left after filtering by each of the masks in turn.
    fn filtered(masks: &[Vec<Option<bool>>]) -> Vec<usize> {
        let columns = masks.iter().map(|mask| ("m", Arc::new(BooleanArray::from(mask.clone())) as ArrayRef));
        let mut batches = vec![Batch::new(RecordBatch::try_from_iter(columns).unwrap())];
        for column in 0..masks.len() {
            let mut out = Output::new(100);
            let mut filter = Filter::new(Arc::new(Column(column)));
            batches
                .drain(..)
                .for_each(|batch| assert_eq!(filter.on_batch(0, batch, &mut out).unwrap(), Progress::Done));
            batches = out.take(0).into_iter().map(|(_, batch)| batch).collect();
            let first = |batch: &Batch| batch.column(0).as_boolean().values().inner().as_ptr();
            let shared = batches.iter().all(|batch| batch.column(0).offset() == 0 && !first(batch).is_null());
            assert!(shared, "columns are passed on");
        }
        batches.iter().flat_map(Batch::rows).collect()
    }

    #[test]
    fn true_keeps_and_false_and_null_drop() {
        assert_eq!(filtered(&[vec![Some(true), None, Some(false), Some(true)]]), [0, 3]);
    }

    #[test]
    fn filters_compose_without_copying() {
        let first = vec![Some(true), Some(true), Some(false), Some(true)];
        let second = vec![Some(false), Some(true), Some(true), Some(true)];
        assert_eq!(filtered(&[first.clone(), second]), [1, 3]);
        assert_eq!(filtered(&[first, vec![None; 4]]), [0; 0]);
        assert_eq!(filtered(&[vec![Some(true); 3], vec![Some(true); 3]]), [0, 1, 2]);
    }
}
