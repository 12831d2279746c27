//! Rows with a 4-byte key, and what goes with it.

use std::{fmt, str::FromStr, sync::Arc};

use arrow_array::{
    ArrayRef, BinaryViewArray, FixedSizeBinaryArray, Int32Array, RecordBatch, StringViewArray, cast::AsArray,
    types::Int32Type,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use thalweg::Memory;
use thalweg_shuffle::route::{Destinations, hash::Range};

/// What goes with a row's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// So many bytes beside the key.
    Fixed(usize),
    /// So many bytes in a column of any length: what is longer than 12 lies in a page's data section, as in the shuffle thesis.
    Any(usize),
    /// Two strings, of up to 12 and up to 60 bytes.
    Text,
}

impl Kind {
    /// Those of a fixed length, as most of the thesis's.
    pub const USUAL: [Self; 3] = [Self::Fixed(0), Self::Fixed(12), Self::Fixed(96)];

    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Fixed(0), Self::Fixed(12), Self::Fixed(96), Self::Any(12), Self::Any(96), Self::Text];

    /// How many bytes a row has, on average.
    pub fn bytes(self) -> usize {
        match self {
            Self::Fixed(more) | Self::Any(more) => 4 + more,
            Self::Text => 4 + 6 + 30,
        }
    }

    /// In words.
    pub fn said(self) -> String {
        match self {
            Self::Fixed(0) => "4-byte keys".into(),
            Self::Fixed(more) => format!("4-byte keys and {more} bytes"),
            Self::Any(more) => format!("4-byte keys and {more} bytes in a column of any length"),
            Self::Text => "4-byte keys, and two strings of 0 to 12 and 0 to 60 bytes".into(),
        }
    }

    /// The columns.
    pub fn schema(self) -> SchemaRef {
        let more = match self {
            Self::Fixed(0) => vec![],
            Self::Fixed(more) => vec![DataType::FixedSizeBinary(more as i32)],
            Self::Any(_) => vec![DataType::BinaryView],
            Self::Text => vec![DataType::Utf8View; 2],
        };
        let all = [DataType::Int32].into_iter().chain(more).enumerate();
        let fields: Vec<Field> = all.map(|(number, kind)| Field::new(format!("c{number}"), kind, false)).collect();
        Arc::new(Schema::new(fields))
    }

    fn columns(self, keys: Vec<i32>) -> Vec<ArrayRef> {
        let bytes = |more: usize| keys.iter().map(move |key| payload(*key, more));
        let text = |longest: usize| {
            let length = move |key: i32| key as usize % (longest + 1);
            let texts: StringViewArray =
                keys.iter().map(|key| Some("abcdefghij".repeat(7)[..length(*key)].to_string())).collect();
            Arc::new(texts) as ArrayRef
        };
        let more: Vec<ArrayRef> = match self {
            Self::Fixed(0) => vec![],
            Self::Fixed(more) => {
                let values = bytes(more).collect::<Vec<_>>().concat();
                vec![Arc::new(FixedSizeBinaryArray::new(more as i32, values.into(), None))]
            }
            Self::Any(more) => vec![Arc::new(BinaryViewArray::from_iter_values(bytes(more)))],
            Self::Text => vec![text(12), text(60)],
        };
        let all = [Arc::new(Int32Array::from(keys)) as ArrayRef].into_iter();
        all.chain(more).collect()
    }

    /// Says what is wrong with a batch that came to a partition: a key that is not its, or other values than the key's.
    pub fn check(self, batch: &RecordBatch) -> Result<(), String> {
        let keys = batch.column(0).as_primitive::<Int32Type>().values();
        let expected = self.columns(keys.to_vec());
        match expected.iter().zip(batch.columns()).all(|(expected, found)| expected == found) {
            true => Ok(()),
            false => Err("a row came with the values of another".into()),
        }
    }
}

fn payload(key: i32, bytes: usize) -> Vec<u8> {
    key.to_le_bytes().repeat(bytes / 4)
}

/// So many rows with uniform keys, in batches, in memory that is read fastest.
pub fn batches(kind: Kind, rows: usize, batch_rows: usize) -> Result<Vec<RecordBatch>, String> {
    let mut random = StdRng::seed_from_u64(67);
    let mut made = Vec::new();
    for first in (0..rows).step_by(batch_rows) {
        let keys = (first..rows.min(first + batch_rows)).map(|_| random.random_range(0..i32::MAX)).collect();
        let batch = RecordBatch::try_new(kind.schema(), kind.columns(keys)).map_err(|error| error.to_string())?;
        made.push(batch);
    }
    let kept = Memory::preallocated(&[made]).map_err(|error| error.to_string())?;
    Ok(kept.into_iter().flatten().collect())
}

/// Each row to the partition that the lowest bits of its key name, or its key as a fraction of all where that is no power of two.
pub fn route(batch: &RecordBatch, range: Range) -> Destinations {
    let keys = batch.column(0).as_primitive::<Int32Type>().values();
    Destinations::One(keys.iter().map(|key| partition(*key, range)).collect())
}

/// The partition of a key.
pub fn partition(key: i32, range: Range) -> u32 {
    match range {
        Range::Mask(mask) => key as u32 & mask as u32,
        Range::Multiply(partitions) => ((key as u64 * 2 * partitions) >> 32) as u32,
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(more) => write!(f, "{}", 4 + more),
            Self::Any(more) => write!(f, "{}v", 4 + more),
            Self::Text => f.write_str("text"),
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let kinds = Self::ALL.map(|kind| kind.to_string()).join(", ");
        Self::ALL.into_iter().find(|kind| kind.to_string() == name).ok_or(format!("one of {kinds}"))
    }
}
