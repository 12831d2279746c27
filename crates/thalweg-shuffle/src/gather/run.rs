//! Rows that leave together.

use std::{hint::select_unpredictable, ops::Range};

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_select::interleave::interleave;
use thalweg_core::{Batch, Result, Selection};

/// Rows of a few batches, in the order in which they leave, to be copied together.
#[derive(Debug, Default)]
pub struct Mixed {
    batches: Vec<RecordBatch>,
    rows: Vec<MixedRow>,
}

/// A row of a batch that was entered.
#[derive(Clone, Copy, Debug, Default)]
pub struct MixedRow {
    /// The number of the batch.
    pub batch: u32,
    /// The physical row.
    pub row: u32,
}

impl Mixed {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Makes a batch known; returns its number here.
    pub fn enter(&mut self, batch: &Batch) -> u32 {
        self.batches.push(batch.columns().clone());
        self.batches.len() as u32 - 1
    }

    /// Adds a physical row of a batch that was entered.
    pub fn push(&mut self, batch: u32, row: usize) {
        self.rows.push(MixedRow { batch, row: row as u32 });
    }

    /// Adds so many rows, which are to be said.
    pub fn extend(&mut self, rows: usize) -> &mut [MixedRow] {
        let before = self.rows.len();
        self.rows.resize(before + rows, MixedRow::default());
        &mut self.rows[before..]
    }

    /// Adds as many rows of two batches as there are times of one, in the order of times and of the numbers that tell those of one time
    /// apart, until it is not known which comes first; returns how many of each. Of each batch it is said which it is, and from which row on.
    pub fn push_merged<K: Fn(usize) -> u64>(
        &mut self,
        from: [(u32, usize); 2],
        [times, others]: [&[i64]; 2],
        [key, key_of_other]: [K; 2],
    ) -> [usize; 2] {
        let before = self.rows.len();
        let [(batch, first), (other, second)] = from;
        let [mut left, mut right] = [0, 0];
        // Within so many steps none of both comes to its end.
        self.rows.resize(before + times.len().min(others.len()), MixedRow::default());
        for slot in &mut self.rows[before..] {
            let (time, behind) = (times[left], others[right]);
            let mut is_other = behind < time;
            if time == behind {
                let keys = (key(left), key_of_other(right));
                if keys.0 == keys.1 {
                    break;
                }
                is_other = keys.1 < keys.0;
            }
            // Whose turn it is cannot be foreseen: a branch would be wrong half the time.
            slot.batch = select_unpredictable(is_other, other, batch);
            slot.row = select_unpredictable(is_other, second + right, first + left) as u32;
            (left, right) = (left + usize::from(!is_other), right + usize::from(is_other));
        }
        self.rows.truncate(before + left + right);
        [left, right]
    }

    /// All these rows, copied. Nothing is left but the memory in which they were noted.
    pub fn take(&mut self) -> Result<Option<Batch>> {
        let (batches, rows) = (std::mem::take(&mut self.batches), &self.rows);
        let Some(first) = batches.first().filter(|_| !rows.is_empty()) else { return Ok(None) };
        // Those that arrow's kernel is told, where it copies.
        let mut indices = Vec::new();
        let column = |number: usize| -> Result<ArrayRef> {
            let arrays: Vec<_> = batches.iter().map(|batch| batch.column(number).as_ref()).collect();
            if let Some(copied) = of_fixed_width(&arrays, rows)? {
                return Ok(copied);
            }
            if indices.is_empty() {
                indices.extend(rows.iter().map(|row| (row.batch as usize, row.row as usize)));
            }
            Ok(interleave(&arrays, &indices)?)
        };
        let columns = (0..first.num_columns()).map(column).collect::<Result<Vec<_>>>()?;
        let count = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = Batch::new(RecordBatch::try_new_with_options(first.schema(), columns, &count)?);
        self.rows.clear();
        Ok(Some(batch))
    }
}

/// Rows of columns of numbers and times: in half the time that arrow's kernel takes, which reads twice as much to know which they are.
fn of_fixed_width(arrays: &[&dyn Array], rows: &[MixedRow]) -> Result<Option<ArrayRef>> {
    let width = arrays[0].data_type().primitive_width();
    let buffer = match width {
        Some(4) => copied::<u32>(arrays, rows),
        Some(8) => copied::<u64>(arrays, rows),
        _ => return Ok(None),
    };
    let nulls = arrays.iter().any(|array| array.null_count() > 0).then(|| {
        let nulls: Vec<_> = arrays.iter().map(|array| array.nulls()).collect();
        let is_valid = |row: usize| {
            let MixedRow { batch, row } = rows[row];
            nulls[batch as usize].is_none_or(|nulls| nulls.is_valid(row as usize))
        };
        NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), is_valid))
    });
    let data = ArrayData::builder(arrays[0].data_type().clone()).len(rows.len()).buffers(vec![buffer]).nulls(nulls);
    Ok(Some(make_array(data.build()?)))
}

fn copied<T: ArrowNativeType>(arrays: &[&dyn Array], rows: &[MixedRow]) -> Buffer {
    let data: Vec<ArrayData> = arrays.iter().map(|array| array.to_data()).collect();
    let values: Vec<&[T]> = data.iter().map(|data| data.buffer(0)).collect();
    match values[..] {
        [one, two] => {
            let value = |MixedRow { batch, row }: &MixedRow| select_unpredictable(*batch == 0, one, two)[*row as usize];
            Buffer::from_vec(rows.iter().map(value).collect::<Vec<T>>())
        }
        _ => {
            let value = |MixedRow { batch, row }: &MixedRow| values[*batch as usize][*row as usize];
            Buffer::from_vec(rows.iter().map(value).collect::<Vec<T>>())
        }
    }
}

/// Some of the selected rows of a batch, by their numbers among these, where they lie.
pub fn part(batch: &Batch, rows: Range<usize>) -> Batch {
    let Some(selection) = batch.selection() else {
        return Batch::new(batch.columns().slice(rows.start, rows.len()));
    };
    let rows = &selection.rows()[rows];
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Batch::new(batch.columns().slice(0, 0)) };
    // Who takes them computes with all physical rows: only with those between.
    let columns = batch.columns().slice(*first as usize, (last - first) as usize + 1);
    Batch::new(columns).with_selection(Selection::new(rows.iter().map(|row| row - first).collect()))
}
