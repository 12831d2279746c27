//! Keys of more bits than a word has.

use super::table::{TOGETHER, Table, mix_wide};

/// Distinct keys of 128 bits, numbered from zero in the order of their first appearance.
#[derive(Default)]
pub struct WideGroups {
    keys: Vec<u128>,
    table: Table,
}

impl WideGroups {
    /// The key of each group.
    pub fn keys(&self) -> &[u128] {
        &self.keys
    }

    /// The groups of keys, new if they have not been seen.
    pub fn number(&mut self, all: &[u128]) -> Vec<u32> {
        let Self { keys, table } = self;
        let mut numbers = Vec::with_capacity(all.len());
        for all in all.chunks(TOGETHER) {
            let mut hashes = [0; TOGETHER];
            all.iter().zip(&mut hashes).for_each(|(key, hash)| *hash = mix_wide(*key));
            table.touch(&hashes[..all.len()]);
            numbers.extend(all.iter().zip(hashes).map(|(key, hash)| {
                let new = keys.len() as u32;
                let number = table.number(hash, new, |number| keys[number as usize] == *key);
                if number == new {
                    keys.push(*key);
                }
                number
            }));
        }
        numbers
    }

    /// Forgets all keys, and keeps the memory for those to come.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.table.clear();
    }

    /// How many bytes of memory the table takes.
    pub fn size(&self) -> usize {
        self.keys.capacity() * size_of::<u128>() + self.table.size()
    }
}
