//! A hash of key columns that is the same on every machine and in every version, because state is divided by it.

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, cast::AsArray, downcast_primitive_array, types::*,
};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use thalweg_core::{Error, Result};

use crate::simd::{Level, at_level};

/// What a key without columns hashes to, and what every hash starts from.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const NULL: u64 = 0xd6e8_feb8_6659_fd93;
const FACTOR: u64 = 0xa076_1d64_78bd_642f;

/// The hash of each row over all key columns. Equal keys hash alike, and so do numbers of different widths, −0.0 and 0.0,
/// and all NaNs.
///
/// Errors: `Error::Query` for a type that cannot be a key.
pub fn hash_columns(columns: &[ArrayRef], rows: usize) -> Result<Vec<u64>> {
    if let [column] = columns
        && let Some(numbers) = column.as_primitive_opt::<Int64Type>().filter(|numbers| numbers.null_count() == 0)
    {
        // Most keys are such a number: what every hash starts from need not be written and read first.
        let mut hashes = vec![0; rows];
        hash_numbers(Level::best(), numbers.values(), &mut hashes);
        return Ok(hashes);
    }
    let mut hashes = vec![SEED; rows];
    for column in columns {
        hash_column(column, &mut hashes)?;
    }
    Ok(hashes)
}

at_level! {
    /// The hash of each number, as [`hash_columns`] has it of a column of them alone.
    pub fn hash_numbers(numbers: &[i64], hashes: &mut [u64]) = hash_each, false, true
}

/// Vectors have no product of 128 bits, but four of 64.
#[inline(always)]
fn hash_each(in_parts: bool, numbers: &[i64], hashes: &mut [u64]) {
    match in_parts {
        true => numbers.iter().zip(hashes).for_each(|(number, hash)| *hash = mix_in_parts(SEED, *number as u64)),
        false => numbers.iter().zip(hashes).for_each(|(number, hash)| *hash = mix(SEED, *number as u64)),
    }
}

fn hash_column(column: &ArrayRef, hashes: &mut [u64]) -> Result<()> {
    let Some(dictionary) = column.as_any_dictionary_opt() else {
        return hash_values(Column { array: column.as_ref(), places: None }, hashes);
    };
    let (keys, values) = (dictionary.keys(), dictionary.values());
    if values.is_empty() {
        hashes.iter_mut().for_each(|hash| *hash = mix(*hash, NULL));
        return Ok(());
    }
    let valid = |(row, place): (usize, &usize)| (keys.is_valid(row) && values.is_valid(*place)).then_some(*place);
    let places: Vec<_> = dictionary.normalized_keys().iter().enumerate().map(valid).collect();
    hash_values(Column { array: values.as_ref(), places: Some(&places) }, hashes)
}

/// The values of a column's rows.
#[derive(Clone, Copy)]
struct Column<'a> {
    array: &'a dyn Array,
    /// Where each row's value is, if not in its own place; `None` is null.
    places: Option<&'a [Option<usize>]>,
}

