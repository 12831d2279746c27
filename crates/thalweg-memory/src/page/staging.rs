//! Rows that wait, partition by partition, until there are enough of them to be worth a visit to their page.

use std::{ops::Range, sync::Arc};

use thalweg_core::{Error, Result};

use super::{
    layout::{LINE, RowLayout},
    rows::{Lengths, Picked, Rows, copy_bytes, moved},
    source::{INLINE, Values},
};
use crate::{
    pool::{Block, HUGE, Pool, block_bytes},
    simd::copy_past_caches,
};

/// From so many bytes on buffers are worth a huge page.
const LARGE: usize = 512 << 10;

/// How much memory buffers take that are to take about so many bytes: blocks have sizes of their own.
pub fn footprint(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        LARGE.. => bytes.next_multiple_of(HUGE),
        _ => block_bytes(bytes),
    }
}

/// Software-managed buffers: a few rows of each partition, column by column, as pages hold them.
///
/// Source: the shuffle thesis, section 3.4.2.
pub struct Staging {
    layout: Arc<RowLayout>,
    /// For how many rows of each partition there is room.
    rows: usize,
    /// How many of them there are.
    counts: Vec<u32>,
    columns: Vec<Staged>,
    /// The values of all columns.
    cells: Block,
    /// How many bytes each row takes at a page's end.
    tails: Vec<u32>,
    /// How many bytes all rows of a partition take there, and how many they may, unless it is one long row.
    tail_bytes: Vec<usize>,
    most_tail_bytes: usize,
    /// The bytes of what is longer than a view, by partition.
    longer: Vec<Vec<u8>>,
    /// Where the rows go that are put in at a time.
    places: Vec<u32>,
    past_caches: bool,
}

/// A column's values, of all partitions.
struct Staged {
    /// Where they lie: those of a fixed width, a byte for each bit, or views whose places are those of `longer`.
    cells: Range<usize>,
    width: usize,
    /// Whether there is a value, if not everywhere for sure.
    known: Option<Vec<bool>>,
    /// Whether a row came that has none: until then nothing is noted in `known`.
    has_unknown: bool,
}

impl Staging {
    /// Buffers for so many partitions, which take about so many bytes together; for eight rows each at least, or one where they
    /// are told to take none. What leaves them goes past the caches if it is told to.
    ///
    /// Errors: `Error::Environment` if there is not so much memory.
    pub fn new(layout: Arc<RowLayout>, partitions: usize, bytes: usize, past_caches: bool) -> Result<Self> {
        let least = if bytes == 0 { 1 } else { 8 };
        // A multiple of eight, so that lines of buffers are lines of pages.
        let rows = layout.buffer_rows(bytes, partitions).clamp(least, 1 << 16);
        let rows = if rows < 8 { rows } else { rows / 8 * 8 };
        let mut end = 0;
        let mut column = |column: &super::layout::Column| {
            let width = column.shape.width();
            let start = end;
            end = (start + width * rows * partitions).next_multiple_of(LINE);
            let known = column.is_nullable.then(|| vec![true; rows * partitions]);
            Staged { cells: start..start + width * rows * partitions, width, known, has_unknown: false }
        };
        let columns = layout.columns().iter().map(&mut column).collect();
        // Each row goes somewhere else: what is large lies in huge pages where the system has them, what is small as it is.
        let pool = Pool::new(if end >= LARGE { end.next_multiple_of(HUGE) } else { block_bytes(end) });
        let cells = pool.take(end).ok_or_else(|| Error::environment("there is no memory for buffers of rows"))?;
        let tails = if layout.has_views() { vec![0; rows * partitions] } else { Vec::new() };
        let (longer, tail_bytes) = match layout.has_views() {
            true => (vec![Vec::new(); partitions], vec![0; partitions]),
            false => (Vec::new(), Vec::new()),
        };
        let (counts, places) = (vec![0; partitions], Vec::new());
        let most_tail_bytes = (bytes / 2 / partitions.max(1)).max(64);
        Ok(Self {
            layout,
            rows,
            counts,
            columns,
            cells,
            tails,
            tail_bytes,
            most_tail_bytes,
            longer,
            places,
            past_caches,
        })
    }

    /// Puts in rows, each into its partition; returns how many of them. Of the one behind, the partition is full, or it is too long
    /// to wait: see [`Staging::is_long`].
    pub fn put(&mut self, rows: &Picked<'_>, partitions: &[u32]) -> usize {
        self.put_up_to(rows, partitions, self.most_tail_bytes)
    }

