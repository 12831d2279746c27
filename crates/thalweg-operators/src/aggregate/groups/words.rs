//! Columns of text or bytes, as words by which they are told apart.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, GenericBinaryArray, GenericStringArray, OffsetSizeTrait, StringArray, StringViewArray,
    UInt32Array, cast::AsArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_schema::DataType;
use arrow_select::take::take;
use thalweg_core::{Error, Result};

use super::texts::{ABSENT, NULL, TextGroups, word, word_of_view, word_within};

/// The keys of some rows.
pub struct Texts {
    /// The word of each row, unless they are of a dictionary.
    words: Vec<u128>,
    /// Where the bytes are.
    values: ArrayRef,
    /// Which value of the dictionary each row has; its length is null.
    chosen: Option<Vec<u32>>,
}

/// A dictionary may have so many times the words that rows have, to be read as a whole.
const UNUSED: usize = 4;

impl Texts {
    /// Whether keys of this type are text or bytes.
    pub fn are(kind: &DataType) -> bool {
        use DataType::*;
        match kind {
            Dictionary(_, values) => !matches!(**values, Dictionary(..)) && Self::are(values),
            _ => matches!(kind, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView),
        }
    }

    /// The keys in a column.
    pub fn new(column: &ArrayRef) -> Result<Self> {
        let Some(dictionary) = column.as_any_dictionary_opt() else {
            return Ok(Self { words: words(column)?, values: Arc::clone(column), chosen: None });
        };
        if dictionary.values().len() > UNUSED * column.len() {
            let rows = UInt32Array::new(dictionary.normalized_keys().iter().map(|key| *key as u32).collect(), None);
            let rows = UInt32Array::new(rows.values().clone(), dictionary.keys().nulls().cloned());
            return Self::new(&take(dictionary.values(), &rows, None)?);
        }
        let null = dictionary.values().len() as u32;
        // What stands in the place of a null key says nothing.
        let keys = if null == 0 { vec![0; column.len()] } else { dictionary.normalized_keys() };
        let chosen = match dictionary.keys().nulls() {
            None => keys.iter().map(|key| *key as u32).collect(),
            Some(nulls) => keys.iter().zip(nulls).map(|(key, is)| if is { *key as u32 } else { null }).collect(),
        };
        Ok(Self { words: Vec::new(), values: Arc::clone(dictionary.values()), chosen: Some(chosen) })
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.chosen.as_ref().map_or(self.words.len(), Vec::len)
    }

    /// The groups of some rows' keys.
    pub fn number(&self, groups: &mut TextGroups, rows: Option<&UInt32Array>) -> Vec<u32> {
        let Some(chosen) = &self.chosen else {
            let mut one = |row: usize| groups.number(self.words[row], || bytes(&self.values, row));
            return match rows {
                None => (0..self.words.len()).map(one).collect(),
                Some(rows) => rows.values().iter().map(|row| one(*row as usize)).collect(),
            };
        };
        // Each value of a dictionary is looked up once, and so are those of the next batch with the same.
        let mut known = groups.take_known(&self.values);
        let mut of_value = |at: u32| {
            let at = at as usize;
            if known[at] == ABSENT {
                let is_null = at == self.values.len() || self.values.is_null(at);
                let bytes = if is_null { &[] } else { bytes(&self.values, at) };
                known[at] = groups.number(if is_null { NULL } else { word(bytes) }, || bytes);
            }
            known[at]
        };
        let numbers = match rows {
            None => chosen.iter().map(|at| of_value(*at)).collect(),
            Some(rows) => rows.values().iter().map(|row| of_value(chosen[*row as usize])).collect(),
        };
        groups.keep_known(&self.values, known);
        numbers
    }
}