fn hash_values(column: Column<'_>, hashes: &mut [u64]) -> Result<()> {
    let array = column.array;
    match array.data_type() {
        DataType::Null => hashes.iter_mut().for_each(|hash| *hash = mix(*hash, NULL)),
        DataType::Boolean => each(column, hashes, |row| u64::from(array.as_boolean().value(row))),
        DataType::Utf8 => each(column, hashes, |row| bytes(array.as_string::<i32>().value(row).as_bytes())),
        DataType::LargeUtf8 => each(column, hashes, |row| bytes(array.as_string::<i64>().value(row).as_bytes())),
        DataType::Utf8View => each(column, hashes, |row| bytes(array.as_string_view().value(row).as_bytes())),
        DataType::Binary => each(column, hashes, |row| bytes(array.as_binary::<i32>().value(row))),
        DataType::LargeBinary => each(column, hashes, |row| bytes(array.as_binary::<i64>().value(row))),
        DataType::BinaryView => each(column, hashes, |row| bytes(array.as_binary_view().value(row))),
        DataType::FixedSizeBinary(_) => each(column, hashes, |row| bytes(array.as_fixed_size_binary().value(row))),
        DataType::Float16 => floats::<Float16Type>(column, hashes, |v| v.to_f64()),
        DataType::Float32 => floats::<Float32Type>(column, hashes, f64::from),
        DataType::Float64 => floats::<Float64Type>(column, hashes, |v| v),
        DataType::Decimal128(..) => {
            let values = array.as_primitive::<Decimal128Type>().values();
            each(column, hashes, |row| words(&[values[row] as u64, (values[row] >> 64) as u64]));
        }
        DataType::Decimal256(..) => {
            let values = array.as_primitive::<Decimal256Type>().values();
            each(column, hashes, |row| bytes(&values[row].to_le_bytes()));
        }
        DataType::UInt64 => {
            let values = array.as_primitive::<UInt64Type>().values();
            each(column, hashes, |row| values[row]);
        }
        kind @ DataType::Interval(_) => return Err(not_a_key(kind)),
        _ => downcast_primitive_array!(
            array => integers(column, array, hashes),
            other => return Err(not_a_key(other)),
        ),
    }
    Ok(())
}

fn not_a_key(kind: &DataType) -> Error {
    Error::query(format!("a value of type {kind} cannot be a grouping key"))
}

fn each(column: Column<'_>, hashes: &mut [u64], value: impl Fn(usize) -> u64) {
    if let Some(places) = column.places {
        let value = |place: &Option<usize>| place.map_or(NULL, &value);
        return hashes.iter_mut().zip(places).for_each(|(hash, place)| *hash = mix(*hash, value(place)));
    }
    match column.array.nulls() {
        None => hashes.iter_mut().enumerate().for_each(|(row, hash)| *hash = mix(*hash, value(row))),
        Some(nulls) => hashes.iter_mut().enumerate().for_each(|(row, hash)| {
            *hash = mix(*hash, if nulls.is_valid(row) { value(row) } else { NULL });
        }),
    }
}

fn integers<T: ArrowPrimitiveType>(column: Column<'_>, array: &PrimitiveArray<T>, hashes: &mut [u64]) {
    let values = array.values();
    each(column, hashes, |row| values[row].to_i64().map_or(0, |value| value as u64));
}

fn floats<T: ArrowPrimitiveType>(column: Column<'_>, hashes: &mut [u64], widen: impl Fn(T::Native) -> f64) {
    let values = column.array.as_primitive::<T>().values();
    each(column, hashes, |row| match widen(values[row]) {
        0.0 => 0,
        value if value.is_nan() => f64::NAN.to_bits(),
        value => value.to_bits(),
    });
}

