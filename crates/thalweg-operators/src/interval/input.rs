//! Rows as they arrive: which of them are on time, and what is kept of them.

use std::sync::{Arc, LazyLock};

use arrow_array::{Array, ArrayRef, UInt32Array, cast::AsArray, make_array, types::Int64Type};
use arrow_buffer::ScalarBuffer;
use arrow_select::take::take;
use thalweg_core::{Batch, Error, Result, Selection, Timestamp, expression::Expression, operator::Came};
use thalweg_memory::{
    kernels::{bounds::bounds, gather::of_rows},
    simd::Level,
};

use super::spare::Spare;
use crate::rows::taken;

/// One of several inputs whose rows are brought together by key and time.
#[derive(Clone)]
pub struct Input {
    /// The column that carries the event time.
    pub time: usize,
    /// The column that says where a row stands in its source, if there is one.
    pub position: Option<usize>,
    /// Whether each row has a position of its own.
    pub has_own_positions: bool,
    /// By what its rows are divided.
    pub keys: Vec<Arc<dyn Expression>>,
}

/// When some rows are.
pub struct Times {
    /// Their event times.
    pub values: ScalarBuffer<i64>,
    /// The earliest and the latest of these.
    pub bounds: Option<(i64, i64)>,
}

impl Times {
    /// These event times.
    pub fn of(values: ScalarBuffer<i64>) -> Self {
        Self { bounds: bounds(Level::best(), &values), values }
    }
}

/// The rows of a batch that are on time.
pub struct OnTime {
    /// These rows.
    pub batch: Batch,
    /// When they are, if that has been looked at.
    pub times: Option<Times>,
    /// How many these and the late ones are.
    pub came: Came,
}

/// What is known of some rows.
pub struct Arrivals {
    /// When they are.
    pub times: Times,
    /// Where they stand in their source; zero where that is not known.
    pub positions: ScalarBuffer<i64>,
}

/// What is kept of some rows.
pub struct Taken {
    /// When they are, and where they stand.
    pub arrivals: Arrivals,
    /// Their keys.
    pub keys: Vec<ArrayRef>,
    /// All their columns.
    pub columns: Vec<ArrayRef>,
}

impl Input {
    /// The rows of a batch that are on time where time has come to `reached`, `allowed` behind the watermarks. Guests are not counted: the
    /// instance whose own they are does that.
    pub fn on_time(&self, batch: Batch, reached: Timestamp, allowed: i64) -> Result<OnTime> {
        let known = batch.behind().is_none().then(|| self.times(&batch)).transpose()?;
        let are_early =
            known.as_ref().is_some_and(|known| known.bounds.is_none_or(|(earliest, _)| earliest >= reached.0));
        let times = batch.times(self.time)?.values();
        let is_late = |row: usize| {
            let met = batch.behind().map_or(Timestamp::MIN, |behind| behind[row]);
            times[row] < reached.0 || times[row] < met.0.saturating_sub(allowed)
        };
        if are_early || !batch.rows().any(is_late) {
            let came = Came { in_time: batch.own().len() as u64, late: 0 };
            return Ok(OnTime { batch, times: known, came });
        }
        let stay: Vec<u32> = batch.rows().filter(|row| !is_late(*row)).map(|row| row as u32).collect();
        let own = batch.own().len();
        let batch = batch.with_selection(Selection::new(stay));
        let in_time = batch.own().len();
        Ok(OnTime { batch, times: None, came: Came { in_time: in_time as u64, late: (own - in_time) as u64 } })
    }

    /// The rows of a batch that are not on time.
    pub fn late(&self, batch: Batch, on_time: &Batch) -> Batch {
        let mut stay = on_time.rows().peekable();
        let is_late = |row: &usize| stay.next_if_eq(row).is_none();
        let late: Vec<u32> = batch.rows().filter(is_late).map(|row| row as u32).collect();
        batch.with_selection(Selection::new(late))
    }

    /// How many of the rows of a batch that are not on time have keys that may equal others: no part of them is null. Guests are not counted,
    /// and rows are whose keys cannot be computed.
    pub fn late_with_keys(&self, batch: Batch, on_time: &Batch) -> u64 {
        let late = self.late(batch, on_time);
        let keys: Vec<ArrayRef> = self.keys.iter().filter_map(|key| key.evaluate(&late).ok()).collect();
        let has_keys = |row: &&usize| keys.iter().all(|key| !key.is_null(**row));
        late.rows().collect::<Vec<_>>()[late.own()].iter().filter(has_keys).count() as u64
    }

    /// Copies of the selected rows, with their keys; their times may be known.
    pub fn taken(&self, batch: &Batch, times: Option<Times>, spare: &mut Spare) -> Result<Taken> {
        let (arrivals, rows) = (self.arrivals(batch, times)?, selected(batch));
        let mut copied = |column: &ArrayRef| copied_rows(column, rows.as_ref(), spare);
        let mut key = |key: &Arc<dyn Expression>| key.evaluate(batch).and_then(|column| copied(&column));
        let keys = self.keys.iter().map(&mut key).collect::<Result<Vec<_>>>()?;
        let columns = batch.columns().columns().iter().map(copied).collect::<Result<_>>()?;
        Ok(Taken { arrivals, keys, columns })
    }

