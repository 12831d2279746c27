//! Which number a hash has: one flat run of words, searched from where the hash points.

use thalweg_memory::simd::prefetch;

/// Numbers by the hash of what they stand for, which whoever asks compares.
///
/// ```text
/// entries[i]: upper half of the hash << 32 | number      i: its first bits, or the next free place
/// ```
///
/// Where an entry belongs depends on the hash's first bits, so that a table grows from one end to the other.
pub struct Table {
    entries: Vec<u64>,
    /// How far the half of a hash is shifted to give its place.
    shift: u32,
    held: usize,
}

const EMPTY: u64 = u64::MAX;
const SMALLEST: usize = 16;

/// Tables with so many places are in the caches next to a core.
const CACHED: usize = 1 << 15;

/// So many rows are looked up together.
pub const TOGETHER: usize = 16;

impl Default for Table {
    fn default() -> Self {
        Self { entries: Vec::new(), shift: u32::BITS, held: 0 }
    }
}

impl Table {
    /// An empty table with room for so many numbers.
    pub fn with_capacity(numbers: usize) -> Self {
        let mut table = Self::default();
        table.resize((numbers * 2).next_power_of_two().max(SMALLEST));
        table
    }

    /// How many numbers it holds.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The number that has this hash and is the same; `new`, which is put in, if there is none.
    #[inline]
    pub fn number(&mut self, hash: u64, new: u32, is_same: impl Fn(u32) -> bool) -> u32 {
        if self.held * 2 >= self.entries.len() {
            self.resize((self.entries.len() * 2).max(SMALLEST));
        }
        let half = hash >> 32;
        let (mask, mut at) = (self.entries.len() - 1, (half >> self.shift) as usize);
        loop {
            let entry = &mut self.entries[at & mask];
            if *entry == EMPTY {
                *entry = half << 32 | u64::from(new);
                self.held += 1;
                return new;
            }
            if *entry >> 32 == half && is_same(*entry as u32) {
                return *entry as u32;
            }
            at += 1;
        }
    }

    /// Asks memory for where hashes belong, all at once: to be called some rows before they are looked up.
    #[inline]
    pub fn touch(&self, hashes: &[u64]) {
        if self.entries.len() > CACHED {
            let places = hashes.iter().map(|hash| (hash >> 32 >> self.shift) as usize);
            places.for_each(|place| prefetch(&self.entries[place..=place], 0));
        }
    }

    /// Forgets all numbers, and keeps the memory for those to come.
    pub fn clear(&mut self) {
        if self.held > 0 {
            self.entries.fill(EMPTY);
            self.held = 0;
        }
    }

    /// How many bytes of memory it takes.
    pub fn size(&self) -> usize {
        self.entries.capacity() * size_of::<u64>()
    }

    fn resize(&mut self, places: usize) {
        let old = std::mem::replace(&mut self.entries, vec![EMPTY; places]);
        self.shift = u32::BITS - places.trailing_zeros();
        let mask = places - 1;
        for entry in old.into_iter().filter(|entry| *entry != EMPTY) {
            let mut at = (entry >> 32 >> self.shift) as usize;
            while self.entries[at & mask] != EMPTY {
                at += 1;
            }
            self.entries[at & mask] = entry;
        }
    }
}

/// Spreads a word over all bits.
#[inline]
pub fn mix(word: u64) -> u64 {
    fold(word ^ 0x9e37_79b9_7f4a_7c15, 0xa076_1d64_78bd_642f)
}

/// Spreads two words over all bits of one.
#[inline]
pub fn mix_wide(word: u128) -> u64 {
    fold(mix(word as u64) ^ (word >> 64) as u64, 0xe703_7ed1_a0b4_28db)
}

fn fold(word: u64, factor: u64) -> u64 {
    let wide = u128::from(word) * u128::from(factor);
    wide as u64 ^ (wide >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_has_another_number_though_all_hash_alike() {
        for hash in [0, u64::MAX, 1 << 63] {
            let (mut table, mut keys) = (Table::default(), Vec::new());
            for key in (0..300).chain(0..300) {
                let number = table.number(hash, keys.len() as u32, |number| keys[number as usize] == key);
                if number as usize == keys.len() {
                    keys.push(key);
                }
                assert_eq!(number, key);
            }
            assert_eq!(table.held(), 300);
            table.clear();
            assert_eq!(table.number(hash, 0, |_| true), 0);
            assert_eq!(table.number(hash, 1, |_| true), 0);
        }
    }
}
