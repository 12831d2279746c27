//! Rows as they arrive: which of them are on time, and what is kept of them.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt32Array, cast::AsArray, types::Int64Type};
use arrow_select::take::take;
use thalweg_core::{Batch, Error, Result, Selection, Timestamp, expression::Expression};

/// One of several inputs whose rows are brought together by key and time.
#[derive(Clone)]
pub struct Input {
    /// The column that carries the event time.
    pub time: usize,
    /// The column that says where a row stands in its source, if there is one.
    pub position: Option<usize>,
    /// By what its rows are divided.
    pub keys: Vec<Arc<dyn Expression>>,
}

/// What is known of some rows.
pub struct Arrivals {
    /// Their event times.
    pub times: Vec<i64>,
    /// Where they stand in their source; zero where that is not known.
    pub positions: Vec<i64>,
}

impl Input {
    /// The rows of a batch that are on time where time has come to `reached`, `allowed` behind the watermarks; and how many are late.
    pub fn on_time(&self, batch: Batch, reached: Timestamp, allowed: i64) -> Result<(Batch, usize)> {
        let times = batch.times(self.time)?.values();
        let is_late = |row: usize| {
            let met = batch.behind().map_or(Timestamp::MIN, |behind| behind[row]);
            times[row] < reached.0 || times[row] < met.0.saturating_sub(allowed)
        };
        if !batch.rows().any(is_late) {
            return Ok((batch, 0));
        }
        let stay: Vec<u32> = batch.rows().filter(|row| !is_late(*row)).map(|row| row as u32).collect();
        let late = batch.len() - stay.len();
        Ok((batch.with_selection(Selection::new(stay)), late))
    }

    /// Times and positions of the selected rows.
    pub fn arrivals(&self, batch: &Batch) -> Result<Arrivals> {
        let times = batch.times(self.time)?;
        if times.null_count() > 0 {
            return Err(Error::bug("a row has no event time"));
        }
        let times = times.values();
        let positions = match self.position {
            None => vec![0; batch.len()],
            Some(column) => {
                let positions = batch.column(column).as_primitive_opt::<Int64Type>();
                let positions = positions.ok_or_else(|| Error::bug("positions are whole numbers"))?.values();
                batch.rows().map(|row| positions[row]).collect()
            }
        };
        Ok(Arrivals { times: batch.rows().map(|row| times[row]).collect(), positions })
    }
}

/// A copy of the selected values of a column: what is kept has no part in a page.
pub fn copied(column: &ArrayRef, rows: &UInt32Array) -> Result<ArrayRef> {
    Ok(take(column, rows, None)?)
}

/// The numbers of the selected rows of a batch.
pub fn selected(batch: &Batch) -> UInt32Array {
    match batch.selection() {
        Some(selection) => selection.to_indices(),
        None => UInt32Array::from_iter_values(0..batch.physical_rows() as u32),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{RecordBatch, TimestampMicrosecondArray};

    use super::*;

    #[test]
    fn a_row_is_late_by_the_watermark_it_met_or_by_how_far_time_has_come() {
        let times = Arc::new(TimestampMicrosecondArray::from(vec![5, 20, 7, 30])) as ArrayRef;
        let batch = Batch::new(RecordBatch::try_from_iter([("t", times)]).unwrap());
        let input = Input { time: 0, position: None, keys: Vec::new() };
        let on_time = |batch: &Batch, reached, allowed| {
            let (batch, late) = input.on_time(batch.clone(), Timestamp(reached), allowed).unwrap();
            (input.arrivals(&batch).unwrap().times, late)
        };
        assert_eq!(on_time(&batch, i64::MIN, 0), (vec![5, 20, 7, 30], 0));
        assert_eq!(on_time(&batch, 20, 0), (vec![20, 30], 2));
        let met = [0, 0, 10, 31].map(Timestamp);
        let behind = batch.with_behind(met.to_vec().into());
        assert_eq!(on_time(&behind, i64::MIN, 0), (vec![5, 20], 2));
        assert_eq!(on_time(&behind, i64::MIN, 1), (vec![5, 20, 30], 1));
    }
}
