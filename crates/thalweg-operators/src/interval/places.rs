//! Where rows that are emitted in the order of time stand among those of all instances.

use arrow_array::BinaryArray;
use thalweg_core::Positions;

use super::entry::Entry;

/// The positions of rows: their time, then their position in their source, then a hash of their content.
pub fn positions(rows: &[Entry], hashes: &[u64]) -> Positions {
    let times = rows.iter().map(|entry| entry.time).collect();
    let keys = rows.iter().zip(hashes).map(|(entry, hash)| {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&ordered(entry.position));
        key[8..].copy_from_slice(&hash.to_be_bytes());
        key
    });
    Positions::in_time(times, BinaryArray::from_iter_values(keys))
}

/// A number as bytes that compare as it does.
pub fn ordered(number: i64) -> [u8; 8] {
    (number ^ i64::MIN).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_compare_as_numbers_do() {
        let numbers = [i64::MIN, -5, -1, 0, 1, 300, i64::MAX];
        assert!(numbers.map(ordered).is_sorted());
    }
}
