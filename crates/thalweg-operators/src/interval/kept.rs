//! Batches of which rows are kept.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{Array, ArrayRef, cast::AsArray, make_array, new_null_array, types::*};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType;
use arrow_select::interleave::interleave;
use thalweg_core::{Error, Result};
use thalweg_memory::{kernels::hash::hash_columns, simd::prefetch};

use super::{entry::At, spare::Spare};

/// So many bytes stay in the nearer caches. Tests have few rows.
const CACHED: usize = if cfg!(test) { 256 } else { 1 << 20 };

/// So many rows are looked at together: whether they lie behind each other.
const TOGETHER: usize = if cfg!(test) { 4 } else { 32 };

/// The memory of a row so many rows ahead is asked for where there are more.
const AHEAD: usize = 24;

/// Batches of which rows are kept, each until none of its rows is wanted any more.
#[derive(Debug, Default)]
pub struct Kept {
    batches: Vec<Slot>,
    /// How often rows of each are wanted.
    uses: Vec<usize>,
    free: Vec<u32>,
    bytes: usize,
    /// Memory for batches to come.
    pub spare: Spare,
}

#[derive(Debug, Default)]
struct Slot {
    columns: Vec<Column>,
    bytes: usize,
    /// Rows that were marked, once one was.
    marks: Vec<u64>,
}

/// One of the columns of a batch.
#[derive(Debug)]
struct Column {
    array: ArrayRef,
    /// Its values, if all have so many bytes.
    values: Option<(usize, Buffer)>,
}

impl Column {
    fn new(array: ArrayRef) -> Self {
        let values = array.data_type().primitive_width().map(|width| {
            let data = array.to_data();
            (width, data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width))
        });
        Self { array, values }
    }

    /// The values, if they are of the size of this type.
    fn values<T: ArrowNativeType>(&self) -> Option<&[T]> {
        let (width, values) = self.values.as_ref()?;
        (*width == size_of::<T>()).then(|| values.typed_data())
    }
}

impl Kept {
    /// Keeps a batch whose rows are wanted so often, once at least; returns its number.
    pub fn keep(&mut self, columns: Vec<ArrayRef>, uses: usize) -> u32 {
        let bytes = columns.iter().map(|column| column.get_array_memory_size()).sum();
        self.bytes += bytes;
        let columns = columns.into_iter().map(Column::new).collect();
        let slot = Slot { columns, bytes, marks: Vec::new() };
        match self.free.pop() {
            Some(number) => {
                (self.batches[number as usize], self.uses[number as usize]) = (slot, uses);
                number
            }
            None => {
                self.batches.push(slot);
                self.uses.push(uses);
                self.batches.len() as u32 - 1
            }
        }
    }

    /// A row is wanted once less.
    #[inline]
    pub fn release(&mut self, at: At) {
        self.release_rows(at.batch, 1);
    }

    /// So many rows of a batch are wanted once less.
    #[inline]
    fn release_rows(&mut self, batch: u32, rows: usize) {
        let uses = &mut self.uses[batch as usize];
        *uses -= rows;
        if *uses == 0 {
            self.give_up(batch);
        }
    }

    /// Each of some rows is wanted once less. Those of a batch follow each other, as a rule: they are counted first, since what is added up in
    /// memory waits for itself.
    pub fn release_all(&mut self, rows: impl IntoIterator<Item = At>) {
        let mut released = Released::default();
        rows.into_iter().for_each(|at| released.put(at, self));
        released.done(self);
    }

    /// The same for rows that mostly lie behind each other.
    pub fn release_runs(&mut self, rows: &[At]) {
        let mut released = Released::default();
        runs(rows).for_each(|run| released.put_some(run.first.batch, run.rows, self));
        released.done(self);
    }

    #[cold]
    fn give_up(&mut self, batch: u32) {
        let slot = std::mem::take(&mut self.batches[batch as usize]);
        self.bytes -= slot.bytes;
        for Column { array, values } in slot.columns {
            drop(array);
            values.into_iter().for_each(|(_, values)| self.spare.put(values));
        }
        self.free.push(batch);
    }

