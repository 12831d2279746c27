//! Keys that are one whole number: a table by value where the range allows, a hash table where not.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, PrimitiveArray, UInt32Array, cast::AsArray, downcast_integer_array, types::*};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use hashbrown::HashTable;
use thalweg_core::{Error, Result};
use thalweg_memory::{
    kernels::bounds::bounds,
    simd::{Level, prefetch},
};

/// The keys of some rows.
pub struct Integers {
    /// The keys; where there is none, some number.
    pub values: ScalarBuffer<i64>,
    /// Where there is a key, if not everywhere.
    pub nulls: Option<NullBuffer>,
}

impl Integers {
    /// Whether keys of this type are whole numbers that fit.
    pub fn are(kind: &DataType) -> bool {
        use DataType::*;
        matches!(kind, Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | Date32)
            || matches!(kind, Timestamp(TimeUnit::Microsecond, _) | Time64(TimeUnit::Microsecond))
    }

    /// The keys in a column; those that have 64 bits are not copied.
    pub fn new(column: &ArrayRef) -> Result<Self> {
        fn widened<T: ArrowPrimitiveType>(column: &PrimitiveArray<T>) -> ScalarBuffer<i64> {
            column.values().iter().map(|value| value.to_i64().unwrap_or_default()).collect()
        }
        let array = column.as_ref();
        let values = match array.data_type() {
            DataType::Int64 => array.as_primitive::<Int64Type>().values().clone(),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                array.as_primitive::<TimestampMicrosecondType>().values().clone()
            }
            DataType::Time64(TimeUnit::Microsecond) => array.as_primitive::<Time64MicrosecondType>().values().clone(),
            DataType::Date32 => widened(array.as_primitive::<Date32Type>()),
            _ => downcast_integer_array!(
                array => widened(array),
                other => return Err(Error::bug(format!("a key of type {other} is no whole number"))),
            ),
        };
        Ok(Self { values, nulls: array.nulls().filter(|nulls| nulls.null_count() > 0).cloned() })
    }
}

/// Distinct whole numbers, numbered from zero in the order of their first appearance.
pub struct IntegerGroups {
    /// The key of each group; for the one without some number.
    keys: Vec<i64>,
    null: Option<u32>,
    table: Table,
    /// How many keys there were before the table was last cleared: there may be as many again.
    expected: usize,
}

enum Table {
    /// The number of key `base + i` stands at `i`.
    Dense { base: i64, numbers: Vec<u32> },
    /// Keys with their numbers.
    Hashed(HashTable<(i64, u32)>),
}

const ABSENT: u32 = u32::MAX;

/// How many bytes ahead of the keys that are looked up memory is asked for.
const AHEAD: usize = 2048;

/// Tables by value may be this large without regard to how many keys there are.
const SMALL: usize = 1 << 14;

impl Default for IntegerGroups {
    fn default() -> Self {
        Self { keys: Vec::new(), null: None, table: Table::Dense { base: 0, numbers: Vec::new() }, expected: 0 }
    }
}

impl IntegerGroups {
    /// How many distinct keys there are.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// The groups of some rows' keys.
    pub fn number(&mut self, keys: &Integers, rows: Option<&UInt32Array>) -> Vec<u32> {
        match (rows, &keys.nulls) {
            (None, None) => self.number_all(&keys.values),
            (Some(rows), None) => {
                let taken: Vec<i64> = rows.values().iter().map(|row| keys.values[*row as usize]).collect();
                self.number_all(&taken)
            }
            (rows, Some(nulls)) => {
                let rows: Vec<usize> = match rows {
                    None => (0..keys.values.len()).collect(),
                    Some(rows) => rows.values().iter().map(|row| *row as usize).collect(),
                };
                let known: Vec<i64> =
                    rows.iter().filter(|row| nulls.is_valid(**row)).map(|row| keys.values[*row]).collect();
                self.make_room(&known);
                let one = |row: usize| if nulls.is_valid(row) { self.one(keys.values[row]) } else { self.without() };
                rows.into_iter().map(one).collect()
            }
        }
    }