    /// Puts in the first of these rows, however long it is; its partition must be empty.
    pub fn put_long(&mut self, rows: &Picked<'_>, partitions: &[u32]) -> usize {
        self.put_up_to(&rows.first(1), &partitions[..1], usize::MAX)
    }

    /// Whether a row that takes so many bytes at a page's end is too long to wait with others.
    pub fn is_long(&self, tail: usize) -> bool {
        tail > self.most_tail_bytes
    }

    fn put_up_to(&mut self, rows: &Picked<'_>, partitions: &[u32], longest: usize) -> usize {
        assert_eq!(rows.fingerprint(), self.layout.fingerprint(), "rows wait with those of their layout");
        let partitions = &partitions[..rows.len()];
        if self.places.len() < rows.len() {
            self.places.resize(rows.len(), 0);
        }
        let taken = match rows.source.has_tails() {
            true => self.place::<true>(rows, partitions, longest),
            false => self.place::<false>(rows, partitions, longest),
        };
        let places = &self.places[..taken];
        let rows = rows.first(taken);
        let neighbours = neighbours(rows.rows);
        for (number, (staged, column)) in self.columns.iter_mut().zip(rows.source.columns()).enumerate() {
            staged.has_unknown |= !rows.all_known(number);
            if let Some(known) = staged.known.as_mut().filter(|_| staged.has_unknown) {
                places.iter().enumerate().for_each(|(row, place)| known[*place as usize] = rows.is_known(number, row));
            }
            let cells = &mut self.cells.bytes_mut()[staged.cells.clone()];
            match &column.values {
                Values::Fixed(values, width) => match neighbours {
                    Some(first) => {
                        let values = &values.as_slice()[first * width..(first + taken) * width];
                        scatter_fixed(cells, *width, places, values, None);
                    }
                    None => scatter_fixed(cells, *width, places, values.as_slice(), Some(rows.rows)),
                },
                Values::Bits(_) => {
                    for (row, place) in places.iter().enumerate() {
                        cells[*place as usize] = u8::from(rows.bit(number, row));
                    }
                }
                Values::Views(values) => {
                    let (cells, _) = cells.as_chunks_mut::<16>();
                    for ((place, row), partition) in places.iter().zip(rows.rows).zip(partitions) {
                        let (mut view, bytes) = values.get(*row as usize);
                        if let Some(bytes) = bytes {
                            let longer = &mut self.longer[*partition as usize];
                            view = moved(view, longer.len());
                            longer.extend_from_slice(bytes);
                        }
                        cells[*place as usize] = view.to_le_bytes();
                    }
                }
            }
        }
        if self.layout.has_views() {
            for (place, row) in places.iter().zip(rows.rows) {
                self.tails[*place as usize] = rows.source.tail(*row as usize) as u32;
            }
        }
        taken
    }

    /// Finds a place for each row, until one's partition is full; returns for how many.
    fn place<const HAS_TAILS: bool>(&mut self, rows: &Picked<'_>, partitions: &[u32], longest: usize) -> usize {
        let (most, mut taken) = (self.rows as u32, 0);
        for (place, partition) in self.places.iter_mut().zip(partitions) {
            let count = &mut self.counts[*partition as usize];
            if *count == most {
                break;
            }
            if HAS_TAILS {
                let (tail, bytes) = (rows.tail(taken), &mut self.tail_bytes[*partition as usize]);
                if *bytes + tail > longest {
                    break;
                }
                *bytes += tail;
            }
            *place = partition * most + *count;
            *count += 1;
            taken += 1;
        }
        taken
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.counts.len()
    }

    /// The rows of a partition that wait.
    pub fn waiting(&self, partition: usize) -> Waiting<'_> {
        Waiting { staging: self, partition, first: 0, rows: self.counts[partition] as usize }
    }

    /// Forgets the rows of a partition.
    pub fn clear(&mut self, partition: usize) {
        self.counts[partition] = 0;
        if let Some(longer) = self.longer.get_mut(partition) {
            longer.clear();
            // A row of many megabytes leaves nothing behind.
            longer.shrink_to(self.most_tail_bytes * 2);
            self.tail_bytes[partition] = 0;
        }
    }
}

/// The first of rows that lie behind each other in their batch, as they do where it has no selection, and need not be looked for.
fn neighbours(rows: &[u32]) -> Option<usize> {
    let first = *rows.first()?;
    // All are looked at without a branch: that goes by vectors.
    let are = rows.iter().zip(first..).fold(true, |are, (row, number)| are & (*row == number));
    are.then_some(first as usize)
}