    /// The values that rows have in one of the columns, in this order; nulls where they were not kept, which is so for all of an input
    /// or for none.
    ///
    /// Errors: `Error::Bug` if no row is asked for.
    pub fn gather(&self, column: usize, rows: &[At]) -> Result<ArrayRef> {
        let Some(first) = rows.first() else { return Err(Error::bug("no rows to gather")) };
        let of_first = &self.batches[first.batch as usize].columns[column];
        if of_first.array.is_empty() {
            return Ok(new_null_array(of_first.array.data_type(), rows.len()));
        }
        macro_rules! values {
            ($native:ty) => {
                Buffer::from_vec(self.values::<$native>(column, rows))
            };
        }
        let values = match of_first.values {
            Some((1, _)) => values!(u8),
            Some((2, _)) => values!(u16),
            Some((4, _)) => values!(u32),
            Some((8, _)) => values!(u64),
            Some((16, _)) => values!(i128),
            _ => return self.interleaved(column, rows),
        };
        let data = of_first.array.slice(0, 0).to_data().into_builder().offset(0).len(rows.len()).buffers(vec![values]);
        Ok(make_array(data.nulls(self.nulls(column, rows)).build()?))
    }

    /// The same for rows of which many lie behind each other.
    ///
    /// Errors: as [`gather`](Self::gather).
    pub fn gather_all(&self, column: usize, rows: Locations<'_>) -> Result<ArrayRef> {
        let Locations { some, runs } = rows;
        let Some(first) = runs.first() else { return self.gather(column, some) };
        let of = |run: &Run| &self.batches[run.first.batch as usize].columns[column];
        let kind = &of(first).array;
        macro_rules! values {
            ($native:ty) => {{
                let mut values = if some.is_empty() { Vec::new() } else { self.values::<$native>(column, some) };
                values.reserve(rows.count() - some.len());
                for run in runs {
                    let all = of(run).values::<$native>().unwrap_or_default();
                    values.extend_from_slice(&all[run.first.row as usize..][..run.rows]);
                }
                Buffer::from_vec(values)
            }};
        }
        let has_nulls = runs.iter().any(|run| of(run).array.nulls().is_some()) || self.nulls(column, some).is_some();
        let values = match of(first).values {
            _ if has_nulls || kind.is_empty() => return self.gather(column, &rows.each()),
            Some((4, _)) => values!(u32),
            Some((8, _)) => values!(u64),
            _ => return self.gather(column, &rows.each()),
        };
        let data = kind.slice(0, 0).to_data().into_builder().offset(0).len(rows.count()).buffers(vec![values]);
        Ok(make_array(data.nulls(None).build()?))
    }

    /// Whether these are so few that to look at all batches would take longer than to look each row up.
    fn are_few(&self, rows: &[At]) -> bool {
        rows.len() < self.batches.len()
    }

    /// The values of rows in a column in which all have so many bytes.
    fn values<T: ArrowNativeType>(&self, column: usize, rows: &[At]) -> Vec<T> {
        if self.are_few(rows) {
            let value = |at: &At| {
                self.batches[at.batch as usize].columns[column].values::<T>().unwrap_or_default()[at.row as usize]
            };
            return rows.iter().map(value).collect();
        }
        let columns = self.batches.iter().map(|slot| slot.columns.get(column));
        let batches: Vec<&[T]> = columns.map(|column| column.and_then(Column::values).unwrap_or_default()).collect();
        if lie_in_runs(rows) {
            let mut values = Vec::with_capacity(rows.len());
            for Run { first, rows } in runs(rows) {
                values.extend_from_slice(&batches[first.batch as usize][first.row as usize..][..rows]);
            }
            return values;
        }
        let value = |at: &At| batches[at.batch as usize][at.row as usize];
        if self.bytes <= CACHED {
            return rows.iter().map(value).collect();
        }
        let values = rows.iter().enumerate().map(|(number, at)| {
            if let Some(next) = rows.get(number + AHEAD) {
                prefetch(&batches[next.batch as usize][next.row as usize..=next.row as usize], 0);
            }
            value(at)
        });
        values.collect()
    }

