//! Keys of several columns, packed into a word.
//!
//! ```text
//! code:  | column 0 | column 1 | … |      each: 0 for null, value − base + 1, or the number of the value + 1
//! ```
//!
//! As many bits as the values seen need: so most pairs fit 63, and are looked up as one whole number is. What does not stand
//! for itself, such as text, is numbered by a table of its own first; and so are values that spread over too many bits.

mod column;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use thalweg_core::Result;

use super::{Groups, KeyEncoder, Keys, integers::IntegerGroups, whole::Integers, wide::WideGroups};
use column::{Cells, Column, numbers_in, range_of_numbers};

/// At most so many columns: numbered all of them, they fit 128 bits.
pub const COLUMNS: usize = 4;

/// Distinct keys of several columns, numbered from zero in the order of their first appearance.
pub struct Packed {
    columns: Vec<Column>,
    codes: Codes,
    count: usize,
}

enum Codes {
    Narrow(IntegerGroups),
    Wide(WideGroups),
}

/// Codes of so many bits are whole numbers above zero.
const NARROW: u32 = 63;
const WIDE: u32 = 128;

impl Packed {
    /// A table without keys, for columns that are looked up in these tables.
    pub fn new(tables: Vec<Groups>) -> Self {
        let columns = tables.into_iter().map(Column::new).collect();
        Self { columns, codes: Codes::Narrow(IntegerGroups::default()), count: 0 }
    }

    /// How many distinct keys there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The groups of some rows' keys.
    pub fn number(&mut self, keys: &[Keys], rows: Option<&UInt32Array>) -> Vec<u32> {
        let cells = self.columns.iter_mut().zip(keys).map(|(column, keys)| column.cells(keys, rows)).collect();
        self.number_cells(cells)
    }

    /// Takes in the keys of another table.
    pub fn absorb(&mut self, other: &Self) -> Vec<u32> {
        let numbers: Vec<u32> = (0..other.count as u32).collect();
        self.number_others(other, other.values(&numbers))
    }

    /// Takes in the keys of another table whose first column are whole numbers, which `first` changes.
    pub fn absorb_with(&mut self, other: &Self, first: impl Fn(i64) -> i64) {
        let numbers: Vec<u32> = (0..other.count as u32).collect();
        let mut cells = other.values(&numbers);
        if let Cells::Whole(whole) = &mut cells[0] {
            whole.values = whole.values.iter().map(|value| first(*value)).collect();
        }
        self.number_others(other, cells);
    }

    fn number_others(&mut self, other: &Self, cells: Vec<Cells>) -> Vec<u32> {
        let both = self.columns.iter_mut().zip(&other.columns).zip(cells);
        let cells = both.map(|((ours, theirs), cells)| match (cells, &mut ours.names, &theirs.names) {
            (Cells::Numbers(numbers), Some(ours), Some(theirs)) => {
                let here = ours.absorb(theirs);
                Cells::Numbers(numbers.iter().map(|number| here[*number as usize]).collect())
            }
            (Cells::Whole(whole), Some(ours), _) => Cells::Numbers(numbers_in(ours, &Keys::Integers(whole), None)),
            (cells, _, _) => cells,
        });
        let cells = cells.collect();
        self.number_cells(cells)
    }

    /// The groups in the order of their keys: by one column after the other, nulls first.
    pub fn sorted(&self) -> Vec<u32> {
        if self.columns.iter().all(|column| column.names.is_none()) {
            return match &self.codes {
                Codes::Narrow(codes) => codes.sorted(),
                Codes::Wide(codes) => in_order(codes.keys().iter().copied()),
            };
        }
        // The same codes with the rank of each value in the place of its number.
        let ranks: Vec<Option<Vec<u32>>> = self.columns.iter().map(Column::ranks).collect();
        let rank = |code: u128| {
            self.columns.iter().zip(&ranks).fold(code, |code, (column, ranks)| match ranks {
                None => code,
                Some(ranks) => {
                    let number = column.part(code) - 1;
                    let mask = u128::from(column.most()) << column.shift;
                    code & !mask | u128::from(ranks[number as usize] + 1) << column.shift
                }
            })
        };
        match &self.codes {
            Codes::Narrow(codes) => in_order(codes.all().iter().map(|code| rank(*code as u128) as u64)),
            Codes::Wide(codes) => in_order(codes.keys().iter().map(|code| rank(*code))),
        }
    }

