//! Rows in columns, with which of them are still in.

use std::{ops::Range, sync::Arc};

use arrow_array::{
    Array, ArrayRef, RecordBatch, TimestampMicrosecondArray, UInt32Array, cast::AsArray,
    types::TimestampMicrosecondType,
};
use arrow_schema::SchemaRef;
use arrow_select::take::take_record_batch;

use crate::{Error, Positions, Result, Selection, Timestamp};

/// Rows that travel together: Arrow columns, an optional selection, and what the source knew of them.
///
/// *Physical* rows are those of the columns; *selected* rows are those still in. `behind`, `origin`, `positions` and `own` speak of
/// physical rows, so a filter need not touch them.
#[derive(Clone, Debug)]
pub struct Batch {
    columns: RecordBatch,
    selection: Option<Selection>,
    behind: Option<Arc<[Timestamp]>>,
    origin: Option<Origin>,
    positions: Option<Arc<Positions>>,
    own: Option<Range<usize>>,
}

/// The position of a batch's first physical row in its source; the rows that follow have the offsets that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The source's partition, numbered by the partitions' sorted names.
    pub partition: u32,
    /// How many rows of the partition came before.
    pub offset: u64,
}

impl Batch {
    /// All rows of these columns.
    pub fn new(columns: RecordBatch) -> Self {
        Self { columns, selection: None, behind: None, origin: None, positions: None, own: None }
    }

    /// The same rows, which stand at this place in their source.
    pub fn with_origin(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// The same rows, each with the watermark that its source partition had reached before it.
    ///
    /// Only set where some row is behind that watermark; absent means that every row is on time for everything.
    pub fn with_behind(mut self, behind: Arc<[Timestamp]>) -> Self {
        assert_eq!(behind.len(), self.physical_rows(), "one watermark per physical row");
        self.behind = Some(behind);
        self
    }

    /// The same rows, which stand here among those of all instances.
    ///
    /// Only set where somebody will put the rows of several instances in order.
    pub fn with_positions(mut self, positions: Arc<Positions>) -> Self {
        assert_eq!(positions.len(), self.physical_rows(), "one position per physical row");
        self.positions = Some(positions);
        self
    }

    /// The same rows, of which only these (physical) ones are for the instance that gets them. The others are *guests*: rows of a key
    /// group that several instances share, which may be seen here, and for which another instance is there.
    pub fn with_own(mut self, own: Range<usize>) -> Self {
        assert!(own.end <= self.physical_rows(), "rows that are there");
        self.own = Some(own);
        self
    }

    /// The same columns, of which only the rows of this selection (of physical rows) are in.
    pub fn with_selection(mut self, selection: Selection) -> Self {
        self.selection = (!selection.keeps(self.physical_rows())).then_some(selection);
        self
    }

    /// Other columns for the same physical rows; selection, lateness, origin and positions stay.
    pub fn with_columns(mut self, columns: RecordBatch) -> Self {
        assert_eq!(columns.num_rows(), self.physical_rows(), "columns of the same rows");
        self.columns = columns;
        self
    }

    /// How many rows are in.
    pub fn len(&self) -> usize {
        self.selection.as_ref().map_or(self.physical_rows(), Selection::len)
    }

    /// Whether no row is in.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many rows the columns have, in or not.
    pub fn physical_rows(&self) -> usize {
        self.columns.num_rows()
    }

    /// The columns, with all physical rows.
    pub fn columns(&self) -> &RecordBatch {
        &self.columns
    }

    /// One column, with all physical rows.
    pub fn column(&self, index: usize) -> &ArrayRef {
        self.columns.column(index)
    }

    /// The columns' names and types.
    pub fn schema(&self) -> SchemaRef {
        self.columns.schema()
    }

    /// Which physical rows are in; `None` means all.
    pub fn selection(&self) -> Option<&Selection> {
        self.selection.as_ref()
    }

    /// The watermark that each physical row met, if some row was behind it.
    pub fn behind(&self) -> Option<&[Timestamp]> {
        self.behind.as_deref()
    }

    /// Where the first physical row stands in its source.
    pub fn origin(&self) -> Option<Origin> {
        self.origin
    }

    /// Where each physical row stands among those of all instances, if somebody will ask.
    pub fn positions(&self) -> Option<&Arc<Positions>> {
        self.positions.as_ref()
    }

    /// Whether its rows are of key groups that several instances share.
    pub fn is_shared(&self) -> bool {
        self.own.is_some()
    }

    /// Which of the selected rows, by their place among these, are no guests.
    pub fn own(&self) -> Range<usize> {
        match (&self.own, &self.selection) {
            (None, _) => 0..self.len(),
            (Some(own), None) => own.clone(),
            (Some(own), Some(selection)) => {
                let before = |row: usize| selection.rows().partition_point(|selected| (*selected as usize) < row);
                before(own.start)..before(own.end)
            }
        }
    }

    /// The numbers of the physical rows that are in, ascending.
    pub fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        let (all, some) = match &self.selection {
            None => (0..self.physical_rows(), &[][..]),
            Some(selection) => (0..0, selection.rows()),
        };
        all.chain(some.iter().map(|row| *row as usize))
    }

