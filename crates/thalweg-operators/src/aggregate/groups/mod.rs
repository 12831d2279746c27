//! Numbers the distinct keys of a pane.
//!
//! * [`integers`]: keys that are one whole number, date or time
//! * [`bytes`]: all other keys, as bytes that are ordered as the keys are

pub mod bytes;
pub mod integers;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::DataType;
use arrow_select::take::take;
use thalweg_core::Result;
use thalweg_memory::kernels::hash::hash_columns;

use crate::rows::canonical;
use bytes::ByteGroups;
use integers::{IntegerGroups, Integers};

/// Brings key columns into the form in which they are looked up.
pub struct KeyEncoder {
    types: Vec<DataType>,
    converter: RowConverter,
}

/// The keys of some rows.
pub enum Keys {
    /// There are no key columns: all of so many rows have the same, empty key.
    Empty(usize),
    /// One whole number.
    Integers(Integers),
    /// Bytes that are equal, and ordered, as the keys are; and their hashes.
    Bytes(Rows, Vec<u64>),
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
    /// Bytes.
    Bytes(ByteGroups),
}

impl KeyEncoder {
    /// An encoder of keys of these types.
    pub fn new(types: &[DataType]) -> Result<Self> {
        let fields = types.iter().map(|kind| SortField::new(kind.clone())).collect();
        Ok(Self { types: types.to_vec(), converter: RowConverter::new(fields)? })
    }

    /// A table without keys.
    pub fn groups(&self) -> Groups {
        match &self.types[..] {
            [] => Groups::Empty(false),
            [only] if Integers::are(only) => Groups::Integers(IntegerGroups::default()),
            _ => Groups::Bytes(ByteGroups::default()),
        }
    }

    /// The keys of `rows` rows. As in PostgreSQL, −0.0 and 0.0 are one key, and so are all NaNs.
    pub fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Keys> {
        match columns {
            [] => Ok(Keys::Empty(rows)),
            [only] if Integers::are(&self.types[0]) => Ok(Keys::Integers(Integers::new(only)?)),
            _ => {
                let columns: Vec<_> = columns.iter().map(canonical).collect();
                Ok(Keys::Bytes(self.converter.convert_columns(&columns)?, hash_columns(&columns, rows)?))
            }
        }
    }
}

impl Keys {
    fn len(&self) -> usize {
        match self {
            Self::Empty(rows) => *rows,
            Self::Integers(integers) => integers.values.len(),
            Self::Bytes(rows, _) => rows.num_rows(),
        }
    }
}

impl Groups {
    /// How many distinct keys there are.
    pub fn count(&self) -> usize {
        match self {
            Self::Empty(is_there) => usize::from(*is_there),
            Self::Integers(groups) => groups.count(),
            Self::Bytes(groups) => groups.count(),
        }
    }

    /// The groups of some rows' keys (`None` is all rows); keys that have not been seen get new numbers.
    pub fn number(&mut self, keys: &Keys, rows: Option<&UInt32Array>) -> Numbers {
        match (self, keys) {
            (Self::Empty(is_there), _) => {
                *is_there |= rows.map_or(keys.len(), UInt32Array::len) > 0;
                Numbers::One(0)
            }
            (Self::Integers(groups), Keys::Integers(integers)) => Numbers::Each(groups.number(integers, rows)),
            (Self::Bytes(groups), Keys::Bytes(encoded, hashes)) => {
                let mut number = |row: usize| groups.number(hashes[row], encoded.row(row).data());
                Numbers::Each(match rows {
                    None => (0..hashes.len()).map(number).collect(),
                    Some(rows) => rows.values().iter().map(|row| number(*row as usize)).collect(),
                })
            }
            _ => unreachable!("groups and keys are of one encoder"),
        }
    }

    /// Takes in the keys of another table; returns the numbers that they have here.
    pub fn absorb(&mut self, other: &Self) -> Vec<u32> {
        match (self, other) {
            (Self::Empty(is_there), Self::Empty(other)) => {
                *is_there |= other;
                vec![0; usize::from(*other)]
            }
            (Self::Integers(groups), Self::Integers(other)) => groups.absorb(other),
            (Self::Bytes(groups), Self::Bytes(other)) => {
                let theirs = 0..other.count() as u32;
                theirs.map(|group| groups.number(other.hash(group), other.key(group))).collect()
            }
            _ => unreachable!("both tables are of one encoder"),
        }
    }

    /// The groups in the order of their keys: ascending, nulls first.
    pub fn sorted(&self) -> UInt32Array {
        match self {
            Self::Empty(is_there) => vec![0; usize::from(*is_there)].into(),
            Self::Integers(groups) => groups.sorted().into(),
            Self::Bytes(groups) => groups.sorted().into(),
        }
    }

