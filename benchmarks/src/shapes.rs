//! The columns that a key is made into, and how it is read from them.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray, cast::AsArray, types::*,
};

/// How many days a key of a name and a day is spread over.
const DAYS: i64 = 7;

/// How many second parts a key of two numbers has.
const PARTS: i64 = 100;

/// Of what columns keys are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A BIGINT.
    Whole,
    /// Two BIGINTs.
    Pair,
    /// A STRING of 11 bytes.
    Text,
    /// A dictionary of them, the same for each batch.
    Dictionary,
    /// A STRING and a DATE.
    TextAndDay,
}

impl Shape {
    /// The names of the columns.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Whole | Self::Text | Self::Dictionary => &["key"],
            Self::Pair => &["key", "part"],
            Self::TextAndDay => &["key", "day"],
        }
    }

    /// The columns of keys below a number.
    pub fn make(self, keys: &Int64Array, count: usize) -> Vec<ArrayRef> {
        let keys = keys.values();
        let part = |divisor: i64| Int64Array::from_iter_values(keys.iter().map(|key| key / divisor));
        let rest = |divisor: i64| keys.iter().map(move |key| key % divisor);
        match self {
            Self::Whole => vec![Arc::new(part(1))],
            Self::Pair => vec![Arc::new(part(PARTS)), Arc::new(Int64Array::from_iter_values(rest(PARTS)))],
            Self::Text => vec![Arc::new(keys.iter().map(|key| Some(name(*key))).collect::<StringArray>())],
            Self::Dictionary => {
                let names: StringArray = (0..count as i64).map(|key| Some(name(key))).collect();
                let keys = Int32Array::from_iter_values(keys.iter().map(|key| *key as i32));
                vec![Arc::new(DictionaryArray::new(keys, Arc::new(names)))]
            }
            Self::TextAndDay => {
                let names: StringArray = keys.iter().map(|key| Some(name(key / DAYS))).collect();
                let days = Date32Array::from_iter_values(rest(DAYS).map(|day| day as i32 + 20_000));
                vec![Arc::new(names), Arc::new(days)]
            }
        }
    }

    /// Rows of window start, the columns of the key and value as rows of window start, key and value.
    pub fn read(self, rows: &RecordBatch) -> Result<RecordBatch, String> {
        if self == Self::Whole {
            return Ok(rows.clone());
        }
        let text = |row: usize, column: &ArrayRef| -> Result<i64, String> {
            let text = match column.as_dictionary_opt::<Int32Type>() {
                Some(column) => column.values().as_string::<i32>().value(column.keys().value(row) as usize),
                None => column.as_string::<i32>().value(row),
            };
            let number = text.strip_prefix("meter-").filter(|digits| digits.len() == 5);
            number.and_then(|digits| digits.parse().ok()).ok_or_else(|| format!("no key is called {text:?}"))
        };
        let key = |row: usize| {
            let column = rows.column(1);
            let second = rows.column(2);
            Ok::<_, String>(match self {
                Self::Whole => column.as_primitive::<Int64Type>().value(row),
                Self::Pair => {
                    let (first, second) = (column.as_primitive::<Int64Type>(), second.as_primitive::<Int64Type>());
                    first.value(row) * PARTS + second.value(row)
                }
                Self::Text | Self::Dictionary => text(row, column)?,
                Self::TextAndDay => {
                    text(row, column)? * DAYS + i64::from(second.as_primitive::<Date32Type>().value(row) - 20_000)
                }
            })
        };
        let keys = (0..rows.num_rows()).map(key).collect::<Result<Int64Array, String>>();
        let last = rows.num_columns() - 1;
        let columns: [(_, ArrayRef); 3] =
            [("start", Arc::clone(rows.column(0))), ("key", Arc::new(keys?)), ("value", Arc::clone(rows.column(last)))];
        RecordBatch::try_from_iter(columns).map_err(|error| error.to_string())
    }

    /// The stream with keys of this shape.
    pub fn shape(self, stream: &[Vec<RecordBatch>], count: usize) -> Result<Vec<Vec<RecordBatch>>, String> {
        let shaped = |rows: &RecordBatch| {
            let mut columns = vec![("ts", Arc::clone(rows.column(0)))];
            let keys = self.make(rows.column(1).as_primitive::<Int64Type>(), count);
            columns.extend(self.columns().iter().copied().zip(keys));
            columns.push(("value", Arc::clone(rows.column(2))));
            RecordBatch::try_from_iter(columns).map_err(|error| error.to_string())
        };
        stream.iter().map(|partition| partition.iter().map(shaped).collect()).collect()
    }
}

fn name(key: i64) -> String {
    format!("meter-{key:05}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{self, Keys};

    #[test]
    fn what_is_read_is_what_was_made() {
        let stream = stream::readings(3_000, 1, Keys::Uniform(1_000), 1, 0).unwrap();
        for shape in [Shape::Whole, Shape::Pair, Shape::Text, Shape::Dictionary, Shape::TextAndDay] {
            let shaped = shape.shape(&stream, 1_000).unwrap();
            assert_eq!(shaped[0][0].num_columns(), 2 + shape.columns().len());
            assert_eq!(shape.read(&shaped[0][0]).unwrap().columns(), stream[0][0].columns());
        }
    }
}
