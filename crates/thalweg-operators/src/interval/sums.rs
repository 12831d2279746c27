//! What the rows add up to that each of some rows sees.

use std::ops::Range;

use arrow_array::ArrayRef;
use thalweg_core::{Result, aggregate::Totals};

use super::totals::Total;

/// For each of some rows how many rows it sees, and their sum: in 64 bits while these hold all of them.
#[derive(Default)]
pub struct Sums {
    counts: Vec<u64>,
    narrow: Vec<i64>,
    /// Those in 128 bits, if there are such.
    wide: Vec<i128>,
}

impl Sums {
    /// Those of so many rows are found next, each of them.
    pub fn begin(&mut self, rows: usize) {
        self.counts.resize(rows, 0);
        self.narrow.resize(rows, 0);
        self.wide.clear();
    }

    /// What some rows of a line, all of which count, add up to: these are the sums before each of its rows.
    pub fn put_all(&mut self, order: &[u32], sums: &[i64], starts: &[usize], ends: &[usize]) {
        if !self.wide.is_empty() {
            for ((row, start), end) in order.iter().zip(starts).zip(ends) {
                let sum = sums[*end].wrapping_sub(sums[*start]).into();
                self.put(*row as usize, Total { count: (end - start) as u64, sum });
            }
            return;
        }
        for ((row, start), end) in order.iter().zip(starts).zip(ends) {
            self.counts[*row as usize] = (end - start) as u64;
            self.narrow[*row as usize] = sums[*end].wrapping_sub(sums[*start]);
        }
    }

    /// What a row sees.
    pub fn put(&mut self, row: usize, Total { count, sum }: Total) {
        self.counts[row] = count;
        match i64::try_from(sum) {
            Ok(sum) if self.wide.is_empty() => self.narrow[row] = sum,
            _ => {
                if self.wide.is_empty() {
                    self.wide.extend(self.narrow.iter().map(|sum| i128::from(*sum)));
                }
                self.wide[row] = sum;
            }
        }
    }

    /// Nothing is known of a row.
    pub fn forget(&mut self, row: usize) {
        if row < self.counts.len() {
            self.put(row, Total::default());
        }
    }

    /// The sums of some rows.
    pub fn of(&self, rows: Range<usize>) -> impl Iterator<Item = i128> {
        let (narrow, wide) = match self.wide.is_empty() {
            true => (&self.narrow[rows], &[][..]),
            false => (&[][..], &self.wide[rows]),
        };
        narrow.iter().map(|sum| i128::from(*sum)).chain(wide.iter().copied())
    }

    /// The results of an aggregate for some rows, where they follow from these at once.
    pub fn results(&self, rows: Range<usize>, totals: &dyn Totals) -> Result<Option<ArrayRef>> {
        match self.wide.is_empty() {
            true => totals.narrow_results(&self.counts[rows.clone()], &self.narrow[rows]),
            false => totals.results(&self.counts[rows.clone()], &self.wide[rows]),
        }
    }

    /// The states of an aggregate for some rows.
    pub fn states(&self, rows: Range<usize>, totals: &dyn Totals) -> Result<Vec<ArrayRef>> {
        totals.states(&self.counts[rows.clone()], &self.of(rows).collect::<Vec<_>>())
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        (self.counts.capacity() + self.narrow.capacity()) * size_of::<u64>() + self.wide.capacity() * size_of::<i128>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_get_wider_when_one_does_and_are_narrow_again_for_other_rows() {
        let mut sums = Sums::default();
        sums.begin(3);
        sums.put_all(&[2, 0], &[0, 5, 3], &[0, 1], &[2, 2]);
        let large = i128::from(i64::MAX) + 1;
        sums.put(1, Total { count: 2, sum: large });
        assert_eq!(sums.of(0..3).collect::<Vec<_>>(), [-2, large, 3]);
        sums.put_all(&[0], &[0, 7], &[0], &[1]);
        sums.forget(2);
        assert_eq!((sums.of(0..3).collect::<Vec<_>>(), &sums.counts), (vec![7, large, 0], &vec![1, 2, 0]));
        sums.begin(2);
        sums.put(0, Total { count: 1, sum: -4 });
        sums.put(1, Total { count: 1, sum: 4 });
        assert!(sums.wide.is_empty());
        assert_eq!(sums.of(1..2).collect::<Vec<_>>(), [4]);
    }
}
