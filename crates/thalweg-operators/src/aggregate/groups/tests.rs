//! Keys of all types against a map, and what is particular about some.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{
    Array, BooleanArray, Date32Array, DictionaryArray, Float32Array, Float64Array, Int16Array, Int64Array, StringArray,
    new_empty_array,
};
use arrow_cast::cast;
use arrow_select::{concat::concat, take::take};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::*;

fn numbered(columns: Vec<ArrayRef>) -> (Vec<u32>, Groups, KeyEncoder) {
    let types: Vec<_> = columns.iter().map(|column| column.data_type().clone()).collect();
    let encoder = KeyEncoder::new(&types).unwrap();
    let mut groups = encoder.groups();
    let numbers = each(&mut groups, &encoder.encode(&columns, columns[0].len()).unwrap(), None);
    (numbers, groups, encoder)
}

fn each(groups: &mut Groups, keys: &Keys, rows: Option<&UInt32Array>) -> Vec<u32> {
    match groups.number(keys, rows) {
        Numbers::Each(numbers) => numbers,
        Numbers::One(number) => vec![number; rows.map_or(keys.len(), UInt32Array::len)],
    }
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
fn a_dictionary_may_have_nulls_and_equal_values_and_be_much_larger_than_the_rows() {
    let values = StringArray::from_iter([Some("b"), None, Some("a"), Some("b")].into_iter().chain([Some("c"); 100]));
    let keys = Int16Array::from(vec![Some(3), Some(1), None, Some(0), Some(2)]);
    let small: ArrayRef = Arc::new(DictionaryArray::new(keys.clone(), Arc::new(values.slice(0, 4))));
    let large: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(values)));
    let nothing = Arc::new(StringArray::from(Vec::<&str>::new()));
    let none: ArrayRef = Arc::new(DictionaryArray::new(Int16Array::from(vec![None, None]), nothing));
    assert_eq!(numbered(vec![none]).0, [0, 0]);
    for column in [small, large] {
        let (numbers, groups, encoder) = numbered(vec![Arc::clone(&column)]);
        assert_eq!(numbers, [0, 1, 1, 0, 2]);
        let keys = groups.columns(&encoder, &groups.sorted()).unwrap();
        assert_eq!(keys[0].data_type(), column.data_type());
        let plain = cast(&keys[0], &DataType::Utf8).unwrap();
        assert_eq!(plain.as_ref(), &StringArray::from(vec![None, Some("a"), Some("b")]));
    }
}

#[test]
fn groups_of_a_dictionary_are_known_until_they_are_forgotten() {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let column = |keys: &[i16], values: &ArrayRef| -> ArrayRef {
        Arc::new(DictionaryArray::new(Int16Array::from(keys.to_vec()), Arc::clone(values)))
    };
    let encoder = KeyEncoder::new(&[column(&[], &values).data_type().clone()]).unwrap();
    let mut groups = encoder.groups();
    let number = |groups: &mut Groups, column: ArrayRef| {
        each(groups, &encoder.encode(&[Arc::clone(&column)], column.len()).unwrap(), None)
    };
    assert_eq!(number(&mut groups, column(&[2, 0, 2], &values)), [0, 1, 0]);
    assert_eq!(number(&mut groups, column(&[0, 1, 2], &values)), [1, 2, 0]);
    let other: ArrayRef = Arc::new(StringArray::from(vec!["b", "d"]));
    assert_eq!(number(&mut groups, column(&[0, 1], &other)), [2, 3]);
    groups.clear();
    assert_eq!(number(&mut groups, column(&[1, 0], &other)), [0, 1]);
}

/// A value of a column, in the order of keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    Null,
    Whole(i64),
    Text(String),
}

/// A column that values are drawn for.
struct Drawn {
    kind: DataType,
    values: Vec<Cell>,
    nulls: f64,
}

impl Drawn {
    fn new(random: &mut StdRng) -> Self {
        use DataType::*;
        let dictionary = |kind| Dictionary(Box::new(Int16), Box::new(kind));
        let kinds = [
            Int64,
            Int64,
            Int32,
            Date32,
            Boolean,
            UInt64,
            Float64,
            Utf8,
            Utf8,
            LargeUtf8,
            Utf8View,
            Binary,
            Decimal128(38, 2),
            dictionary(Utf8),
            dictionary(Utf8View),
            dictionary(Int64),
        ];
        let kind = kinds[random.random_range(0..kinds.len())].clone();
        let mut drawn = Self { kind, values: Vec::new(), nulls: [0.0, 0.0, 0.1][random.random_range(0..3)] };
        drawn.widen(random);
        drawn
    }

