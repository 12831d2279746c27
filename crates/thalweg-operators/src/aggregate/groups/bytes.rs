//! Keys as bytes that are equal, and ordered, as the keys are.

use hashbrown::{HashTable, hash_table::Entry};

/// Distinct keys in one run of bytes, numbered from zero in the order of their first appearance.
#[derive(Default)]
pub struct ByteGroups {
    table: HashTable<u32>,
    hashes: Vec<u64>,
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl ByteGroups {
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
    pub fn sorted(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.count() as u32).collect();
        order.sort_unstable_by(|a, b| self.key(*a).cmp(self.key(*b)));
        order
    }

    /// Forgets all keys, and keeps the memory for those to come.
    pub fn clear(&mut self) {
        self.table.clear();
        self.hashes.clear();
        self.ends.clear();
        self.bytes.clear();
    }

    /// How many bytes of memory the table takes.
    pub fn size(&self) -> usize {
        self.table.allocation_size() + self.hashes.capacity() * 8 + self.ends.capacity() * 8 + self.bytes.capacity()
    }
}