    /// Which rows have a value in a column, if not all.
    fn nulls(&self, column: usize, rows: &[At]) -> Option<NullBuffer> {
        let valid = if self.are_few(rows) {
            let nulls = |at: &At| self.batches[at.batch as usize].columns[column].array.nulls();
            if rows.iter().all(|at| nulls(at).is_none()) {
                return None;
            }
            let is_valid = |at: &At| nulls(at).is_none_or(|nulls| nulls.is_valid(at.row as usize));
            BooleanBuffer::collect_bool(rows.len(), |row| is_valid(&rows[row]))
        } else {
            let columns = self.batches.iter().map(|slot| slot.columns.get(column));
            let nulls: Vec<Option<&NullBuffer>> = columns.map(|column| column?.array.nulls()).collect();
            if nulls.iter().all(Option::is_none) {
                return None;
            }
            let is_valid = |at: &At| nulls[at.batch as usize].is_none_or(|nulls| nulls.is_valid(at.row as usize));
            BooleanBuffer::collect_bool(rows.len(), |row| is_valid(&rows[row]))
        };
        Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0)
    }

    fn interleaved(&self, column: usize, rows: &[At]) -> Result<ArrayRef> {
        let mut parts = Parts::new(self, column, rows.len());
        let places: Vec<_> = rows.iter().map(|at| parts.place(*at)).collect();
        Ok(interleave(&parts.arrays, &places)?)
    }

    /// The values that rows have in one of the columns, which is of this kind; null where there is no row.
    pub fn gather_some(&self, column: usize, rows: &[Option<At>], kind: &DataType) -> Result<ArrayRef> {
        let some: Vec<At> = rows.iter().flatten().copied().collect();
        if some.len() == rows.len() && !some.is_empty() {
            return self.gather(column, &some);
        }
        let null = new_null_array(kind, 1);
        let mut parts = Parts::new(self, column, rows.len());
        parts.arrays.push(null.as_ref());
        let places: Vec<_> = rows.iter().map(|at| at.map_or((0, 0), |at| parts.place(at))).collect();
        Ok(interleave(&parts.arrays, &places)?)
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

    /// Takes a row's mark away.
    pub fn unmark(&mut self, at: At) {
        if let Some(word) = self.batches[at.batch as usize].marks.get_mut(at.row as usize / 64) {
            *word &= !(1 << (at.row % 64));
        }
    }

    /// Whether a row is marked.
    pub fn is_marked(&self, at: At) -> bool {
        let marks = &self.batches[at.batch as usize].marks;
        marks.get(at.row as usize / 64).is_some_and(|word| word & (1 << (at.row % 64)) != 0)
    }

    /// No values of one of the columns, of the kind that a row has there.
    pub fn nothing(&self, column: usize, row: At) -> ArrayRef {
        self.batches[row.batch as usize].columns[column].array.slice(0, 0)
    }

    /// Whether the values of one of the columns are kept of the rows that came with a row.
    fn has(&self, column: usize, row: At) -> bool {
        !self.batches[row.batch as usize].columns[column].array.is_empty()
    }

    /// How many columns are kept of a row.
    pub fn width(&self, row: At) -> usize {
        self.batches[row.batch as usize].columns.len()
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        self.bytes + self.spare.bytes() + self.batches.capacity() * (size_of::<Slot>() + size_of::<usize>())
    }
}

/// Rows of one batch that follow each other, and are wanted once less each.
#[derive(Default)]
pub struct Released {
    batch: u32,
    rows: usize,
}

impl Released {
    /// A row that is wanted once less.
    #[inline]
    pub fn put(&mut self, at: At, kept: &mut Kept) {
        self.put_some(at.batch, 1, kept);
    }

    /// So many rows of a batch.
    #[inline]
    pub fn put_some(&mut self, batch: u32, rows: usize, kept: &mut Kept) {
        if batch != self.batch {
            self.done(kept);
            self.batch = batch;
        }
        self.rows += rows;
    }

    /// These were all.
    #[inline]
    pub fn done(&mut self, kept: &mut Kept) {
        if self.rows > 0 {
            kept.release_rows(self.batch, std::mem::take(&mut self.rows));
        }
    }
}

/// Rows that lie behind each other.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The first of them.
    pub first: At,
    /// How many there are.
    pub rows: usize,
}

/// Where the values of rows lie: of each of some, and then of those of some runs.
#[derive(Clone, Copy, Debug)]
pub struct Locations<'a> {
    /// Those that come first.
    pub some: &'a [At],
    /// The others.
    pub runs: &'a [Run],
}