    /// Other values than before: few or many, close or far from each other.
    fn widen(&mut self, random: &mut StdRng) {
        let count = [1, 3, 40, 1000][random.random_range(0..4)];
        let kind = match &self.kind {
            DataType::Dictionary(_, values) => values.as_ref(),
            kind => kind,
        };
        let (low, high) = match kind {
            DataType::Boolean => (0, 1),
            DataType::UInt64 => (0, [100, i64::MAX][random.random_range(0..2)]),
            DataType::Int64 => {
                [(0, 50), (-70_000, 70_000), (i64::MIN, i64::MAX), (i64::MAX - 9, i64::MAX)][random.random_range(0..4)]
            }
            _ => [(0, 50), (-2_000_000, 3)][random.random_range(0..2)],
        };
        let is_text = Texts::are(kind);
        let mut values: Vec<Cell> = (0..count)
            .map(|_| match is_text {
                true => Cell::Text(text(random)),
                false => Cell::Whole(random.random_range(low..=high)),
            })
            .collect();
        if !is_text && random.random_bool(0.2) {
            values.extend([Cell::Whole(low), Cell::Whole(high)]);
        }
        self.values = values;
    }

    fn cells(&self, random: &mut StdRng, rows: usize) -> Vec<Cell> {
        let one = |random: &mut StdRng| match random.random_bool(self.nulls) {
            true => Cell::Null,
            false => self.values[random.random_range(0..self.values.len())].clone(),
        };
        (0..rows).map(|_| one(random)).collect()
    }

    fn column(&self, random: &mut StdRng, cells: &[Cell]) -> ArrayRef {
        let texts = |cell: &Cell| match cell {
            Cell::Text(text) => Some(text.clone()),
            _ => None,
        };
        let wholes = |cell: &Cell| match cell {
            Cell::Whole(value) => Some(*value),
            _ => None,
        };
        let plain = |kind: &DataType, cells: &[Cell]| -> ArrayRef {
            let numbers: ArrayRef = Arc::new(cells.iter().map(wholes).collect::<Int64Array>());
            match kind {
                kind if Texts::are(kind) => cast(&cells.iter().map(texts).collect::<StringArray>(), kind).unwrap(),
                DataType::Boolean => {
                    Arc::new(cells.iter().map(|c| wholes(c).map(|v| v == 1)).collect::<BooleanArray>())
                }
                DataType::Float64 => {
                    Arc::new(cells.iter().map(|c| wholes(c).map(|v| v as f64 / 8.0)).collect::<Float64Array>())
                }
                DataType::Date32 => cast(&cast(&numbers, &DataType::Int32).unwrap(), kind).unwrap(),
                kind => cast(&numbers, kind).unwrap(),
            }
        };
        let DataType::Dictionary(_, values) = &self.kind else {
            return plain(&self.kind, cells);
        };
        // Equal values stand twice or more, null may be a value or a key, and some values are of no row.
        let unused = if random.random() { 5 } else { 3_000 };
        let mut entries: Vec<Cell> = self.cells(random, unused);
        let keys = cells.iter().map(|cell| {
            if *cell == Cell::Null && random.random() {
                return None;
            }
            let back = random.random_range(1..=20.min(entries.len()));
            let known = entries[entries.len() - back..].iter().position(|entry| entry == cell);
            let place = known.map_or(entries.len(), |known| entries.len() - back + known);
            if known.is_none() {
                entries.push(cell.clone());
            }
            Some(place as i16)
        });
        let keys: Int16Array = keys.collect();
        Arc::new(DictionaryArray::new(keys, plain(values, &entries)))
    }
}

/// Text of 0 to 40 bytes that others begin with, or that differs from others in zeros only.
fn text(random: &mut StdRng) -> String {
    let length = [random.random_range(0..41), random.random_range(12..18)][random.random_range(0..2)];
    let letters = ["a", "\0", "ab\0", "z"][random.random_range(0..4)];
    let mut text: String = letters.chars().cycle().take(length).collect();
    if random.random_bool(0.3) {
        text.push(char::from(random.random_range(b'a'..=b'z')));
    }
    text
}

