//! Numbers the distinct keys of a pane.
//!
//! * [`whole`]: values of at most 64 bits as whole numbers, and [`integers`]: a table of those
//! * [`words`]: text and bytes as words of 16 bytes, and [`texts`]: a table of those
//! * [`packed`]: several columns in a word, and [`wide`]: a table of those that need two
//! * [`bytes`]: all other keys, as bytes that are ordered as the keys are
//! * [`table`]: what is below most of these tables

pub mod bytes;
pub mod integers;
pub mod packed;
pub mod table;
#[cfg(test)]
mod tests;
pub mod texts;
pub mod whole;
pub mod wide;
pub mod words;

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_cast::cast;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::DataType;
use thalweg_core::Result;
use thalweg_memory::kernels::hash::hash_columns;

use crate::rows::canonical;
use bytes::ByteGroups;
use integers::IntegerGroups;
use packed::Packed;
use texts::TextGroups;
use whole::Integers;
use words::Texts;

/// Brings key columns into the form in which they are looked up.
pub struct KeyEncoder {
    form: Form,
    /// How many columns there are.
    width: usize,
}

enum Form {
    Empty,
    /// One column of the first type, which is looked up as one of the second type.
    Integers(DataType, DataType),
    Texts(DataType),
    Bytes(DataType, RowConverter),
    /// Several columns, the first of which may be several itself.
    Packed(Vec<KeyEncoder>),
}

/// The keys of some rows.
pub enum Keys {
    /// There are no key columns: all of so many rows have the same, empty key.
    Empty(usize),
    /// Whole numbers, or what may be seen as such.
    Integers(Integers),
    /// Text.
    Texts(Texts),
    /// Bytes that are equal, and ordered, as the keys are; and their hashes.
    Bytes(Rows, Vec<u64>),
    /// Several columns.
    Packed(Vec<Keys>),
}

/// The numbers of some rows' groups.
pub enum Numbers {
    /// All rows are in this group.
    One(u32),
    /// One number per row.
    Each(Vec<u32>),
}

/// Distinct keys, numbered from zero in the order of their first appearance. Keeps no view into a batch.
pub enum Groups {
    /// The empty key, if a row had it.
    Empty(bool),
    /// Whole numbers.
    Integers(IntegerGroups),
    /// Text.
    Texts(TextGroups),
    /// Bytes.
    Bytes(ByteGroups),
    /// Several columns.
    Packed(Packed),
}

impl KeyEncoder {
    /// An encoder of keys of these types.
    pub fn new(types: &[DataType]) -> Result<Self> {
        let form = match types {
            [] => Form::Empty,
            [kind] => Form::of(kind)?,
            _ => {
                let (first, others) = types.split_at(types.len().saturating_sub(packed::COLUMNS) + 1);
                let others = others.chunks(1);
                Form::Packed([first].into_iter().chain(others).map(Self::new).collect::<Result<_>>()?)
            }
        };
        Ok(Self { form, width: types.len() })
    }

    /// A table without keys.
    pub fn groups(&self) -> Groups {
        match &self.form {
            Form::Empty => Groups::Empty(false),
            Form::Integers(..) => Groups::Integers(IntegerGroups::default()),
            Form::Texts(_) => Groups::Texts(TextGroups::default()),
            Form::Bytes(..) => Groups::Bytes(ByteGroups::default()),
            Form::Packed(columns) => Groups::Packed(Packed::new(columns.iter().map(Self::groups).collect())),
        }
    }

    /// The keys of `rows` rows. As in PostgreSQL, −0.0 and 0.0 are one key, and so are all NaNs.
    pub fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Keys> {
        Ok(match &self.form {
            Form::Empty => Keys::Empty(rows),
            Form::Integers(kind, plain) if kind == plain => Keys::Integers(Integers::new(&columns[0])?),
            Form::Integers(_, plain) => Keys::Integers(Integers::new(&cast(&columns[0], plain)?)?),
            Form::Texts(_) => Keys::Texts(Texts::new(&columns[0])?),
            Form::Bytes(_, converter) => {
                let columns = [canonical(&columns[0])];
                Keys::Bytes(converter.convert_columns(&columns)?, hash_columns(&columns, rows)?)
            }
            Form::Packed(parts) => {
                let first = columns.len() + 1 - parts.len();
                let columns = std::iter::once(&columns[..first]).chain(columns[first..].chunks(1));
                let keys = parts.iter().zip(columns).map(|(part, columns)| part.encode(columns, rows));
                Keys::Packed(keys.collect::<Result<_>>()?)
            }
        })
    }