fn bytes(value: &[u8]) -> u64 {
    let (words, rest) = value.as_chunks::<8>();
    let mut tail = [0; 8];
    tail[..rest.len()].copy_from_slice(rest);
    let hash = words.iter().fold(value.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    mix(hash, u64::from_le_bytes(tail))
}

fn words(value: &[u64]) -> u64 {
    value.iter().fold(0, |hash, word| mix(hash, *word))
}

/// Folds the product of two words: every bit of the result depends on every bit of both.
pub(crate) fn mix(hash: u64, value: u64) -> u64 {
    let product = u128::from(hash ^ value ^ SEED) * u128::from(FACTOR);
    let folded = (product as u64) ^ ((product >> 64) as u64);
    folded.rotate_left(29).wrapping_add(hash)
}

/// The same by products of halves.
#[inline(always)]
fn mix_in_parts(hash: u64, value: u64) -> u64 {
    const LOW: u64 = 0xffff_ffff;
    let value = hash ^ value ^ SEED;
    let [low, high] = [value & LOW, value >> 32].map(|half| [half * (FACTOR & LOW), half * (FACTOR >> 32)]);
    let middle = (low[0] >> 32) + (low[1] & LOW) + (high[0] & LOW);
    let above = high[1] + (low[1] >> 32) + (high[0] >> 32) + (middle >> 32);
    let folded = (middle << 32 | low[0] & LOW) ^ above;
    folded.rotate_left(29).wrapping_add(hash)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{DictionaryArray, Float64Array, Int8Array, Int16Array, Int64Array, StringArray, StringViewArray};

    use super::*;

    fn hashes(columns: Vec<ArrayRef>) -> Vec<u64> {
        let rows = columns[0].len();
        hash_columns(&columns, rows).unwrap()
    }

    #[test]
    fn equal_values_hash_alike_whatever_their_width() {
        let narrow = hashes(vec![Arc::new(Int16Array::from(vec![Some(-3), None, Some(7)]))]);
        assert_eq!(narrow, hashes(vec![Arc::new(Int64Array::from(vec![Some(-3), None, Some(7)]))]));
        assert_eq!([narrow[0], narrow[2]], *hashes(vec![Arc::new(Int64Array::from(vec![-3, 7]))]), "without nulls");
        let text = ["", "a", "eight by", "more than eight bytes"];
        let plain = hashes(vec![Arc::new(StringArray::from(text.to_vec()))]);
        assert_eq!(plain, hashes(vec![Arc::new(StringViewArray::from(text.to_vec()))]));
    }

    #[test]
    fn values_of_a_dictionary_hash_as_they_do_alone() {
        let words = ["b", "a", "b", "a longer word of more than eight bytes"].map(Some);
        let values = Arc::new(StringArray::from_iter(words.into_iter().chain([None])));
        let keys = [Some(2), None, Some(0), Some(4), Some(3), Some(1)];
        let rows: StringArray =
            keys.iter().map(|key| key.filter(|key| *key < 4).and_then(|key| words[key as usize])).collect();
        let dictionary = DictionaryArray::new(Int8Array::from(keys.to_vec()), values);
        assert_eq!(hashes(vec![Arc::new(dictionary)]), hashes(vec![Arc::new(rows)]));
        let nothing =
            DictionaryArray::new(Int8Array::from(vec![None]), Arc::new(StringArray::from(Vec::<&str>::new())));
        assert_eq!(hashes(vec![Arc::new(nothing)]), hashes(vec![Arc::new(StringArray::from(vec![None::<&str>]))]));
    }

    #[test]
    fn zeros_and_nans_are_one_key_each() {
        let odd_nan = f64::from_bits(f64::NAN.to_bits() | 5);
        let found = hashes(vec![Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -odd_nan, 1.0]))]);
        assert_eq!(found[0], found[1]);
        assert_eq!(found[2], found[3]);
        assert_ne!(found[0], found[4]);
    }

    #[test]
    fn numbers_hash_alike_at_every_level() {
        let ends = [0, 1, -1, i64::MIN, i64::MAX, 0xffff_ffff, 1 << 32, -1 << 32];
        let numbers: Vec<i64> = ends.into_iter().chain((0..5000).map(|n| mix(n, n * 7) as i64)).collect();
        let expected: Vec<u64> = numbers.iter().map(|number| mix(SEED, *number as u64)).collect();
        for level in Level::all() {
            let mut hashes = vec![0; numbers.len()];
            hash_numbers(level, &numbers, &mut hashes);
            assert_eq!(hashes, expected, "{level:?}");
        }
    }

    #[test]
    fn hashes_are_the_same_for_ever() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(1), None])),
            Arc::new(StringArray::from(vec![Some("JFK"), Some("a longer key")])),
        ];
        assert_eq!(hashes(columns), GOLDEN, "changing the hash loses the state of every running query");
    }

    const GOLDEN: [u64; 2] = [11_065_551_339_856_208_562, 16_258_403_736_454_802_416];

    #[test]
    fn hashes_spread_over_key_groups_and_columns_do_not_cancel() {
        let same: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
        let found = hashes(vec![Arc::clone(&same), same]);
        let groups = thalweg_core::KeyGroups::default();
        let mut counts = vec![0; groups.count()];
        found.iter().for_each(|hash| counts[groups.of(*hash).0 as usize] += 1);
        assert!(counts.iter().all(|count| (30..140).contains(count)), "{counts:?}");
    }
}