#[test]
fn numbers_are_those_of_a_map_whatever_the_columns() {
    for seed in 0..150 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut drawn: Vec<Drawn> = (0..random.random_range(1..7)).map(|_| Drawn::new(&mut random)).collect();
        let types: Vec<DataType> = drawn.iter().map(|drawn| drawn.kind.clone()).collect();
        let about = format!("seed {seed}, {types:?}");
        let encoder = KeyEncoder::new(&types).unwrap();
        let mut groups = encoder.groups();
        let mut expected: BTreeMap<Vec<Cell>, u32> = BTreeMap::new();
        let mut held: Vec<Vec<ArrayRef>> = Vec::new();
        for _ in 0..random.random_range(1..8) {
            if random.random_bool(0.2) {
                groups.clear();
                expected.clear();
                held.clear();
            }
            if random.random_bool(0.3) {
                drawn.iter_mut().for_each(|drawn| drawn.widen(&mut random));
            }
            let rows = random.random_range(0..400);
            let cells: Vec<Vec<Cell>> = drawn.iter().map(|drawn| drawn.cells(&mut random, rows)).collect();
            let columns: Vec<_> =
                drawn.iter().zip(&cells).map(|(drawn, cells)| drawn.column(&mut random, cells)).collect();
            let chosen = random
                .random_bool(0.3)
                .then(|| UInt32Array::from((0..rows as u32).filter(|_| random.random_bool(0.5)).collect::<Vec<_>>()));
            let keys = encoder.encode(&columns, rows).unwrap();
            let found = each(&mut groups, &keys, chosen.as_ref());
            let rows = chosen.map_or((0..rows as u32).collect(), |rows| rows.values().to_vec());
            assert_eq!(found.len(), rows.len(), "{about}");
            let mut first = Vec::new();
            for (number, row) in found.into_iter().zip(rows) {
                let key: Vec<Cell> = cells.iter().map(|cells| cells[row as usize].clone()).collect();
                let next = expected.len() as u32;
                first.extend((!expected.contains_key(&key)).then_some(row));
                assert_eq!(number, *expected.entry(key).or_insert(next), "{about}");
            }
            let first = UInt32Array::from(first);
            held.push(columns.iter().map(|column| take(&plain(column), &first, None).unwrap()).collect());
        }
        // Sorted, they are in the order of the cells; and columns and hashes are those of the first rows.
        assert_eq!(groups.count(), expected.len(), "{about}");
        assert_eq!(groups.sorted().values().to_vec(), expected.values().copied().collect::<Vec<_>>(), "{about}");
        let all = UInt32Array::from_iter_values(0..groups.count() as u32);
        let found = groups.columns(&encoder, &all).unwrap();
        let hashes = groups.hashes(&encoder).unwrap();
        assert_eq!(hashes, hash_columns(&found, groups.count()).unwrap(), "{about}");
        for (i, column) in found.iter().enumerate() {
            let parts: Vec<_> = held.iter().map(|columns| columns[i].as_ref()).collect();
            let first = match parts.is_empty() {
                true => plain(&new_empty_array(&types[i])),
                false => concat(&parts).unwrap(),
            };
            assert_eq!(column.data_type(), &types[i], "{about}");
            assert_eq!(&plain(column), &first, "{about}");
        }
        // Some of them, and others again.
        let half: Vec<u32> = (0..expected.len() as u32).rev().step_by(2).collect();
        let mut some = groups.only(&UInt32Array::from(half.clone()));
        let kept = UInt32Array::from_iter_values(0..half.len() as u32);
        let columns = some.columns(&encoder, &kept).unwrap();
        for (column, whole) in columns.iter().zip(&found) {
            let chosen = take(whole, &UInt32Array::from(half.clone()), None).unwrap();
            assert_eq!(&plain(column), &plain(&chosen), "{about}");
        }
        let numbers = some.absorb(&groups);
        for (number, kept) in half.iter().zip(0..) {
            assert_eq!(numbers[*number as usize], kept, "{about}");
        }
        assert_eq!(some.count(), groups.count(), "{about}");
        let order = some.sorted();
        let order = order.values().iter().map(|kept| numbers.iter().position(|n| n == kept).unwrap() as u32);
        assert_eq!(order.collect::<Vec<_>>(), expected.values().copied().collect::<Vec<_>>(), "{about}");
    }
}

/// The column without a dictionary.
fn plain(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Dictionary(_, values) => cast(column, values).unwrap(),
        _ => Arc::clone(column),
    }
}
