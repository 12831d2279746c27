//! Where rows that are emitted in the order of time stand among those of all instances.

use arrow_array::BinaryArray;
use thalweg_core::Positions;

/// What tells rows of one time apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// Their positions in their source, of which each row has its own.
    Position,
    /// Those, and then their content.
    Content,
}

/// The positions of rows: their time, then their position in their source, then, if there is one, a hash of their content.
pub fn positions(times: Box<[i64]>, numbers: Box<[i64]>, hashes: Option<&[u64]>) -> Positions {
    match hashes {
        None => Positions::in_time_by_number(times, numbers),
        Some(hashes) => {
            let keys = numbers.iter().zip(hashes).map(|(number, hash)| of_content(*number, *hash));
            Positions::in_time(times, BinaryArray::from_iter_values(keys))
        }
    }
}

/// Where a row stands among those of its time: by its position, then by a hash of its content.
pub fn of_content(position: i64, hash: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&ordered(position));
    key[8..].copy_from_slice(&hash.to_be_bytes());
    key
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