    /// The selected rows, copied together; nothing is copied if all are in.
    pub fn compact(&self) -> Result<RecordBatch> {
        match &self.selection {
            None => Ok(self.columns.clone()),
            Some(selection) => Ok(take_record_batch(&self.columns, &selection.to_indices())?),
        }
    }

    /// These physical rows alone, copied, each with the watermark that it met; where they stood is left behind. They are ascending where
    /// some are guests.
    ///
    /// Errors: those of Arrow's `take`.
    pub fn copied(&self, rows: &[u32]) -> Result<Self> {
        let numbers = UInt32Array::from(rows.to_vec());
        let mut copied = Self::new(take_record_batch(&self.columns, &numbers)?);
        let before = |row: usize| rows.partition_point(|copied| (*copied as usize) < row);
        copied.own = self.own.as_ref().map(|own| before(own.start)..before(own.end));
        Ok(match &self.behind {
            Some(behind) => copied.with_behind(rows.iter().map(|row| behind[*row as usize]).collect()),
            None => copied,
        })
    }

    /// The rows of this selection (of physical rows) alone, where they lie, each with the watermark that it met; where they stood is left
    /// behind.
    pub fn only(&self, selection: Selection) -> Self {
        let Self { columns, behind, own, .. } = self.clone();
        Self { columns, selection: None, behind, origin: None, positions: None, own }.with_selection(selection)
    }

    /// Some physical rows that follow each other, of a batch in which all are in: the same memory.
    pub fn slice(&self, rows: Range<usize>) -> Self {
        assert!(self.selection.is_none() && self.own.is_none(), "all rows are in");
        let mut slice = Self::new(self.columns.slice(rows.start, rows.len()));
        if let Some(positions) = &self.positions {
            slice = slice.with_positions(Arc::new(positions.slice(rows.clone())));
        }
        match &self.behind {
            Some(behind) => slice.with_behind(behind[rows].into()),
            None => slice,
        }
    }

    /// How many bytes of memory the columns and positions keep alive.
    pub fn bytes(&self) -> usize {
        self.columns.get_array_memory_size() + self.positions.as_ref().map_or(0, |positions| positions.bytes())
    }

    /// The event times in a column, microseconds, one per physical row.
    ///
    /// Errors: `Error::Bug` if the column does not hold timestamps in microseconds; a plan never asks for that.
    pub fn times(&self, column: usize) -> Result<&TimestampMicrosecondArray> {
        let column = self.columns.column(column);
        column.as_primitive_opt::<TimestampMicrosecondType>().ok_or_else(|| {
            Error::bug(format!("event time is {}, expected a timestamp in microseconds", column.data_type()))
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int32Array, types::Int32Type};

    use super::*;

    #[test]
    fn a_selection_of_everything_is_no_selection() {
        let columns =
            RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(vec![1, 2, 3])) as ArrayRef)]).unwrap();
        let batch = Batch::new(columns);
        assert!(batch.clone().with_selection(Selection::new(vec![0, 1, 2])).selection().is_none());
        let two = batch.with_selection(Selection::new(vec![0, 2]));
        assert_eq!((two.len(), two.physical_rows()), (2, 3));
        assert_eq!(two.rows().collect::<Vec<_>>(), [0, 2]);
        assert_eq!(two.compact().unwrap().column(0).as_ref(), &Int32Array::from(vec![1, 3]));
    }

    #[test]
    fn guests_stay_guests() {
        let columns = Arc::new(Int32Array::from_iter_values(0..8)) as ArrayRef;
        let batch = Batch::new(RecordBatch::try_from_iter([("a", columns)]).unwrap());
        let own = |batch: &Batch| {
            let rows: Vec<_> = batch.compact().unwrap().column(0).as_primitive::<Int32Type>().values().to_vec();
            rows[batch.own()].to_vec()
        };
        assert_eq!(own(&batch), (0..8).collect::<Vec<_>>());
        let shared = batch.clone().with_own(2..5);
        assert_eq!((own(&shared), batch.is_shared(), shared.is_shared()), (vec![2, 3, 4], false, true));
        let selected = shared.clone().with_selection(Selection::new(vec![0, 1, 3, 4, 6]));
        assert_eq!(own(&selected), [3, 4]);
        assert_eq!(own(&shared.copied(&[0, 2, 4, 5, 7]).unwrap()), [2, 4]);
        assert_eq!(own(&shared.only(Selection::new(vec![0, 2, 4, 5, 7]))), [2, 4]);
        assert!(own(&shared.copied(&[6, 7]).unwrap()).is_empty());
        let positions = Positions::in_time_by_number((0..8).collect(), (10..18).collect());
        let some = batch.with_positions(Arc::new(positions)).slice(3..5);
        let positions = some.positions().unwrap();
        assert_eq!(
            (own(&some), positions.times(), positions.numbers()),
            (vec![3, 4], Some(&[3, 4][..]), Some(&[13, 14][..]))
        );
    }
}