    /// The key columns of these groups.
    pub fn key_columns(&self, encoders: &[KeyEncoder], numbers: &UInt32Array) -> Result<Vec<ArrayRef>> {
        let cells = self.values(numbers.values()).into_iter();
        let columns =
            cells.zip(&self.columns).zip(encoders).map(|((cells, column), encoder)| match (cells, &column.names) {
                (Cells::Numbers(numbers), Some(names)) => names.columns(encoder, &numbers.into()),
                (Cells::Numbers(_), None) => unreachable!("numbers are of a table"),
                (Cells::Whole(whole), _) => Ok(vec![encoder.column(whole)?]),
            });
        Ok(columns.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// The first column of all keys, if it is of whole numbers that stand for themselves.
    pub fn first(&self) -> Option<impl Iterator<Item = i64>> {
        let column = &self.columns[0];
        let of = |code: u128| column.value(column.part(code));
        column.names.is_none().then(|| (0..self.count).map(move |number| of(self.code(number))))
    }

    /// A table of these groups only.
    pub fn only(&self, numbers: &[u32]) -> Self {
        let mut kept = Self {
            columns: Vec::with_capacity(self.columns.len()),
            codes: Codes::Narrow(IntegerGroups::default()),
            count: 0,
        };
        let mut cells = self.values(numbers);
        for (column, cells) in self.columns.iter().zip(&mut cells) {
            let names = match (&mut *cells, &column.names) {
                (Cells::Numbers(numbers), Some(names)) => {
                    let mut used = IntegerGroups::default();
                    let all =
                        Integers { values: numbers.iter().map(|number| i64::from(*number)).collect(), nulls: None };
                    *numbers = used.number(&all, None);
                    Some(names.only(&used.all().iter().map(|number| *number as u32).collect::<Vec<_>>().into()))
                }
                _ => None,
            };
            kept.columns.push(Column { names, seen: None, ..*column });
        }
        kept.number_cells(cells);
        kept
    }

    /// Forgets all keys, and keeps the memory for those to come.
    pub fn clear(&mut self) {
        match &mut self.codes {
            Codes::Narrow(codes) => codes.clear(),
            Codes::Wide(codes) => codes.clear(),
        }
        for column in &mut self.columns {
            column.seen = None;
            match &mut column.names {
                Some(_) if column.is_whole => column.names = None,
                Some(names) => names.clear(),
                None => {}
            }
        }
        self.count = 0;
    }

    /// How many bytes of memory the table takes.
    pub fn size(&self) -> usize {
        let codes = match &self.codes {
            Codes::Narrow(codes) => codes.size(),
            Codes::Wide(codes) => codes.size(),
        };
        codes + self.columns.iter().map(|column| column.names.as_ref().map_or(0, Groups::size)).sum::<usize>()
    }

    fn number_cells(&mut self, mut cells: Vec<Cells>) -> Vec<u32> {
        let seen: Vec<_> = self.columns.iter().zip(&cells).map(|(column, cells)| column.range(cells)).collect();
        let is_room = |(column, seen): (&Column, &Option<(i64, i64)>)| seen.is_none_or(|seen| column.holds(seen));
        if self.count > 0 && self.columns.iter().zip(&seen).all(is_room) {
            self.columns.iter_mut().zip(seen).for_each(|(column, seen)| column.see(seen));
        } else {
            self.make_room(&mut cells, seen);
        }
        self.number_packed(&cells)
    }

    /// The groups of cells for which there is room.
    fn number_packed(&mut self, cells: &[Cells]) -> Vec<u32> {
        let rows = cells.first().map_or(0, Cells::len);
        match &mut self.codes {
            Codes::Narrow(codes) => {
                let mut all = vec![0u64; rows];
                let each = self.columns.iter().zip(cells);
                each.for_each(|(column, cells)| {
                    column.pack(cells, &mut all, |code, part| *code |= part << column.shift)
                });
                let values: Vec<i64> = all.into_iter().map(|code| code as i64).collect();
                let numbers = codes.number(&Integers { values: values.into(), nulls: None }, None);
                self.count = codes.count();
                numbers
            }
            Codes::Wide(codes) => {
                let mut all = vec![0u128; rows];
                for (column, cells) in self.columns.iter().zip(cells) {
                    column.pack(cells, &mut all, |code, part| *code |= u128::from(part) << column.shift);
                }
                let numbers = codes.number(&all);
                self.count = codes.keys().len();
                numbers
            }
        }
    }

    /// Lays the bits out anew, so that there is room for these cells, which have values in these ranges.
    fn make_room(&mut self, cells: &mut [Cells], seen: Vec<Option<(i64, i64)>>) {
        let numbers: Vec<u32> = (0..self.count as u32).collect();
        let mut held = self.cells(&numbers);
        let is_first = self.count == 0;
        let is_outside: Vec<bool> =
            self.columns.iter().zip(&seen).map(|(column, seen)| seen.is_some_and(|seen| !column.holds(seen))).collect();
        self.columns.iter_mut().zip(seen).for_each(|(column, seen)| column.see(seen));
        loop {
            // A range that grew once may grow again: twice as much room each time.
            let bits = |(column, is_outside): (&Column, &bool)| match column.need() {
                Some(need) if *is_outside && !is_first => need.max((column.bits + 1).min(u64::BITS)),
                need => need.unwrap_or(WIDE + 1),
            };
            let bits: Vec<u32> = self.columns.iter().zip(&is_outside).map(bits).collect();
            if bits.iter().sum::<u32>() <= WIDE && bits.iter().all(|bits| *bits <= u64::BITS) {
                self.lay_out(&bits);
                break;
            }
            let widest = (0..bits.len()).filter(|i| self.columns[*i].names.is_none()).max_by_key(|i| bits[*i]);
            let Some(widest) = widest else {
                let need: Vec<u32> = self.columns.iter().map(|column| column.need().unwrap_or(u32::BITS)).collect();
                self.lay_out(&need);
                break;
            };
            let column = &mut self.columns[widest];
            let mut names = Groups::Integers(IntegerGroups::default());
            column.seen = None;
            for cells in [&mut held[widest], &mut cells[widest]] {
                if let Cells::Whole(whole) = cells {
                    let nothing = Integers { values: ScalarBuffer::from(Vec::new()), nulls: None };
                    let whole = Keys::Integers(std::mem::replace(whole, nothing));
                    *cells = Cells::Numbers(numbers_in(&mut names, &whole, None));
                }
                column.see(range_of_numbers(&names));
            }
            (column.names, column.bits) = (Some(names), 0);
        }
        self.number_packed(&held);
    }

    /// Gives each column so many bits, and room for what it has seen.
    fn lay_out(&mut self, bits: &[u32]) {
        let mut shift = 0;
        for (column, bits) in self.columns.iter_mut().zip(bits).rev() {
            (column.bits, column.shift) = (*bits, shift);
            shift += bits;
            column.base = column.suitable_base();
        }
        match &mut self.codes {
            Codes::Narrow(codes) if shift <= NARROW => codes.clear(),
            Codes::Wide(codes) if shift > NARROW => codes.clear(),
            _ if shift <= NARROW => self.codes = Codes::Narrow(IntegerGroups::default()),
            _ => self.codes = Codes::Wide(WideGroups::default()),
        }
    }

    fn code(&self, number: usize) -> u128 {
        match &self.codes {
            Codes::Narrow(codes) => codes.all()[number] as u128,
            Codes::Wide(codes) => codes.keys()[number],
        }
    }

    /// The cells of these groups.
    fn cells(&self, numbers: &[u32]) -> Vec<Cells> {
        let parts = |column: &Column| -> Vec<u64> {
            numbers.iter().map(|number| column.part(self.code(*number as usize))).collect()
        };
        let cells = |column: &Column| match &column.names {
            None => {
                let parts = parts(column);
                let nulls = parts.contains(&0).then(|| parts.iter().map(|part| *part != 0).collect::<NullBuffer>());
                let values = parts.iter().map(|part| column.value(*part));
                Cells::Whole(Integers { values: values.collect(), nulls })
            }
            Some(_) => Cells::Numbers(parts(column).into_iter().map(|part| (part - 1) as u32).collect()),
        };
        self.columns.iter().map(cells).collect()
    }

    /// The cells of these groups, with whole numbers as they are.
    fn values(&self, numbers: &[u32]) -> Vec<Cells> {
        let value = |(column, cells): (&Column, Cells)| match (&column.names, cells) {
            (Some(Groups::Integers(names)), Cells::Numbers(numbers)) => Cells::Whole(names.keys(&numbers)),
            (_, cells) => cells,
        };
        self.columns.iter().zip(self.cells(numbers)).map(value).collect()
    }
}

/// The numbers of keys in their order.
fn in_order<K: Ord>(keys: impl Iterator<Item = K>) -> Vec<u32> {
    let mut order: Vec<(K, u32)> = keys.zip(0..).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, number)| number).collect()
}