    /// Takes in the keys of another table.
    pub fn absorb(&mut self, other: &Self) -> Vec<u32> {
        self.make_room(&other.keys);
        let theirs = other.keys.iter().zip(0..);
        theirs.map(|(key, number)| if other.null == Some(number) { self.without() } else { self.one(*key) }).collect()
    }

    /// The groups in the order of their keys, the one without first.
    pub fn sorted(&self) -> Vec<u32> {
        let known = |number: &u32| Some(*number) != self.null;
        let mut order: Vec<u32> = match &self.table {
            // It stands in order.
            Table::Dense { numbers, .. } => numbers.iter().copied().filter(|number| *number != ABSENT).collect(),
            Table::Hashed(_) => {
                let mut order: Vec<u32> = (0..self.keys.len() as u32).filter(known).collect();
                order.sort_unstable_by_key(|number| self.keys[*number as usize]);
                order
            }
        };
        if let Some(null) = self.null {
            order.insert(0, null);
        }
        order
    }

    /// The keys as a column of their type.
    pub fn column(&self, kind: &DataType) -> Result<ArrayRef> {
        let nulls = self.null.map(|null| (0..self.keys.len()).map(|number| number != null as usize).collect());
        let keys: ArrayRef = Arc::new(Int64Array::new(self.keys.clone().into(), nulls));
        match kind {
            DataType::Date32 => Ok(cast(&cast(&keys, &DataType::Int32)?, kind)?),
            _ => Ok(cast(&keys, kind)?),
        }
    }

    /// A table of these groups only.
    pub fn only(&self, numbers: &[u32]) -> Self {
        let mut kept = Self::default();
        let keys: Vec<i64> = numbers.iter().map(|number| self.keys[*number as usize]).collect();
        kept.make_room(&keys);
        for (number, key) in numbers.iter().zip(keys) {
            if Some(*number) == self.null {
                kept.without()
            } else {
                kept.one(key)
            };
        }
        kept
    }

    /// Forgets all keys, and keeps the memory for those to come.
    pub fn clear(&mut self) {
        match &mut self.table {
            Table::Dense { base, numbers } if self.keys.len() < numbers.len() / 16 => {
                let known = self.keys.iter().zip(0..).filter(|(_, number)| Some(*number) != self.null);
                known.for_each(|(key, _)| numbers[key.wrapping_sub(*base) as usize] = ABSENT);
            }
            Table::Dense { numbers, .. } => numbers.fill(ABSENT),
            Table::Hashed(table) => table.clear(),
        }
        self.expected = self.keys.len();
        self.keys.clear();
        self.null = None;
    }

    /// How many bytes of memory the table takes.
    pub fn size(&self) -> usize {
        let table = match &self.table {
            Table::Dense { numbers, .. } => numbers.capacity() * size_of::<u32>(),
            Table::Hashed(table) => table.allocation_size(),
        };
        self.keys.capacity() * size_of::<i64>() + table
    }