    /// Whole numbers as the column that they were made of.
    fn column(&self, keys: Integers) -> Result<ArrayRef> {
        match &self.form {
            Form::Integers(kind, plain) if kind == plain => keys.column(kind),
            Form::Integers(kind, plain) => Ok(cast(&keys.column(plain)?, kind)?),
            _ => Err(thalweg_core::Error::bug("these keys are no whole numbers")),
        }
    }
}

impl Form {
    fn of(kind: &DataType) -> Result<Self> {
        let plain = match kind {
            DataType::Dictionary(_, values) => values,
            kind => kind,
        };
        if Integers::are(plain) {
            return Ok(Self::Integers(kind.clone(), plain.clone()));
        }
        if Texts::are(kind) {
            return Ok(Self::Texts(kind.clone()));
        }
        Ok(Self::Bytes(kind.clone(), RowConverter::new(vec![SortField::new(kind.clone())])?))
    }
}

impl Keys {
    /// How many rows there are.
    fn len(&self) -> usize {
        match self {
            Self::Empty(rows) => *rows,
            Self::Integers(integers) => integers.values.len(),
            Self::Texts(texts) => texts.count(),
            Self::Bytes(rows, _) => rows.num_rows(),
            Self::Packed(columns) => columns[0].len(),
        }
    }
}

impl Groups {
    /// How many distinct keys there are.
    pub fn count(&self) -> usize {
        match self {
            Self::Empty(is_there) => usize::from(*is_there),
            Self::Integers(groups) => groups.count(),
            Self::Texts(groups) => groups.count(),
            Self::Bytes(groups) => groups.count(),
            Self::Packed(groups) => groups.count(),
        }
    }

    /// The groups of some rows' keys (`None` is all rows); keys that have not been seen get new numbers.
    pub fn number(&mut self, keys: &Keys, rows: Option<&UInt32Array>) -> Numbers {
        Numbers::Each(match (self, keys) {
            (Self::Empty(is_there), _) => {
                *is_there |= rows.map_or(keys.len(), UInt32Array::len) > 0;
                return Numbers::One(0);
            }
            (Self::Integers(groups), Keys::Integers(integers)) => groups.number(integers, rows),
            (Self::Texts(groups), Keys::Texts(texts)) => texts.number(groups, rows),
            (Self::Bytes(groups), Keys::Bytes(encoded, hashes)) => {
                let mut number = |row: usize| groups.number(hashes[row], encoded.row(row).data());
                match rows {
                    None => (0..hashes.len()).map(number).collect(),
                    Some(rows) => rows.values().iter().map(|row| number(*row as usize)).collect(),
                }
            }
            (Self::Packed(groups), Keys::Packed(columns)) => groups.number(columns, rows),
            _ => unreachable!("groups and keys are of one encoder"),
        })
    }

    /// Takes in the keys of another table; returns the numbers that they have here.
    pub fn absorb(&mut self, other: &Self) -> Vec<u32> {
        match (self, other) {
            (Self::Empty(is_there), Self::Empty(other)) => {
                *is_there |= other;
                vec![0; usize::from(*other)]
            }
            (Self::Integers(groups), Self::Integers(other)) => groups.absorb(other),
            (Self::Texts(groups), Self::Texts(other)) => groups.absorb(other, 0..other.count() as u32),
            (Self::Bytes(groups), Self::Bytes(other)) => {
                let theirs = 0..other.count() as u32;
                theirs.map(|group| groups.number(other.hash(group), other.key(group))).collect()
            }
            (Self::Packed(groups), Self::Packed(other)) => groups.absorb(other),
            _ => unreachable!("both tables are of one encoder"),
        }
    }