/// The word of each row, in a column that is no dictionary.
fn words(column: &ArrayRef) -> Result<Vec<u128>> {
    let mut words = match column.data_type() {
        DataType::Utf8 => of_run(column.as_string::<i32>().value_data(), column.as_string::<i32>().offsets()),
        DataType::LargeUtf8 => of_run(column.as_string::<i64>().value_data(), column.as_string::<i64>().offsets()),
        DataType::Binary => of_run(column.as_binary::<i32>().value_data(), column.as_binary::<i32>().offsets()),
        DataType::LargeBinary => of_run(column.as_binary::<i64>().value_data(), column.as_binary::<i64>().offsets()),
        DataType::Utf8View => of_views(column, column.as_string_view().views()),
        DataType::BinaryView => of_views(column, column.as_binary_view().views()),
        other => return Err(Error::bug(format!("a key of type {other} is no text"))),
    };
    if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
        words.iter_mut().zip(nulls).filter(|(_, is_there)| !is_there).for_each(|(word, _)| *word = NULL);
    }
    Ok(words)
}

fn of_run<O: OffsetSizeTrait>(run: &[u8], offsets: &OffsetBuffer<O>) -> Vec<u128> {
    offsets.windows(2).map(|ends| word_within(run, ends[0].as_usize(), ends[1].as_usize())).collect()
}

fn of_views(column: &ArrayRef, views: &ScalarBuffer<u128>) -> Vec<u128> {
    let is_whole = |view: u128| view as u32 <= 12;
    let one =
        |(row, view): (usize, &u128)| if is_whole(*view) { word_of_view(*view) } else { word(bytes(column, row)) };
    views.iter().enumerate().map(one).collect()
}

/// The bytes in a row of a column that is no dictionary.
fn bytes(column: &ArrayRef, row: usize) -> &[u8] {
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).as_bytes(),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).as_bytes(),
        DataType::Utf8View => column.as_string_view().value(row).as_bytes(),
        DataType::Binary => column.as_binary::<i32>().value(row),
        DataType::LargeBinary => column.as_binary::<i64>().value(row),
        _ => column.as_binary_view().value(row),
    }
}

/// The texts of these groups as a column.
pub fn column(groups: &TextGroups, numbers: &[u32], kind: &DataType) -> Result<ArrayRef> {
    match kind {
        DataType::Utf8 => strings::<i32>(groups, numbers),
        DataType::LargeUtf8 => strings::<i64>(groups, numbers),
        DataType::Utf8View => {
            let plain = strings::<i32>(groups, numbers)?;
            let plain: &StringArray = plain.as_string();
            Ok(Arc::new(StringViewArray::from(plain)))
        }
        DataType::Binary => Ok(Arc::new(binary::<i32>(groups, numbers)?)),
        DataType::LargeBinary => Ok(Arc::new(binary::<i64>(groups, numbers)?)),
        DataType::Dictionary(_, values) => Ok(cast(&column(groups, numbers, values)?, kind)?),
        _ => Ok(cast(&binary::<i32>(groups, numbers)?, kind)?),
    }
}

fn strings<O: OffsetSizeTrait>(groups: &TextGroups, numbers: &[u32]) -> Result<ArrayRef> {
    let (offsets, bytes, nulls) = binary::<O>(groups, numbers)?.into_parts();
    Ok(Arc::new(GenericStringArray::<O>::try_new(offsets, bytes, nulls)?))
}

fn binary<O: OffsetSizeTrait>(groups: &TextGroups, numbers: &[u32]) -> Result<GenericBinaryArray<O>> {
    let length = groups.length(numbers);
    if O::from_usize(length).is_none() {
        return Err(Error::environment("the text of all keys is more than a column can hold"));
    }
    let (mut bytes, mut ends, mut known) = (Vec::with_capacity(length), vec![O::default()], Vec::new());
    for number in numbers {
        groups.with(*number, |text| {
            bytes.extend_from_slice(text.unwrap_or_default());
            known.push(text.is_some());
        });
        ends.push(O::usize_as(bytes.len()));
    }
    let nulls = Some(NullBuffer::from(known)).filter(|nulls| nulls.null_count() > 0);
    Ok(GenericBinaryArray::try_new(OffsetBuffer::new(ends.into()), bytes.into(), nulls)?)
}