    /// Sees to it that a table by value has a place for all these keys, or is none.
    fn make_room(&mut self, keys: &[i64]) {
        let Some((low, high)) = bounds(Level::best(), keys) else { return };
        let affordable = SMALL.max(8 * (self.keys.len() + keys.len()).max(self.expected));
        if self.keys.is_empty() {
            return self.begin(low, high, affordable);
        }
        match &mut self.table {
            Table::Dense { base, numbers } => {
                let (first, last) = match numbers.len() {
                    // Only the one without a key is there.
                    0 => (low, high),
                    held => (low.min(*base), high.max(*base + (held as i64 - 1))),
                };
                let range = last.wrapping_sub(first) as u64;
                if range >= affordable as u64 {
                    return self.hash();
                }
                let range = range as usize + 1;
                if numbers.is_empty() {
                    *base = first;
                }
                if first < *base {
                    let shift = (*base - first) as usize;
                    let mut moved = vec![ABSENT; range];
                    moved[shift..shift + numbers.len()].copy_from_slice(numbers);
                    (*base, *numbers) = (first, moved);
                } else if range > numbers.len() {
                    numbers.resize(range, ABSENT);
                }
            }
            Table::Hashed(table) => {
                // As keys fill their range, the table by value becomes the smaller one.
                let all = bounds(Level::best(), &self.keys).map_or((low, high), |(l, h)| (l.min(low), h.max(high)));
                let range = all.1.wrapping_sub(all.0) as u64;
                if range >= affordable as u64 / 2 || table.len() < SMALL {
                    return;
                }
                let mut numbers = vec![ABSENT; range as usize + 1];
                for (key, number) in table.iter() {
                    numbers[(key - all.0) as usize] = *number;
                }
                self.table = Table::Dense { base: all.0, numbers };
            }
        }
    }

    /// Makes the table, which has no keys, one that suits the first ones.
    fn begin(&mut self, low: i64, high: i64, affordable: usize) {
        let range = high.wrapping_sub(low) as u64;
        if range >= affordable as u64 {
            if !matches!(self.table, Table::Hashed(_)) {
                self.hash();
            }
            return;
        }
        let mut numbers = match &mut self.table {
            Table::Dense { base, numbers } => {
                let held = numbers.len();
                let is_within = held <= affordable && *base <= low && (high.wrapping_sub(*base) as u64) < held as u64;
                if is_within && held > 0 {
                    return;
                }
                std::mem::take(numbers)
            }
            Table::Hashed(_) => Vec::new(),
        };
        numbers.clear();
        numbers.resize(range as usize + 1, ABSENT);
        self.table = Table::Dense { base: low, numbers };
    }

    fn hash(&mut self) {
        let mut table = HashTable::with_capacity(self.keys.len() * 2);
        for (key, number) in self.keys.iter().zip(0..) {
            if Some(number) != self.null {
                table.insert_unique(mix(*key), (*key, number), |(key, _)| mix(*key));
            }
        }
        self.table = Table::Hashed(table);
    }

    /// The numbers of some keys. A table by value is asked first, and made larger when it has no place for one.
    fn number_all(&mut self, keys: &[i64]) -> Vec<u32> {
        if matches!(self.table, Table::Hashed(_)) {
            self.make_room(keys);
        }
        let mut found = vec![0; keys.len()];
        let mut done = 0;
        while done < keys.len() {
            let (rest, places) = (&keys[done..], &mut found[done..]);
            match &mut self.table {
                Table::Dense { base, numbers } => {
                    let known = look_up(*base, numbers, rest, places);
                    done += known;
                    match rest.get(known) {
                        Some(new) if (new.wrapping_sub(*base) as u64) < numbers.len() as u64 => {
                            places[known] = self.one(*new);
                            done += 1;
                        }
                        _ => self.make_room(&rest[known..]),
                    }
                }
                Table::Hashed(table) => {
                    places.iter_mut().zip(rest).for_each(|(place, key)| *place = hashed(table, &mut self.keys, *key));
                    done = keys.len();
                }
            }
        }
        found
    }

    /// The number of a key for which there is room.
    fn one(&mut self, key: i64) -> u32 {
        let Self { keys, table, .. } = self;
        match table {
            Table::Dense { base, numbers } => {
                let number = &mut numbers[key.wrapping_sub(*base) as usize];
                if *number == ABSENT {
                    *number = keys.len() as u32;
                    keys.push(key);
                }
                *number
            }
            Table::Hashed(table) => hashed(table, keys, key),
        }
    }

    /// The number of the group without a key.
    fn without(&mut self) -> u32 {
        *self.null.get_or_insert_with(|| {
            // One that is there does not widen the range.
            self.keys.push(self.keys.first().copied().unwrap_or_default());
            self.keys.len() as u32 - 1
        })
    }
}