    /// The groups in the order of their keys: ascending, nulls first.
    pub fn sorted(&self) -> UInt32Array {
        match self {
            Self::Empty(is_there) => vec![0; usize::from(*is_there)].into(),
            Self::Integers(groups) => groups.sorted().into(),
            Self::Texts(groups) => groups.sorted().into(),
            Self::Bytes(groups) => groups.sorted().into(),
            Self::Packed(groups) => groups.sorted().into(),
        }
    }

    /// The key columns of these groups.
    pub fn columns(&self, encoder: &KeyEncoder, numbers: &UInt32Array) -> Result<Vec<ArrayRef>> {
        match (self, &encoder.form) {
            (Self::Empty(_), _) => Ok(Vec::new()),
            (Self::Integers(groups), _) => Ok(vec![encoder.column(groups.keys(numbers.values()))?]),
            (Self::Texts(groups), Form::Texts(kind)) => Ok(vec![words::column(groups, numbers.values(), kind)?]),
            (Self::Bytes(groups), Form::Bytes(kind, converter)) => {
                let parser = converter.parser();
                let keys = numbers.values().iter().map(|group| parser.parse(groups.key(*group)));
                let columns = converter.convert_rows(keys)?;
                // What was a dictionary comes back without it.
                columns.iter().map(|column| Ok(cast(column, kind)?)).collect()
            }
            (Self::Packed(groups), Form::Packed(parts)) => groups.key_columns(parts, numbers),
            _ => unreachable!("groups are of this encoder"),
        }
    }

    /// The hash of each group's key.
    pub fn hashes(&self, encoder: &KeyEncoder) -> Result<Vec<u64>> {
        if let Self::Bytes(groups) = self {
            return Ok((0..groups.count() as u32).map(|group| groups.hash(group)).collect());
        }
        let all = UInt32Array::from_iter_values(0..self.count() as u32);
        hash_columns(&self.columns(encoder, &all)?, self.count())
    }

    /// The hash of these key columns of each group, by which state is divided.
    pub fn hashes_by(&self, encoder: &KeyEncoder, by: &[usize]) -> Result<Vec<u64>> {
        if by.iter().copied().eq(0..encoder.width) {
            return self.hashes(encoder);
        }
        let all = UInt32Array::from_iter_values(0..self.count() as u32);
        let columns = self.columns(encoder, &all)?;
        let columns: Vec<_> = by.iter().map(|column| Arc::clone(&columns[*column])).collect();
        hash_columns(&columns, self.count())
    }

    /// A table of these groups only, numbered anew in this order.
    pub fn only(&self, numbers: &UInt32Array) -> Self {
        match self {
            Self::Empty(_) => Self::Empty(!numbers.values().is_empty()),
            Self::Integers(groups) => Self::Integers(groups.only(numbers.values())),
            Self::Texts(groups) => {
                let mut kept = TextGroups::default();
                kept.absorb(groups, numbers.values().iter().copied());
                Self::Texts(kept)
            }
            Self::Bytes(groups) => {
                let mut kept = ByteGroups::default();
                for number in numbers.values() {
                    kept.number(groups.hash(*number), groups.key(*number));
                }
                Self::Bytes(kept)
            }
            Self::Packed(groups) => Self::Packed(groups.only(numbers.values())),
        }
    }

    /// Forgets all keys, and keeps the memory for those to come.
    pub fn clear(&mut self) {
        match self {
            Self::Empty(is_there) => *is_there = false,
            Self::Integers(groups) => groups.clear(),
            Self::Texts(groups) => groups.clear(),
            Self::Bytes(groups) => groups.clear(),
            Self::Packed(groups) => groups.clear(),
        }
    }

    /// How many bytes of memory the table takes.
    pub fn size(&self) -> usize {
        match self {
            Self::Empty(_) => 0,
            Self::Integers(groups) => groups.size(),
            Self::Texts(groups) => groups.size(),
            Self::Bytes(groups) => groups.size(),
            Self::Packed(groups) => groups.size(),
        }
    }
}