/// Puts values of these rows (`None` is all) into places, which are those of partitions' rows, so that they lie within the cells.
fn scatter_fixed(cells: &mut [u8], width: usize, places: &[u32], values: &[u8], rows: Option<&[u32]>) {
    macro_rules! of {
        ($($width:literal)*) => {
            match (width, rows) {
                $(($width, None) => put_neighbours::<$width>(cells, places, values),
                ($width, Some(rows)) => put_picked::<$width>(cells, places, values, rows),)*
                _ => {
                    for (number, place) in places.iter().enumerate() {
                        let row = rows.map_or(number, |rows| rows[number] as usize);
                        cells[*place as usize * width..][..width].copy_from_slice(&values[row * width..][..width]);
                    }
                }
            }
        };
    }
    of!(1 2 4 8 12 16 32 96);
}

fn put_picked<const WIDTH: usize>(cells: &mut [u8], places: &[u32], values: &[u8], rows: &[u32]) {
    let ((cells, _), (values, _)) = (cells.as_chunks_mut::<WIDTH>(), values.as_chunks::<WIDTH>());
    for (place, row) in places.iter().zip(rows) {
        cells[*place as usize] = values[*row as usize];
    }
}

fn put_neighbours<const WIDTH: usize>(cells: &mut [u8], places: &[u32], values: &[u8]) {
    let ((cells, _), (values, _)) = (cells.as_chunks_mut::<WIDTH>(), values.as_chunks::<WIDTH>());
    for (place, value) in places.iter().zip(values) {
        cells[*place as usize] = *value;
    }
}

/// Rows of a partition that wait.
#[derive(Clone, Copy)]
pub struct Waiting<'a> {
    staging: &'a Staging,
    partition: usize,
    first: usize,
    rows: usize,
}

impl Waiting<'_> {
    fn place(&self, row: usize) -> usize {
        self.partition * self.staging.rows + self.first + row
    }

    fn cells(&self, column: usize) -> &[u8] {
        let Staged { cells, width, .. } = &self.staging.columns[column];
        &self.staging.cells.bytes()[cells.clone()][self.place(0) * width..self.place(self.rows) * width]
    }
}

impl Lengths for Waiting<'_> {
    fn len(&self) -> usize {
        self.rows
    }

    #[inline]
    fn tail(&self, row: usize) -> usize {
        self.staging.tails.get(self.place(row)).map_or(0, |tail| *tail as usize)
    }

    fn tails(&self) -> usize {
        match self.staging.layout.has_views() {
            true if self.first == 0 && self.rows == self.staging.counts[self.partition] as usize => {
                self.staging.tail_bytes[self.partition]
            }
            true => (0..self.rows).map(|row| self.tail(row)).sum(),
            false => 0,
        }
    }
}

impl Rows for Waiting<'_> {
    fn fingerprint(&self) -> u64 {
        self.staging.layout.fingerprint()
    }

    fn all_known(&self, column: usize) -> bool {
        !self.staging.columns[column].has_unknown
    }

    #[inline]
    fn is_known(&self, column: usize, row: usize) -> bool {
        self.staging.columns[column].known.as_ref().is_none_or(|known| known[self.place(row)])
    }

    #[inline]
    fn bit(&self, column: usize, row: usize) -> bool {
        self.staging.cells.bytes()[self.staging.columns[column].cells.start + self.place(row)] != 0
    }

    fn write_fixed(&self, column: usize, _: usize, cells: &mut [u8]) {
        match self.staging.past_caches {
            true => copy_past_caches(cells, self.cells(column)),
            false => cells.copy_from_slice(self.cells(column)),
        }
    }

    fn write_views(&self, column: usize, cells: &mut [u8], tails: &mut [u8], mut used: usize, at: usize) -> usize {
        let ((cells, _), (staged, _)) = (cells.as_chunks_mut::<16>(), self.cells(column).as_chunks::<16>());
        let longer = &self.staging.longer[self.partition];
        for (cell, view) in cells.iter_mut().zip(staged) {
            let mut view = u128::from_le_bytes(*view);
            let (bytes, from) = (view as u32 as usize, (view >> 96) as usize);
            if bytes > INLINE {
                view = moved(view, at + used);
                copy_bytes(&mut tails[used..], &longer[from..from + bytes]);
                used += bytes;
            }
            *cell = view.to_le_bytes();
        }
        used
    }

    fn first(&self, rows: usize) -> Self {
        Self { rows, ..*self }
    }

    fn behind(&self, rows: usize) -> Self {
        Self { first: self.first + rows, rows: self.rows - rows, ..*self }
    }
}
