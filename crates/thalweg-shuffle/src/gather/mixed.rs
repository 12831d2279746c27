//! Rows of several batches that leave together.

use std::hint::select_unpredictable;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_select::interleave::interleave;
use thalweg_core::{Batch, Result};
use thalweg_memory::{
    kernels::merge::{self, Keys},
    simd::Level,
};

/// Rows of a few batches, in the order in which they leave, to be copied together.
#[derive(Debug, Default)]
pub struct Mixed {
    batches: Vec<RecordBatch>,
    pieces: Vec<Piece>,
    rows: Vec<MixedRow>,
    turns: Vec<u64>,
}

/// Rows that are said in one way, and follow those that were said before.
#[derive(Debug)]
enum Piece {
    /// So many rows, one by one.
    Rows(usize),
    /// So many words of turns of two batches, from a row of each on.
    Turns([MixedRow; 2], usize),
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
        self.rows.len() + self.turns.len() * 64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes a batch known; returns its number here.
    pub fn enter(&mut self, batch: &Batch) -> u32 {
        self.batches.push(batch.columns().clone());
        self.batches.len() as u32 - 1
    }

    /// Adds a physical row of a batch that was entered.
    #[inline]
    pub fn push(&mut self, batch: u32, row: usize) {
        self.rows.push(MixedRow { batch, row: row as u32 });
        self.say(1);
    }

    /// Adds so many rows, which are to be said.
    pub fn extend(&mut self, rows: usize) -> &mut [MixedRow] {
        let before = self.rows.len();
        self.rows.resize(before + rows, MixedRow::default());
        self.say(rows);
        &mut self.rows[before..]
    }

    /// So many rows more were said one by one.
    #[inline]
    fn say(&mut self, rows: usize) {
        match self.pieces.last_mut() {
            Some(Piece::Rows(said)) => *said += rows,
            _ => self.pieces.push(Piece::Rows(rows)),
        }
    }

    /// Adds rows of two batches in the order of their keys, at most `limit`, as far as [`merge::push_turns`] comes; returns how many of each.
    /// Of each batch it is said which it is, and from which row on.
    pub fn push_turns(&mut self, from: [(u32, usize); 2], keys: [Keys<'_>; 2], limit: usize) -> [usize; 2] {
        let before = self.turns.len();
        let taken = merge::push_turns(Level::best(), keys, limit, &mut self.turns);
        let words = self.turns.len() - before;
        if words > 0 {
            self.pieces.push(Piece::Turns(from.map(|(batch, row)| MixedRow { batch, row: row as u32 }), words));
        }
        taken
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
        self.say(left + right);
        [left, right]
    }

    /// All these rows, copied. Nothing is left but the memory in which they were noted.
    pub fn take(&mut self) -> Result<Option<Batch>> {
        let batches = std::mem::take(&mut self.batches);
        let Some(first) = batches.first().filter(|_| !self.is_empty()) else { return Ok(None) };
        // Those that arrow's kernel is told, where it copies.
        let mut rows = Vec::new();
        let column = |number: usize| -> Result<ArrayRef> {
            let arrays: Vec<_> = batches.iter().map(|batch| batch.column(number).as_ref()).collect();
            let values = match arrays[0].data_type().primitive_width() {
                Some(4) => Some(self.copied::<u32>(&arrays)),
                Some(8) => Some(self.copied::<u64>(&arrays)),
                _ => None,
            };
            let Some(values) = values else {
                if rows.is_empty() {
                    rows = self.indices();
                }
                return Ok(interleave(&arrays, &rows)?);
            };
            let nulls = arrays.iter().any(|array| array.null_count() > 0).then(|| self.nulls(&arrays));
            let data = ArrayData::builder(arrays[0].data_type().clone()).len(self.len()).buffers(vec![values]);
            Ok(make_array(data.nulls(nulls).build()?))
        };
        let columns = (0..first.num_columns()).map(column).collect::<Result<Vec<_>>>()?;
        let count = RecordBatchOptions::new().with_row_count(Some(self.len()));
        let batch = Batch::new(RecordBatch::try_new_with_options(first.schema(), columns, &count)?);
        self.pieces.clear();
        self.rows.clear();
        self.turns.clear();
        Ok(Some(batch))
    }

    /// The values of columns of numbers and times: in half the time that arrow's kernel takes, which reads twice as much to know which they
    /// are.
    fn copied<T: ArrowNativeType + merge::Value>(&self, arrays: &[&dyn Array]) -> Buffer {
        let data: Vec<ArrayData> = arrays.iter().map(|array| array.to_data()).collect();
        let values: Vec<&[T]> = data.iter().map(|data| data.buffer(0)).collect();
        let (mut copied, mut rows, mut turns) = (Vec::with_capacity(self.len()), &self.rows[..], &self.turns[..]);
        for piece in &self.pieces {
            match piece {
                Piece::Rows(count) => {
                    let said = rows.split_off(..*count).unwrap_or_default();
                    match values[..] {
                        [one, two] => {
                            copied.extend(said.iter().map(|MixedRow { batch, row }| {
                                select_unpredictable(*batch == 0, one, two)[*row as usize]
                            }))
                        }
                        _ => copied
                            .extend(said.iter().map(|MixedRow { batch, row }| values[*batch as usize][*row as usize])),
                    }
                }
                Piece::Turns(from, words) => {
                    let said = turns.split_off(..*words).unwrap_or_default();
                    let of = from.map(|MixedRow { batch, row }| &values[batch as usize][row as usize..]);
                    merge::push_values(Level::best(), said, of, &mut copied);
                }
            }
        }
        Buffer::from_vec(copied)
    }

    /// Which rows have a value.
    fn nulls(&self, arrays: &[&dyn Array]) -> NullBuffer {
        let nulls: Vec<_> = arrays.iter().map(|array| array.nulls()).collect();
        let (mut valid, mut rows, mut turns) =
            (BooleanBufferBuilder::new(self.len()), self.rows.iter(), &self.turns[..]);
        let mut words = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Rows(count) => {
                    for MixedRow { batch, row } in rows.by_ref().take(*count) {
                        valid.append(nulls[*batch as usize].is_none_or(|nulls| nulls.is_valid(*row as usize)));
                    }
                }
                Piece::Turns(from, count) => {
                    let said = turns.split_off(..*count).unwrap_or_default();
                    let of = from.map(|MixedRow { batch, row }| (nulls[batch as usize], row as usize));
                    words.clear();
                    merge::push_valid(Level::best(), said, of, &mut words);
                    words.iter().for_each(|word| valid.append_packed_range(0..64, &word.to_le_bytes()));
                }
            }
        }
        NullBuffer::new(valid.finish())
    }

    /// Each row's batch and physical row.
    fn indices(&self) -> Vec<(usize, usize)> {
        let (mut indices, mut rows, mut turns) = (Vec::with_capacity(self.len()), self.rows.iter(), self.turns.iter());
        for piece in &self.pieces {
            match piece {
                Piece::Rows(count) => {
                    indices.extend(rows.by_ref().take(*count).map(|row| (row.batch as usize, row.row as usize)));
                }
                Piece::Turns(from, words) => {
                    let mut next = from.map(|MixedRow { batch, row }| (batch as usize, row as usize));
                    for word in turns.by_ref().take(*words) {
                        indices.extend((0..64).map(|bit| {
                            let next = &mut next[(word >> bit & 1) as usize];
                            next.1 += 1;
                            (next.0, next.1 - 1)
                        }));
                    }
                }
            }
        }
        indices
    }
}