impl<'a> From<&'a [At]> for Locations<'a> {
    fn from(some: &'a [At]) -> Self {
        Self { some, runs: &[] }
    }
}

impl Locations<'_> {
    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.some.len() + self.runs.iter().map(|run| run.rows).sum::<usize>()
    }

    /// One after the other.
    fn each(&self) -> Vec<At> {
        let of_run = |run: &Run| {
            let Run { first, rows } = *run;
            (first.row..first.row + rows as u32).map(move |row| At { row, ..first })
        };
        self.some.iter().copied().chain(self.runs.iter().flat_map(of_run)).collect()
    }
}

/// The runs of which some rows are, in their order.
fn runs(mut rows: &[At]) -> impl Iterator<Item = Run> {
    std::iter::from_fn(move || {
        let first = *rows.first()?;
        let of = |number: usize| At { row: first.row.wrapping_add(number as u32), ..first };
        // Many are looked at without a branch.
        let differ = |some: &[At], done: usize| {
            some.iter().enumerate().fold(0, |differ, (number, at)| differ | at.word() ^ of(done + number).word())
        };
        let mut count = 0;
        while let Some(some) = rows.get(count..count + TOGETHER)
            && differ(some, count) == 0
        {
            count += TOGETHER;
        }
        count += rows[count..].iter().zip(count..).take_while(|(at, number)| **at == of(*number)).count();
        rows = &rows[count..];
        Some(Run { first, rows: count })
    })
}

/// Whether the first of some rows lie behind each other, most of them: they came together, and stand as they came.
fn lie_in_runs(rows: &[At]) -> bool {
    let some = &rows[..rows.len().min(TOGETHER)];
    let apart = some
        .iter()
        .zip(some.iter().skip(1))
        .filter(|(one, next)| one.batch != next.batch || one.row.wrapping_add(1) != next.row);
    apart.count() <= some.len() / 16
}

/// The arrays in which some rows lie, each once.
struct Parts<'a> {
    kept: &'a Kept,
    column: usize,
    arrays: Vec<&'a dyn Array>,
    /// Which of the arrays a batch's is: by the number of the batch, or looked up where rows are few.
    numbers: Vec<usize>,
    few: HashMap<u32, usize>,
}

impl<'a> Parts<'a> {
    /// For so many rows.
    fn new(kept: &'a Kept, column: usize, rows: usize) -> Self {
        let numbers = if rows < kept.batches.len() { Vec::new() } else { vec![usize::MAX; kept.batches.len()] };
        Self { kept, column, arrays: Vec::new(), numbers, few: HashMap::new() }
    }

    /// In which of the arrays a row lies, and where there.
    fn place(&mut self, at: At) -> (usize, usize) {
        let number = match self.numbers.get_mut(at.batch as usize) {
            Some(number) => number,
            None => self.few.entry(at.batch).or_insert(usize::MAX),
        };
        if *number == usize::MAX {
            *number = self.arrays.len();
            self.arrays.push(self.kept.batches[at.batch as usize].columns[self.column].array.as_ref());
        }
        (*number, at.row as usize)
    }
}

/// The hashes of all that is kept of rows of one input. Rows that are not the same hash differently, also where their values are equal, as
/// −0.0 and 0.0 are: they tell in which order rows come out.
pub fn hashes(kept: &Kept, rows: &[At]) -> Result<Vec<u64>> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let columns = (0..kept.width(*first)).filter(|column| kept.has(*column, *first));
    let columns = columns.map(|column| bits(kept.gather(column, rows)?));
    hash_columns(&columns.collect::<Result<Vec<_>>>()?, rows.len())
}

