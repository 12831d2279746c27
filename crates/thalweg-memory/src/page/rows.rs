//! Rows on their way into a page: which they are, and how their values get into slots that belong to one thread.

use std::ops::Range;

use super::{
    layout::{Place, RowLayout, Shape},
    source::{Source, Values},
};

mod sealed {
    /// Pages are read without a look at what is in them: rows are only those that this module knows.
    pub trait Sealed {}
    impl Sealed for super::Picked<'_> {}
    impl Sealed for crate::page::staging::Waiting<'_> {}
}

/// What some rows take of a page, in the order in which they go into slots.
pub trait Lengths {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes a row takes at a page's end.
    fn tail(&self, row: usize) -> usize;

    /// How many bytes all of them take there.
    fn tails(&self) -> usize;

    /// How many of the rows fit into so many slots, and so many bytes at a page's end; and how many of these they take.
    fn fitting(&self, slots: usize, mut bytes: usize) -> (usize, usize) {
        let most = self.len().min(slots);
        // Of many more rows than there are slots, only the first are looked at.
        if most == self.len() {
            let all = self.tails();
            if all <= bytes {
                return (most, all);
            }
        }
        let before = bytes;
        for row in 0..most {
            match bytes.checked_sub(self.tail(row)) {
                Some(left) => bytes = left,
                None => return (row, before - bytes),
            }
        }
        (most, before - bytes)
    }
}

/// Some rows, in the order in which they go into slots.
pub trait Rows: Lengths + sealed::Sealed {
    /// For which types of columns they are: see [`RowLayout::fingerprint`].
    fn fingerprint(&self) -> u64;

    /// Whether a column's value is known in all rows.
    fn all_known(&self, column: usize) -> bool;

    /// Whether a column's value is known.
    fn is_known(&self, column: usize, row: usize) -> bool;

    /// A value of a column of bits.
    fn bit(&self, column: usize, row: usize) -> bool;

    /// Writes the values of a column of a fixed width behind each other.
    fn write_fixed(&self, column: usize, width: usize, cells: &mut [u8]);

    /// Writes the views of a column behind each other, and what is longer than a view from `used` on into `tails`, which
    /// begins at `at` in the page; returns where the next may begin.
    fn write_views(&self, column: usize, cells: &mut [u8], tails: &mut [u8], used: usize, at: usize) -> usize;

    /// Only the first rows.
    fn first(&self, rows: usize) -> Self
    where
        Self: Sized;

    /// All rows but the first.
    fn behind(&self, rows: usize) -> Self
    where
        Self: Sized;
}

/// Rows of a batch by their numbers, in any order.
#[derive(Clone, Copy)]
pub struct Picked<'a> {
    /// The batch's columns.
    pub source: &'a Source,
    /// The rows' numbers.
    pub rows: &'a [u32],
}

impl Lengths for Picked<'_> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    fn tail(&self, row: usize) -> usize {
        self.source.tail(self.rows[row] as usize)
    }

    fn tails(&self) -> usize {
        match self.source.has_tails() {
            true => self.rows.iter().map(|row| self.source.tail(*row as usize)).sum(),
            false => 0,
        }
    }
}

impl Rows for Picked<'_> {
    fn fingerprint(&self) -> u64 {
        self.source.fingerprint()
    }

    fn all_known(&self, column: usize) -> bool {
        self.source.columns()[column].nulls.is_none()
    }

    #[inline]
    fn is_known(&self, column: usize, row: usize) -> bool {
        let nulls = &self.source.columns()[column].nulls;
        nulls.as_ref().is_none_or(|nulls| nulls.is_valid(self.rows[row] as usize))
    }

    #[inline]
    fn bit(&self, column: usize, row: usize) -> bool {
        match &self.source.columns()[column].values {
            Values::Bits(bits) => bits.value(self.rows[row] as usize),
            _ => false,
        }
    }

    fn write_fixed(&self, column: usize, width: usize, cells: &mut [u8]) {
        let Values::Fixed(values, _) = &self.source.columns()[column].values else { return };
        let values = values.as_slice();
        match width {
            1 => pick::<1>(cells, values, self.rows),
            2 => pick::<2>(cells, values, self.rows),
            4 => pick::<4>(cells, values, self.rows),
            8 => pick::<8>(cells, values, self.rows),
            12 => pick::<12>(cells, values, self.rows),
            16 => pick::<16>(cells, values, self.rows),
            0 => {}
            _ => {
                for (cell, row) in cells.chunks_exact_mut(width).zip(self.rows) {
                    cell.copy_from_slice(&values[*row as usize * width..][..width]);
                }
            }
        }
    }

    fn write_views(&self, column: usize, cells: &mut [u8], tails: &mut [u8], mut used: usize, at: usize) -> usize {
        let Values::Views(values) = &self.source.columns()[column].values else { return used };
        let (cells, _) = cells.as_chunks_mut::<16>();
        for (cell, row) in cells.iter_mut().zip(self.rows) {
            let (mut view, longer) = values.get(*row as usize);
            if let Some(bytes) = longer {
                view = moved(view, at + used);
                copy_bytes(&mut tails[used..], bytes);
                used += bytes.len();
            }
            *cell = view.to_le_bytes();
        }
        used
    }

    fn first(&self, rows: usize) -> Self {
        Self { rows: &self.rows[..rows], ..*self }
    }

    fn behind(&self, rows: usize) -> Self {
        Self { rows: &self.rows[rows..], ..*self }
    }
}

fn pick<const WIDTH: usize>(cells: &mut [u8], values: &[u8], rows: &[u32]) {
    let ((cells, _), (values, _)) = (cells.as_chunks_mut::<WIDTH>(), values.as_chunks::<WIDTH>());
    for (cell, row) in cells.iter_mut().zip(rows) {
        *cell = values[*row as usize];
    }
}