    /// The event times of the selected rows.
    pub fn times(&self, batch: &Batch) -> Result<Times> {
        let times = batch.times(self.time)?;
        // Rows that were dropped at the source need none.
        if times.null_count() > 0 && batch.rows().any(|row| times.is_null(row)) {
            return Err(Error::bug("a row has no event time"));
        }
        Ok(Times::of(of_selected(batch, times.values())))
    }

    /// Times and positions of the selected rows, of which the times may be known.
    pub fn arrivals(&self, batch: &Batch, times: Option<Times>) -> Result<Arrivals> {
        let positions = match self.position {
            None => zeros(batch.len()),
            Some(column) => {
                let positions = batch.column(column).as_primitive_opt::<Int64Type>();
                of_selected(batch, positions.ok_or_else(|| Error::bug("positions are whole numbers"))?.values())
            }
        };
        let times = times.map_or_else(|| self.times(batch), Ok)?;
        Ok(Arrivals { times, positions })
    }
}

/// So many zeros.
fn zeros(count: usize) -> ScalarBuffer<i64> {
    static ZEROS: LazyLock<ScalarBuffer<i64>> = LazyLock::new(|| vec![0; 1 << 13].into());
    if count <= ZEROS.len() { ZEROS.slice(0, count) } else { vec![0; count].into() }
}

/// The values of the selected rows.
fn of_selected(batch: &Batch, values: &ScalarBuffer<i64>) -> ScalarBuffer<i64> {
    match batch.selection() {
        None => values.clone(),
        Some(selection) => of_rows(Level::best(), values, selection.rows()).into(),
    }
}

/// A copy of a column: what is kept has no part in a page.
pub fn copied(column: &ArrayRef, spare: &mut Spare) -> Result<ArrayRef> {
    let width = column.data_type().primitive_width().filter(|_| column.null_count() == 0);
    let Some(width) = width else {
        return Ok(take(column, &UInt32Array::from_iter_values(0..column.len() as u32), None)?);
    };
    let data = column.to_data();
    let values = spare.copy(&data.buffers()[0].as_slice()[data.offset() * width..][..data.len() * width]);
    let data = data.into_builder().offset(0).buffers(vec![values]).nulls(None);
    Ok(make_array(data.build()?))
}

/// A copy of the values of the selected rows in a column.
pub fn copied_rows(column: &ArrayRef, rows: Option<&UInt32Array>, spare: &mut Spare) -> Result<ArrayRef> {
    match rows {
        None => copied(column, spare),
        Some(rows) => taken(column, rows),
    }
}

/// The numbers of the selected rows of a batch; `None` is all.
pub fn selected(batch: &Batch) -> Option<UInt32Array> {
    batch.selection().map(|selection| selection.to_indices())
}

#[cfg(test)]
mod tests {
    use arrow_array::{RecordBatch, TimestampMicrosecondArray};

    use super::*;

    #[test]
    fn rows_that_are_out_need_no_event_time() {
        let times = Arc::new(TimestampMicrosecondArray::from(vec![Some(5), None, Some(7)])) as ArrayRef;
        let batch = Batch::new(RecordBatch::try_from_iter([("t", times)]).unwrap());
        let input = Input { time: 0, position: None, has_own_positions: false, keys: Vec::new() };
        let on_time = |rows| input.on_time(batch.clone().with_selection(Selection::new(rows)), Timestamp(6), 0);
        let OnTime { batch: left, times, came } = on_time(vec![0, 2]).unwrap();
        assert_eq!((came.in_time, came.late), (1, 1));
        assert_eq!(*input.arrivals(&left, times).unwrap().times.values, [7]);
        assert!(on_time(vec![0, 1]).is_err());
    }

    #[test]
    fn a_row_is_late_by_the_watermark_it_met_or_by_how_far_time_has_come() {
        let times = Arc::new(TimestampMicrosecondArray::from(vec![5, 20, 7, 30])) as ArrayRef;
        let batch = Batch::new(RecordBatch::try_from_iter([("t", times)]).unwrap());
        let input = Input { time: 0, position: None, has_own_positions: false, keys: Vec::new() };
        let on_time = |batch: &Batch, reached, allowed| {
            let OnTime { batch, times, came } = input.on_time(batch.clone(), Timestamp(reached), allowed).unwrap();
            let Times { values, bounds } = input.arrivals(&batch, times).unwrap().times;
            assert_eq!(bounds, values.iter().min().copied().zip(values.iter().max().copied()));
            (values.to_vec(), came.in_time, came.late)
        };
        assert_eq!(on_time(&batch, i64::MIN, 0), (vec![5, 20, 7, 30], 4, 0));
        assert_eq!(on_time(&batch, 20, 0), (vec![20, 30], 2, 2));
        let selected = batch.clone().with_selection(Selection::new(vec![0, 1, 3]));
        assert_eq!(on_time(&selected, 5, 0), (vec![5, 20, 30], 3, 0));
        assert_eq!(on_time(&selected, 6, 0), (vec![20, 30], 2, 1));
        let met = [0, 0, 10, 31].map(Timestamp);
        let behind = batch.with_behind(met.to_vec().into());
        assert_eq!(on_time(&behind, i64::MIN, 0), (vec![5, 20], 2, 2));
        assert_eq!(on_time(&behind, i64::MIN, 1), (vec![5, 20, 30], 3, 1));
        assert_eq!(
            on_time(&behind.clone().with_own(0..3), i64::MIN, 0),
            (vec![5, 20], 2, 1),
            "of a guest nobody speaks"
        );
    }
}
