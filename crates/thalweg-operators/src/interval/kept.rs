//! Batches of which rows are kept.

use arrow_array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow_schema::DataType;
use arrow_select::{interleave::interleave, take::take};
use thalweg_core::{Error, Result};
use thalweg_memory::kernels::hash::hash_columns;

use super::entry::At;

/// Batches of which rows are kept, each until none of its rows is wanted any more.
#[derive(Debug, Default)]
pub struct Kept {
    batches: Vec<Slot>,
    free: Vec<u32>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Slot {
    columns: Vec<ArrayRef>,
    /// How often rows of it are wanted.
    uses: usize,
    bytes: usize,
    /// Rows that were marked, once one was.
    marks: Vec<u64>,
}

impl Kept {
    /// Keeps a batch whose rows are wanted so often, once at least; returns its number.
    pub fn keep(&mut self, columns: Vec<ArrayRef>, uses: usize) -> u32 {
        let bytes = columns.iter().map(|column| column.get_array_memory_size()).sum();
        self.bytes += bytes;
        let slot = Slot { columns, uses, bytes, marks: Vec::new() };
        match self.free.pop() {
            Some(number) => {
                self.batches[number as usize] = slot;
                number
            }
            None => {
                self.batches.push(slot);
                self.batches.len() as u32 - 1
            }
        }
    }

    /// A row is wanted once less.
    pub fn release(&mut self, at: At) {
        let slot = &mut self.batches[at.batch as usize];
        slot.uses -= 1;
        if slot.uses == 0 {
            self.bytes -= slot.bytes;
            *slot = Slot::default();
            self.free.push(at.batch);
        }
    }

    /// The values that rows have in one of the columns, in this order.
    ///
    /// Errors: `Error::Bug` if no row is asked for.
    pub fn gather(&self, column: usize, rows: &[At]) -> Result<ArrayRef> {
        let Some(first) = rows.first() else { return Err(Error::bug("no rows to gather")) };
        let of = |batch: u32| &self.batches[batch as usize].columns[column];
        if rows.iter().all(|at| at.batch == first.batch) {
            let rows: UInt32Array = rows.iter().map(|at| at.row).collect::<Vec<_>>().into();
            return Ok(take(of(first.batch), &rows, None)?);
        }
        let mut number = vec![usize::MAX; self.batches.len()];
        let mut arrays: Vec<&dyn Array> = Vec::new();
        let mut places = Vec::with_capacity(rows.len());
        for at in rows {
            let number = &mut number[at.batch as usize];
            if *number == usize::MAX {
                *number = arrays.len();
                arrays.push(of(at.batch).as_ref());
            }
            places.push((*number, at.row as usize));
        }
        Ok(interleave(&arrays, &places)?)
    }

    /// The values that rows have in one of the columns, which is of this kind; null where there is no row.
    pub fn gather_some(&self, column: usize, rows: &[Option<At>], kind: &DataType) -> Result<ArrayRef> {
        let some: Vec<At> = rows.iter().flatten().copied().collect();
        if some.len() == rows.len() && !some.is_empty() {
            return self.gather(column, &some);
        }
        let mut number = vec![usize::MAX; self.batches.len()];
        let null = new_null_array(kind, 1);
        let mut arrays: Vec<&dyn Array> = vec![null.as_ref()];
        let mut places = Vec::with_capacity(rows.len());
        for at in rows {
            let Some(at) = at else {
                places.push((0, 0));
                continue;
            };
            let number = &mut number[at.batch as usize];
            if *number == usize::MAX {
                *number = arrays.len();
                arrays.push(self.batches[at.batch as usize].columns[column].as_ref());
            }
            places.push((*number, at.row as usize));
        }
        Ok(interleave(&arrays, &places)?)
    }

    /// Marks a row.
    pub fn mark(&mut self, at: At) {
        let marks = &mut self.batches[at.batch as usize].marks;
        let word = at.row as usize / 64;
        if marks.len() <= word {
            marks.resize(word + 1, 0);
        }
        marks[word] |= 1 << (at.row % 64);
    }

    /// Whether a row was marked.
    pub fn is_marked(&self, at: At) -> bool {
        let marks = &self.batches[at.batch as usize].marks;
        marks.get(at.row as usize / 64).is_some_and(|word| word & (1 << (at.row % 64)) != 0)
    }

    /// No values of one of the columns, of the kind that a row has there.
    pub fn nothing(&self, column: usize, row: At) -> ArrayRef {
        self.batches[row.batch as usize].columns[column].slice(0, 0)
    }

    /// How many columns are kept of a row.
    pub fn width(&self, row: At) -> usize {
        self.batches[row.batch as usize].columns.len()
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        self.bytes + self.batches.capacity() * size_of::<Slot>()
    }
}

/// The hashes of all that is kept of rows of one input.
pub fn hashes(kept: &Kept, rows: &[At]) -> Result<Vec<u64>> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let columns = (0..kept.width(*first)).map(|column| kept.gather(column, rows)).collect::<Result<Vec<_>>>()?;
    hash_columns(&columns, rows.len())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, cast::AsArray, types::Int64Type};

    use super::*;

    #[test]
    fn a_batch_is_there_as_long_as_one_of_its_rows_is_wanted() {
        let mut kept = Kept::default();
        let empty = kept.bytes();
        let values = |values: [i64; 2]| vec![Arc::new(Int64Array::from_iter_values(values)) as ArrayRef];
        let (one, two) = (kept.keep(values([1, 2]), 2), kept.keep(values([3, 4]), 1));
        let at = |batch, row| At { batch, row };
        let gathered = kept.gather(0, &[at(two, 1), at(one, 0), at(two, 0)]).unwrap();
        assert_eq!(gathered.as_primitive::<Int64Type>().values(), &[4, 1, 3]);
        assert_eq!(kept.gather(0, &[at(one, 1)]).unwrap().as_primitive::<Int64Type>().values(), &[2]);
        kept.release(at(two, 0));
        assert_eq!(kept.keep(values([5, 6]), 1), two, "its place is free");
        [at(one, 0), at(one, 0), at(two, 0)].into_iter().for_each(|at| kept.release(at));
        assert!(kept.bytes() < empty + 500);
    }
}
