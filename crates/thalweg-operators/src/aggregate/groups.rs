//! Numbers the distinct keys of a pane.

use arrow_array::{ArrayRef, UInt32Array};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::DataType;
use hashbrown::{HashTable, hash_table::Entry};
use thalweg_core::Result;
use thalweg_memory::kernels::hash::hash_columns;

use crate::rows::canonical;

/// Turns key columns into bytes that are equal, and ordered, as the keys are: ascending, nulls first.
pub struct KeyEncoder {
    converter: RowConverter,
}

/// The keys of some rows: their bytes and hashes.
pub struct Keys {
    encoded: Rows,
    /// One hash per row.
    pub hashes: Vec<u64>,
}

impl KeyEncoder {
    /// An encoder of keys of these types.
    pub fn new(types: &[DataType]) -> Result<Self> {
        let fields = types.iter().map(|kind| SortField::new(kind.clone())).collect();
        Ok(Self { converter: RowConverter::new(fields)? })
    }

    /// The keys of `rows` rows. As in PostgreSQL, −0.0 and 0.0 are one key, and so are all NaNs.
    pub fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Keys> {
        let columns: Vec<_> = columns.iter().map(canonical).collect();
        let encoded = match columns.is_empty() {
            // Without key columns all rows have the same, empty key.
            true => self.converter.empty_rows(0, 0),
            false => self.converter.convert_columns(&columns)?,
        };
        Ok(Keys { encoded, hashes: hash_columns(&columns, rows)? })
    }

    /// Key columns from the keys' bytes.
    pub fn decode<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        let parser = self.converter.parser();
        Ok(self.converter.convert_rows(keys.map(|key| parser.parse(key)))?)
    }
}

impl Keys {
    /// The bytes of one row's key.
    pub fn key(&self, row: usize) -> &[u8] {
        if self.encoded.num_rows() == 0 { &[] } else { self.encoded.row(row).data() }
    }
}

/// Distinct keys, numbered from zero in the order of their first appearance. Keeps no view into a batch.
#[derive(Default)]
pub struct Groups {
    table: HashTable<u32>,
    hashes: Vec<u64>,
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Groups {
    /// How many distinct keys there are.
    pub fn count(&self) -> usize {
        self.hashes.len()
    }

    /// The number of a key, new if it has not been seen.
    pub fn number(&mut self, hash: u64, key: &[u8]) -> u32 {
        let Self { table, hashes, ends, bytes } = self;
        let key_of = |group: u32| &bytes[if group == 0 { 0 } else { ends[group as usize - 1] }..ends[group as usize]];
        let is_same = |group: &u32| hashes[*group as usize] == hash && key_of(*group) == key;
        match table.entry(hash, is_same, |group| hashes[*group as usize]) {
            Entry::Occupied(found) => *found.get(),
            Entry::Vacant(vacant) => {
                let group = hashes.len() as u32;
                vacant.insert(group);
                hashes.push(hash);
                bytes.extend_from_slice(key);
                ends.push(bytes.len());
                group
            }
        }
    }

    /// The bytes of a group's key.
    pub fn key(&self, group: u32) -> &[u8] {
        let group = group as usize;
        &self.bytes[if group == 0 { 0 } else { self.ends[group - 1] }..self.ends[group]]
    }

    /// The hash of a group's key.
    pub fn hash(&self, group: u32) -> u64 {
        self.hashes[group as usize]
    }

    /// The groups in the order of their keys.
    pub fn sorted(&self) -> UInt32Array {
        let mut order: Vec<u32> = (0..self.count() as u32).collect();
        order.sort_unstable_by(|a, b| self.key(*a).cmp(self.key(*b)));
        order.into()
    }

    /// How many bytes of memory the table takes.
    pub fn size(&self) -> usize {
        self.table.allocation_size() + self.hashes.capacity() * 8 + self.ends.capacity() * 8 + self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Array, Float32Array, Float64Array, Int64Array, StringArray};

    use super::*;

    fn numbered(columns: Vec<ArrayRef>) -> (Vec<u32>, Groups, KeyEncoder) {
        let types: Vec<_> = columns.iter().map(|column| column.data_type().clone()).collect();
        let encoder = KeyEncoder::new(&types).unwrap();
        let rows = columns[0].len();
        let keys = encoder.encode(&columns, rows).unwrap();
        let mut groups = Groups::default();
        let numbers = (0..rows).map(|row| groups.number(keys.hashes[row], keys.key(row))).collect();
        (numbers, groups, encoder)
    }

    #[test]
    fn equal_keys_have_one_number_and_null_is_a_key() {
        let letters = StringArray::from(vec![Some("b"), None, Some("b"), Some("a"), None]);
        let (numbers, groups, encoder) = numbered(vec![Arc::new(letters)]);
        assert_eq!(numbers, [0, 1, 0, 2, 1]);
        let sorted = groups.sorted();
        let keys = encoder.decode(sorted.values().iter().map(|group| groups.key(*group))).unwrap();
        assert_eq!(keys[0].as_ref(), &StringArray::from(vec![None, Some("a"), Some("b")]), "nulls first");
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
}