/// The numbers of keys up to the first that a table by value does not have; returns how many there are.
fn look_up(base: i64, numbers: &[u32], keys: &[i64], found: &mut [u32]) -> usize {
    let mut done = 0;
    for (keys, found) in keys.chunks(64).zip(found.chunks_mut(64)) {
        prefetch(keys, AHEAD);
        for (key, found) in keys.iter().zip(found) {
            match numbers.get(key.wrapping_sub(base) as usize) {
                Some(number) if *number != ABSENT => *found = *number,
                _ => return done,
            }
            done += 1;
        }
    }
    done
}

fn hashed(table: &mut HashTable<(i64, u32)>, keys: &mut Vec<i64>, key: i64) -> u32 {
    let entry = table.entry(mix(key), |(other, _)| *other == key, |(other, _)| mix(*other));
    let found = entry.or_insert_with(|| {
        keys.push(key);
        (key, keys.len() as u32 - 1)
    });
    found.get().1
}

/// Spreads a key over all bits.
fn mix(key: i64) -> u64 {
    let wide = u128::from(key as u64 ^ 0x9e37_79b9_7f4a_7c15) * 0xa076_1d64_78bd_642f;
    wide as u64 ^ (wide >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn numbers_are_those_of_a_map_whatever_the_range() {
        for seed in 0..200 {
            let mut random = StdRng::seed_from_u64(seed);
            let (mut groups, mut expected) = (IntegerGroups::default(), BTreeMap::new());
            let (mut width, mut center) = (0, 0);
            for call in 0..random.random_range(1..20) {
                // A table that was cleared is as good as a new one, whatever keys come then.
                if call == 0 || random.random_bool(0.2) {
                    groups.clear();
                    expected.clear();
                    width = [3, 1000, 200_000, i64::MAX][random.random_range(0..4)];
                    center = [0, -5000, i64::MAX, i64::MIN][random.random_range(0..4)];
                }
                let rows = random.random_range(0..3000);
                let near = |random: &mut StdRng| center.saturating_add(random.random_range(-width..=width));
                let values: Vec<i64> = (0..rows).map(|_| near(&mut random)).collect();
                let with_nulls = random.random_bool(0.3);
                let known: Vec<bool> = (0..rows).map(|_| !with_nulls || random.random_bool(0.9)).collect();
                let nulls = with_nulls.then(|| NullBuffer::from(known.clone()));
                let chosen = random.random_bool(0.3).then(|| {
                    UInt32Array::from((0..rows as u32).filter(|_| random.random_bool(0.5)).collect::<Vec<_>>())
                });
                let keys = Integers { values: values.clone().into(), nulls };
                let found = groups.number(&keys, chosen.as_ref());
                let rows = chosen.map_or((0..rows as u32).collect(), |rows| rows.values().to_vec());
                assert_eq!(found.len(), rows.len());
                for (number, row) in found.into_iter().zip(rows) {
                    let key = known[row as usize].then_some(values[row as usize]);
                    let next = expected.len() as u32;
                    assert_eq!(number, *expected.entry(key).or_insert(next), "seed {seed}, key {key:?}");
                }
            }
            assert_eq!(groups.count(), expected.len());
            assert_eq!(groups.sorted(), expected.values().copied().collect::<Vec<_>>(), "seed {seed}");
            let half: Vec<u32> = (0..expected.len() as u32).step_by(2).collect();
            let kept = groups.only(&half);
            let mut again = kept.only(&(0..half.len() as u32).collect::<Vec<_>>());
            let numbers = again.absorb(&groups);
            for (number, kept) in half.iter().zip(0..) {
                assert_eq!(numbers[*number as usize], kept, "seed {seed}");
            }
            assert_eq!(again.count(), groups.count());
        }
    }
}