/// The bits of floats, and the bytes of what is no key; what is of another type is as it is.
fn bits(column: ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Float32 => {
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, UInt32Type>(|value| value.to_bits()))
        }
        DataType::Float64 => {
            Arc::new(column.as_primitive::<Float64Type>().unary::<_, UInt64Type>(|value| value.to_bits()))
        }
        kind if kind.is_nested() || matches!(kind, DataType::Interval(_)) => {
            let converter = RowConverter::new(vec![SortField::new(kind.clone())])?;
            Arc::new(converter.convert_columns(&[column])?.try_into_binary()?)
        }
        _ => column,
    })
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        Float32Array, Float64Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray, StringArray,
    };
    use arrow_buffer::IntervalMonthDayNano;

    use super::*;

    #[test]
    fn rows_that_are_not_the_same_are_told_apart_whatever_they_are() {
        let list = |values: [Option<f64>; 2]| Some(values.to_vec());
        let lists = [list([Some(0.0), None]), list([Some(-0.0), None]), list([Some(0.0), None])];
        let columns: [ArrayRef; 4] = [
            Arc::new(Float64Array::from(vec![0.0, -0.0, 0.0])),
            Arc::new(Float32Array::from(vec![0.0, -0.0, 0.0])),
            Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists)),
            Arc::new(IntervalMonthDayNanoArray::from_iter_values(
                [1, 2, 1].map(|months| IntervalMonthDayNano::new(months, 0, 0)),
            )),
        ];
        for column in columns {
            let (mut kept, kind) = (Kept::default(), column.data_type().clone());
            let batch = kept.keep(vec![column], 3);
            let found = hashes(&kept, &[0, 1, 2].map(|row| At { batch, row })).unwrap();
            assert!(found[0] != found[1] && found[0] == found[2], "{kind}: {found:?}");
        }
    }

    #[test]
    fn few_rows_of_many_batches_are_gathered_as_many_of_few_are() {
        let (mut kept, mut all) = (Kept::default(), Vec::new());
        for batch in 0..40 {
            let number = |row: i64| (batch % 3 != 0 || row > 0).then_some(batch * 10 + row);
            let numbers = Arc::new(Int64Array::from_iter((0..3).map(number))) as ArrayRef;
            let texts =
                Arc::new(StringArray::from_iter((0..3).map(|row| number(row).map(|number| number.to_string()))));
            let number = kept.keep(vec![numbers, texts], 3);
            all.extend((0..3).map(|row| At { batch: number, row }));
        }
        all.reverse();
        for column in 0..2 {
            let many = kept.gather(column, &all).unwrap();
            let some: Vec<_> = all.iter().map(|at| (at.row != 1).then_some(*at)).collect();
            let kind = many.data_type();
            let many_some = kept.gather_some(column, &some, kind).unwrap();
            for (first, rows) in all.chunks(7).enumerate() {
                assert_eq!(&kept.gather(column, rows).unwrap(), &many.slice(first * 7, rows.len()));
                let few = kept.gather_some(column, &some[first * 7..][..rows.len()], kind).unwrap();
                assert_eq!(&few, &many_some.slice(first * 7, rows.len()));
            }
            assert_eq!((many.null_count(), many_some.null_count()), (14, 54));
        }
    }

    #[test]
    fn rows_of_runs_are_gathered_as_each_of_them_is() {
        let mut kept = Kept::default();
        let columns = |batch: i64| {
            let numbers = || (batch * 100..).take(50);
            let some = Int64Array::from_iter(numbers().map(|number| (batch == 1 || number % 3 > 0).then_some(number)));
            let narrow = Int32Array::from_iter_values(numbers().map(|number| number as i32));
            let texts = StringArray::from_iter_values(numbers().map(|number| number.to_string()));
            let all = Int64Array::from_iter_values(numbers());
            [Arc::new(all) as ArrayRef, Arc::new(narrow), Arc::new(some), Arc::new(texts)]
                .map(|column| column.slice(1, 49))
                .to_vec()
        };
        let batches = [1, 2].map(|batch| kept.keep(columns(batch), 1));
        let at = |batch: usize, row| At { batch: batches[batch], row };
        let some = [at(1, 3), at(0, 0), at(1, 1)];
        let runs =
            [Run { first: at(0, 5), rows: 30 }, Run { first: at(1, 48), rows: 1 }, Run { first: at(1, 0), rows: 9 }];
        for column in 0..4 {
            for rows in
                [Locations { some: &some, runs: &runs }, Locations { some: &[], runs: &runs[..1] }, some[..].into()]
            {
                let all = rows.each();
                assert_eq!(&kept.gather_all(column, rows).unwrap(), &kept.gather(column, &all).unwrap());
                assert_eq!(all.len(), rows.count());
            }
        }
    }

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
