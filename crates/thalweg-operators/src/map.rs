//! Computes one output column per expression.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use thalweg_core::{Batch, Operator, Output, Port, Progress, Result, expression::Expression};

/// Computes one output column per expression.
///
/// Shape:  any row → one row with a value per expression. Columns that are merely passed on are not copied, and rows that a
///         filter dropped stay where they are.
/// State:  none.
/// Errors: what an expression gives for a row it cannot be computed for.
pub struct Map {
    expressions: Vec<Arc<dyn Expression>>,
    output: SchemaRef,
}

impl Map {
    /// A map to these expressions, whose types are those of `output`.
    pub fn new(expressions: Vec<Arc<dyn Expression>>, output: SchemaRef) -> Self {
        assert_eq!(expressions.len(), output.fields().len(), "one expression per output column");
        Self { expressions, output }
    }
}

impl Operator for Map {
    fn on_batch(&mut self, _: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        let columns = self.expressions.iter().map(|expression| expression.evaluate(&batch)).collect::<Result<_>>()?;
        // A batch without columns still has rows.
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.physical_rows()));
        let columns = RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &rows)?;
        out.emit(batch.with_columns(columns))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int32Array};
    use arrow_schema::Schema;
    use thalweg_core::Selection;

    use super::*;

    #[derive(Debug)]
    struct Column(usize);

    impl Expression for Column {
        fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
            Ok(Arc::clone(batch.column(self.0)))
        }
    }

    #[test]
    fn columns_pass_without_a_copy_and_the_selection_stays() {
        let column = |values: Vec<i32>| Arc::new(Int32Array::from(values)) as ArrayRef;
        let input = RecordBatch::try_from_iter([("a", column(vec![1, 2])), ("b", column(vec![3, 4]))]).unwrap();
        let schema = Arc::new(input.schema().project(&[1, 0]).unwrap());
        let mut out = Output::new(10);
        let batch = Batch::new(input.clone()).with_selection(Selection::new(vec![1]));
        Map::new(vec![Arc::new(Column(1)), Arc::new(Column(0))], schema).on_batch(0, batch, &mut out).unwrap();
        let (_, mapped) = out.take(0).pop().unwrap();
        assert_eq!(mapped.rows().collect::<Vec<_>>(), [1]);
        assert!(Arc::ptr_eq(mapped.column(0), input.column(1)));
    }

    #[test]
    fn a_map_to_nothing_keeps_the_number_of_rows() {
        let input = RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef)]).unwrap();
        let mut out = Output::new(10);
        Map::new(vec![], Arc::new(Schema::empty())).on_batch(0, Batch::new(input), &mut out).unwrap();
        assert_eq!(out.take(0)[0].1.len(), 2);
    }
}
