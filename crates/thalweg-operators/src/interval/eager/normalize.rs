//! Corrections, as those see them who read some columns, of some rows.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch, StringArray, cast::AsArray};
use arrow_ord::ord::make_comparator;
use arrow_schema::{SchemaRef, SortOptions};
use thalweg_core::{Batch, Error, Operator, Output, Port, Progress, Result, Selection};

use super::op::Op;

/// Leaves out corrections that change none of the columns, and names what a filter left of others: `+I` of what is there now and was not
/// before, `-D` of what was there and is no more.
///
/// Shape:  rows of which one column says what becomes of each → the same rows, or fewer. What a row was stands before what it is, in one
///         batch; filters leave both where they are.
/// State:  none.
pub struct Normalize {
    output: SchemaRef,
    op: usize,
}

impl Normalize {
    /// For batches of these columns, of which this one says what becomes of a row.
    pub fn new(output: SchemaRef, op: usize) -> Self {
        Self { output, op }
    }
}

impl Operator for Normalize {
    fn on_batch(&mut self, _: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        let column = Arc::clone(batch.column(self.op));
        let Some(ops) = column.as_string_opt::<i32>() else {
            return Err(Error::bug("what becomes of a row is no text"));
        };
        let is = |row: usize, op: Op| row < ops.len() && ops.value(row) == op.word();
        let mut is_there = vec![false; ops.len() + 1];
        batch.rows().for_each(|row| is_there[row] = true);
        let (mut kept, mut named) = (Vec::new(), Vec::new());
        let mut compared = None;
        for row in batch.rows() {
            let is_named = match (is(row, Op::Before), is(row, Op::After)) {
                (true, _) if !is_there[row + 1] => Some(Op::Delete),
                (true, _) => {
                    if compared.is_none() {
                        compared = Some(self.compared(&batch)?);
                    }
                    let mut columns = compared.iter().flatten();
                    if columns.all(|compare| compare(row, row + 1).is_eq()) {
                        is_there[row + 1] = false;
                        continue;
                    }
                    None
                }
                (_, true) if !is_there[row] => continue,
                (_, true) if row == 0 || !is_there[row - 1] => Some(Op::Insert),
                _ => None,
            };
            kept.push(row as u32);
            named.extend(is_named.map(|op| (row, op)));
        }
        if named.is_empty() && kept.len() == batch.len() {
            return out.emit(batch);
        }
        let mut batch = batch;
        if !named.is_empty() {
            let mut words: Vec<Option<&str>> = ops.iter().collect();
            named.iter().for_each(|(row, op)| words[*row] = Some(op.word()));
            let mut columns = batch.columns().columns().to_vec();
            columns[self.op] = Arc::new(StringArray::from(words));
            batch = batch.with_columns(RecordBatch::try_new(Arc::clone(&self.output), columns)?);
        }
        out.emit(batch.with_selection(Selection::new(kept)))
    }
}

type Compare = Box<dyn Fn(usize, usize) -> std::cmp::Ordering + Send + Sync>;

impl Normalize {
    /// Compares rows by each of the other columns.
    fn compared(&self, batch: &Batch) -> Result<Vec<Compare>> {
        let others = batch.columns().columns().iter().enumerate().filter(|(number, _)| *number != self.op);
        let compared = others.map(|(_, column)| Ok(make_comparator(column, column, SortOptions::default())?));
        compared.collect()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array, types::Int64Type};

    use super::*;

    /// What is left of rows, of which some are selected, in words.
    fn normalized(rows: &[(&str, i64)], selected: &[u32]) -> Vec<String> {
        let ops = StringArray::from_iter_values(rows.iter().map(|(op, _)| *op));
        let values = Int64Array::from_iter_values(rows.iter().map(|(_, value)| *value));
        let columns = [("v", Arc::new(values) as ArrayRef), ("op", Arc::new(ops))];
        let columns = RecordBatch::try_from_iter(columns).unwrap();
        let mut normalize = Normalize::new(columns.schema(), 1);
        let mut out = Output::new(1);
        let batch = Batch::new(columns).with_selection(Selection::new(selected.to_vec()));
        normalize.on_batch(0, batch, &mut out).unwrap();
        let (_, batch) = out.take(0).pop().unwrap();
        let word = |row: usize| {
            let (ops, values) = (batch.column(1).as_string::<i32>(), batch.column(0).as_primitive::<Int64Type>());
            format!("{} {}", ops.value(row), values.value(row))
        };
        batch.rows().map(word).collect()
    }

    #[test]
    fn what_changes_nothing_is_left_out() {
        let rows = [("+I", 1), ("-U", 1), ("+U", 1), ("-U", 1), ("+U", 2), ("-D", 2)];
        assert_eq!(normalized(&rows, &[0, 1, 2, 3, 4, 5]), ["+I 1", "-U 1", "+U 2", "-D 2"]);
    }

    #[test]
    fn what_is_left_of_a_correction_comes_or_goes() {
        let rows = [("-U", 1), ("+U", 2), ("-U", 3), ("+U", 3), ("-U", 4), ("+U", 5), ("+I", 6)];
        assert_eq!(normalized(&rows, &[1, 2, 3, 4, 6]), ["+I 2", "-D 4", "+I 6"]);
        assert_eq!(normalized(&rows, &[0, 5]), ["-D 1", "+I 5"]);
        assert_eq!(normalized(&rows, &[0, 3]), ["-D 1", "+I 3"], "halves of two corrections are no correction");
    }
}