/// The view of the same value, whose bytes begin at `at`; buffer 0 of a column is its page.
#[inline]
pub fn moved(view: u128, at: usize) -> u128 {
    u128::from(view as u64) | (at as u128) << 96
}

/// Copies bytes to the front of others.
#[inline]
pub fn copy_bytes(to: &mut [u8], bytes: &[u8]) {
    let to = &mut to[..bytes.len()];
    // Most texts are short: two copies of a fixed length, which may overlap, need no call.
    match bytes.len() {
        8..=16 => copy_ends::<8>(to, bytes),
        17..=32 => copy_ends::<16>(to, bytes),
        33..=64 => copy_ends::<32>(to, bytes),
        _ => to.copy_from_slice(bytes),
    }
}

/// Copies the first and the last bytes, so many each.
#[inline]
fn copy_ends<const BYTES: usize>(to: &mut [u8], bytes: &[u8]) {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<BYTES>(), bytes.last_chunk::<BYTES>()) {
        to[..BYTES].copy_from_slice(first);
        let end = to.len();
        to[end - BYTES..].copy_from_slice(last);
    }
}

/// The memory of a page, as far as it belongs to whoever writes.
pub(super) trait Cells {
    /// Some bytes.
    fn bytes(&mut self, range: Range<usize>) -> &mut [u8];

    /// Some bytes, and others behind them.
    fn two(&mut self, first: Range<usize>, second: Range<usize>) -> (&mut [u8], &mut [u8]);

    /// Sets the bits of slots, of those that begin at `at`.
    fn set_bits(&mut self, at: usize, slots: Range<usize>, bit: impl Fn(usize) -> bool);

    /// Sets the bits of slots to one.
    fn set_all(&mut self, at: usize, slots: Range<usize>) {
        self.set_bits(at, slots, |_| true);
    }
}

/// The bits of slots that share a byte.
fn mask(slots: Range<usize>) -> u8 {
    (slots.start..slots.end).fold(0, |mask, slot| mask | 1 << (slot % 8))
}

impl Cells for &mut [u8] {
    fn bytes(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self[range]
    }

    fn two(&mut self, first: Range<usize>, second: Range<usize>) -> (&mut [u8], &mut [u8]) {
        let (before, behind) = self.split_at_mut(second.start);
        (&mut before[first], &mut behind[..second.end - second.start])
    }

    fn set_bits(&mut self, at: usize, slots: Range<usize>, bit: impl Fn(usize) -> bool) {
        let mut slot = slots.start;
        while slot < slots.end {
            let (byte, end) = (&mut self[at + slot / 8], slots.end.min((slot / 8 + 1) * 8));
            let bits = (slot..end).fold(0, |bits, one| bits | u8::from(bit(one - slots.start)) << (one % 8));
            *byte = *byte & !mask(slot..end) | bits;
            slot = end;
        }
    }

    fn set_all(&mut self, at: usize, slots: Range<usize>) {
        let (first, behind) = (slots.start.next_multiple_of(8).min(slots.end), slots.end / 8 * 8);
        if slots.start < first {
            self[at + slots.start / 8] |= mask(slots.start..first);
        }
        if first < behind {
            self[at + first / 8..at + behind / 8].fill(!0);
        }
        if first.max(behind) < slots.end {
            self[at + slots.end / 8] |= mask(first.max(behind)..slots.end);
        }
    }
}

/// Writes rows into slots, all of which are the writer's, and their tails into bytes that begin at `tail`: a column's slots
/// first, then its tails, so that few places are written at a time.
pub(super) fn write(
    mut page: impl Cells,
    layout: &RowLayout,
    places: &[Place],
    slots: Range<usize>,
    tail: Range<usize>,
    rows: &impl Rows,
) {
    assert_eq!(rows.fingerprint(), layout.fingerprint(), "rows go into pages of their layout");
    let mut used = 0;
    for (number, (column, place)) in layout.columns().iter().zip(places).enumerate() {
        if let Some(validity) = place.validity {
            match rows.all_known(number) {
                true => page.set_all(validity, slots.clone()),
                false => page.set_bits(validity, slots.clone(), |row| rows.is_known(number, row)),
            }
        }
        let cells = |width: usize| place.values + width * slots.start..place.values + width * slots.end;
        match column.shape {
            Shape::Fixed(width) => rows.write_fixed(number, width, page.bytes(cells(width))),
            Shape::Bits => page.set_bits(place.values, slots.clone(), |row| rows.bit(number, row)),
            Shape::View => {
                let (cells, tails) = page.two(cells(16), tail.clone());
                used = rows.write_views(number, cells, tails, used, tail.start);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_set_where_they_are_asked_for_alone() {
        for (start, end) in (0..30).flat_map(|start| (start..30).map(move |end| (start, end))) {
            let (mut ones, mut odd) = ([0_u8; 6], [0x5a_u8; 6]);
            (&mut ones[..]).set_all(1, start..end);
            (&mut odd[..]).set_bits(1, start..end, |i| i % 2 == 1);
            for slot in 0..40 {
                let bit = |bytes: &[u8]| bytes[1 + slot / 8] >> (slot % 8) & 1 == 1;
                let is_within = (start..end).contains(&slot);
                assert_eq!(bit(&ones), is_within, "{slot} of {start}..{end}");
                let before = 0x5a_u8 >> (slot % 8) & 1 == 1;
                assert_eq!(bit(&odd), if is_within { (slot - start) % 2 == 1 } else { before });
            }
            assert_eq!((ones[0], odd[0]), (0, 0x5a));
        }
    }
}
