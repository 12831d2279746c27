//! Gives each row to one of several outputs.

use std::sync::Arc;

use thalweg_core::{Batch, Operator, Output, Port, Progress, Result, Selection, expression::Expression};

/// Gives each row to the output of the first predicate that is true for it, and to the last output if none is. False and null
/// go on to the next predicate, which is asked only for the rows that got there.
///
/// Shape:  any row → the same row, on one of the outputs `0..=predicates`. No row is copied.
/// State:  none.
/// Errors: what a predicate gives for a row it cannot be computed for.
/// Source: Gulisano et al., "StreamCloud", §II-A: the filter as a case statement.
pub struct Split {
    predicates: Vec<Arc<dyn Expression>>,
}

impl Split {
    /// A split by these boolean expressions.
    pub fn new(predicates: Vec<Arc<dyn Expression>>) -> Self {
        Self { predicates }
    }
}

impl Operator for Split {
    fn on_batch(&mut self, _: Port, mut batch: Batch, out: &mut Output) -> Result<Progress> {
        for (port, predicate) in self.predicates.iter().enumerate() {
            if batch.is_empty() {
                return Ok(Progress::Done);
            }
            let Some(taken) = predicate.select(&batch)? else { return out.emit_to(port, batch) };
            let rest = without(&batch, &taken);
            out.emit_to(port, batch.clone().with_selection(taken))?;
            batch = batch.with_selection(rest);
        }
        out.emit_to(self.predicates.len(), batch)
    }
}

/// The rows of the batch that were not taken. Both ascend.
fn without(batch: &Batch, taken: &Selection) -> Selection {
    let mut gone = taken.rows().iter().copied().peekable();
    let is_left = |row: &u32| gone.next_if_eq(row).is_none();
    Selection::new(batch.rows().map(|row| row as u32).filter(is_left).collect())
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
    use thalweg_core::Error;

    use super::*;

    #[derive(Debug)]
    struct Column(usize);

    impl Expression for Column {
        fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
            Ok(Arc::clone(batch.column(self.0)))
        }
    }

    fn split(masks: &[Vec<Option<bool>>], selection: Option<Vec<u32>>) -> Vec<(Port, Vec<usize>)> {
        let columns = masks.iter().map(|mask| ("m", Arc::new(BooleanArray::from(mask.clone())) as ArrayRef));
        let mut batch = Batch::new(RecordBatch::try_from_iter(columns).unwrap());
        if let Some(rows) = selection {
            batch = batch.with_selection(Selection::new(rows));
        }
        let mut out = Output::new(100);
        let predicates = (0..masks.len()).map(|column| Arc::new(Column(column)) as Arc<dyn Expression>);
        Split::new(predicates.collect()).on_batch(0, batch, &mut out).unwrap();
        out.take(0).into_iter().map(|(port, batch)| (port, batch.rows().collect())).collect()
    }

    #[test]
    fn the_first_predicate_that_is_true_takes_a_row() {
        let first = vec![Some(true), None, Some(false), Some(true), Some(false)];
        let second = vec![Some(true), Some(true), Some(false), Some(true), None];
        assert_eq!(split(&[first.clone(), second.clone()], None), [(0, vec![0, 3]), (1, vec![1]), (2, vec![2, 4])]);
        assert_eq!(split(&[first, second], Some(vec![1, 2])), [(1, vec![1]), (2, vec![2])]);
        assert_eq!(split(&[vec![Some(true); 2], vec![Some(true); 2]], None), [(0, vec![0, 1])]);
    }

    #[derive(Debug)]
    struct Fails;

    impl Expression for Fails {
        fn evaluate(&self, _: &Batch) -> Result<ArrayRef> {
            Err(Error::data("division by zero"))
        }
    }

    #[test]
    fn a_predicate_is_not_asked_for_rows_that_are_taken() {
        let all: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
        let batch = Batch::new(RecordBatch::try_from_iter([("m", all)]).unwrap());
        let mut split = Split::new(vec![Arc::new(Column(0)), Arc::new(Fails)]);
        split.on_batch(0, batch, &mut Output::new(1)).unwrap();
    }
}
