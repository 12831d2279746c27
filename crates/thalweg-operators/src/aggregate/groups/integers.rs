//! Keys that are one whole number: a table by value where the range allows, a hash table where not.

#[cfg(test)]
mod tests;

use arrow_array::UInt32Array;
use thalweg_memory::{
    kernels::bounds::bounds,
    simd::{Level, prefetch},
};

use super::{
    table::{TOGETHER, Table as Hashed, mix},
    whole::Integers,
};

/// Distinct whole numbers, numbered from zero in the order of their first appearance.
pub struct IntegerGroups {
    /// The key of each group; for the one without some number.
    keys: Vec<i64>,
    null: Option<u32>,
    table: Table,
    /// How many keys there were before the table was last cleared: there may be as many again.
    expected: usize,
    /// Whether many of the last keys were new.
    were_new: bool,
}

enum Table {
    /// The number of key `base + i` stands at `i`.
    Dense { base: i64, numbers: Vec<u32> },
    /// By hash.
    Hashed(Hashed),
}

const ABSENT: u32 = u32::MAX;

/// How many bytes ahead of the keys that are looked up memory is asked for.
const AHEAD: usize = 2048;

/// Tables by value may be this large without regard to how many keys there are.
const SMALL: usize = 1 << 14;

impl Default for IntegerGroups {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            null: None,
            table: Table::Dense { base: 0, numbers: Vec::new() },
            expected: 0,
            were_new: true,
        }
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
                let all = self.keys.iter().copied().zip(0..);
                let mut order: Vec<(i64, u32)> = all.filter(|(_, number)| known(number)).collect();
                order.sort_unstable();
                order.into_iter().map(|(_, number)| number).collect()
            }
        };
        if let Some(null) = self.null {
            order.insert(0, null);
        }
        order
    }

    /// The keys of all groups, in their order; of the one without some number.
    pub fn all(&self) -> &[i64] {
        &self.keys
    }

    /// The keys of these groups.
    pub fn keys(&self, numbers: &[u32]) -> Integers {
        let nulls = self.null.map(|null| numbers.iter().map(|number| *number != null).collect());
        Integers { values: numbers.iter().map(|number| self.keys[*number as usize]).collect(), nulls }
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
        if self.keys.is_empty() {
            return;
        }
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
            Table::Hashed(table) => table.size(),
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
                if range >= affordable as u64 / 2 || table.held() < SMALL {
                    return;
                }
                let mut numbers = vec![ABSENT; range as usize + 1];
                for (key, number) in self.keys.iter().zip(0..).filter(|(_, number)| Some(*number) != self.null) {
                    numbers[(key - all.0) as usize] = number;
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
        let mut table = Hashed::with_capacity(self.keys.len() * 2);
        for (key, number) in self.keys.iter().zip(0..) {
            if Some(number) != self.null {
                table.number(mix(*key as u64), number, |_| false);
            }
        }
        self.table = Table::Hashed(table);
    }

    /// The numbers of some keys.
    fn number_all(&mut self, keys: &[i64]) -> Vec<u32> {
        if self.were_new || matches!(self.table, Table::Hashed(_)) {
            self.make_room(keys);
        }
        let (before, mut found) = (self.keys.len(), vec![0; keys.len()]);
        match &mut self.table {
            Table::Dense { base, numbers } if self.were_new => insert(*base, numbers, keys, &mut self.keys, &mut found),
            _ => self.number_known(keys, &mut found),
        }
        self.were_new = (self.keys.len() - before) * 16 > keys.len();
        found
    }

    /// The numbers of keys that mostly are there. A table by value is asked first, and made larger when it has no place for one.
    fn number_known(&mut self, keys: &[i64], found: &mut [u32]) {
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
                    for (keys, places) in rest.chunks(TOGETHER).zip(places.chunks_mut(TOGETHER)) {
                        let mut hashes = [0; TOGETHER];
                        keys.iter().zip(&mut hashes).for_each(|(key, hash)| *hash = mix(*key as u64));
                        table.touch(&hashes[..keys.len()]);
                        for ((key, hash), place) in keys.iter().zip(hashes).zip(places) {
                            *place = hashed(table, &mut self.keys, *key, hash);
                        }
                    }
                    done = keys.len();
                }
            }
        }
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
            Table::Hashed(table) => hashed(table, keys, key, mix(key as u64)),
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

/// The numbers of keys of which many are new, each of which has a place: where a branch could not be foretold, every key is
/// written, and kept if it is new.
fn insert(base: i64, numbers: &mut [u32], keys: &[i64], all: &mut Vec<i64>, found: &mut [u32]) {
    let mut next = all.len();
    all.resize(next + keys.len(), 0);
    for (key, found) in keys.iter().zip(found) {
        let number = &mut numbers[key.wrapping_sub(base) as usize];
        let is_new = *number == ABSENT;
        *number = if is_new { next as u32 } else { *number };
        *found = *number;
        all[next] = *key;
        next += usize::from(is_new);
    }
    all.truncate(next);
}

#[inline]
fn hashed(table: &mut Hashed, keys: &mut Vec<i64>, key: i64, hash: u64) -> u32 {
    let new = keys.len() as u32;
    let number = table.number(hash, new, |number| keys[number as usize] == key);
    if number == new {
        keys.push(key);
    }
    number
}