    /// The key columns of these groups.
    pub fn columns(&self, encoder: &KeyEncoder, numbers: &UInt32Array) -> Result<Vec<ArrayRef>> {
        match self {
            Self::Empty(_) => Ok(Vec::new()),
            Self::Integers(groups) => Ok(vec![take(&groups.column(&encoder.types[0])?, numbers, None)?]),
            Self::Bytes(groups) => {
                let parser = encoder.converter.parser();
                let keys = numbers.values().iter().map(|group| parser.parse(groups.key(*group)));
                Ok(encoder.converter.convert_rows(keys)?)
            }
        }
    }

    /// The hash of each group's key, by which state is divided.
    pub fn hashes(&self, encoder: &KeyEncoder) -> Result<Vec<u64>> {
        match self {
            Self::Empty(is_there) => hash_columns(&[], usize::from(*is_there)),
            Self::Integers(groups) => hash_columns(&[groups.column(&encoder.types[0])?], groups.count()),
            Self::Bytes(groups) => Ok((0..groups.count() as u32).map(|group| groups.hash(group)).collect()),
        }
    }

    /// A table of these groups only, numbered anew in this order.
    pub fn only(&self, numbers: &UInt32Array) -> Self {
        match self {
            Self::Empty(_) => Self::Empty(!numbers.values().is_empty()),
            Self::Integers(groups) => Self::Integers(groups.only(numbers.values())),
            Self::Bytes(groups) => {
                let mut kept = ByteGroups::default();
                for number in numbers.values() {
                    kept.number(groups.hash(*number), groups.key(*number));
                }
                Self::Bytes(kept)
            }
        }
    }

    /// Forgets all keys, and keeps the memory for those to come.
    pub fn clear(&mut self) {
        match self {
            Self::Empty(is_there) => *is_there = false,
            Self::Integers(groups) => groups.clear(),
            Self::Bytes(groups) => groups.clear(),
        }
    }

    /// How many bytes of memory the table takes.
    pub fn size(&self) -> usize {
        match self {
            Self::Empty(_) => 0,
            Self::Integers(groups) => groups.size(),
            Self::Bytes(groups) => groups.size(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Date32Array, Float32Array, Float64Array, Int64Array, StringArray};

    use super::*;

    fn numbered(columns: Vec<ArrayRef>) -> (Vec<u32>, Groups, KeyEncoder) {
        let types: Vec<_> = columns.iter().map(|column| column.data_type().clone()).collect();
        let encoder = KeyEncoder::new(&types).unwrap();
        let rows = columns[0].len();
        let keys = encoder.encode(&columns, rows).unwrap();
        let mut groups = encoder.groups();
        let numbers = match groups.number(&keys, None) {
            Numbers::Each(numbers) => numbers,
            Numbers::One(number) => vec![number; rows],
        };
        (numbers, groups, encoder)
    }

    #[test]
    fn equal_keys_have_one_number_and_null_is_a_key() {
        let letters = StringArray::from(vec![Some("b"), None, Some("b"), Some("a"), None]);
        let (numbers, groups, encoder) = numbered(vec![Arc::new(letters)]);
        assert_eq!(numbers, [0, 1, 0, 2, 1]);
        let keys = groups.columns(&encoder, &groups.sorted()).unwrap();
        assert_eq!(keys[0].as_ref(), &StringArray::from(vec![None, Some("a"), Some("b")]), "nulls first");
        let days = Date32Array::from(vec![Some(9), None, Some(-3), Some(9)]);
        let (numbers, groups, encoder) = numbered(vec![Arc::new(days)]);
        assert_eq!(numbers, [0, 1, 2, 0]);
        let keys = groups.columns(&encoder, &groups.sorted()).unwrap();
        assert_eq!(keys[0].as_ref(), &Date32Array::from(vec![None, Some(-3), Some(9)]));
    }

    #[test]
    fn zeros_are_one_key_and_nans_another() {
        let floats = Float64Array::from(vec![0.0, f64::NAN, -0.0, -f64::NAN, 1.0]);
        assert_eq!(numbered(vec![Arc::new(floats)]).0, [0, 1, 0, 1, 2]);
        let narrow = Float32Array::from(vec![-0.0, f32::NAN, 0.0, -f32::NAN]);
        assert_eq!(numbered(vec![Arc::new(narrow)]).0, [0, 1, 0, 1]);
    }

    #[test]
    fn columns_are_not_run_together() {
        let first: ArrayRef = Arc::new(StringArray::from(vec!["a", "ab"]));
        let second: ArrayRef = Arc::new(StringArray::from(vec!["bc", "c"]));
        let third: ArrayRef = Arc::new(Int64Array::from(vec![1, 1]));
        assert_eq!(numbered(vec![first, second, third]).0, [0, 1]);
    }

    #[test]
    fn state_is_divided_by_the_hash_of_the_columns() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None, Some(-1)]));
        let (_, groups, encoder) = numbered(vec![Arc::clone(&column)]);
        assert_eq!(groups.hashes(&encoder).unwrap(), hash_columns(&[column], 3).unwrap());
    }
}
