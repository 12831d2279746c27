//! Running totals over the rows of a key: what rows that follow each other add up to is the difference of two.

use std::ops::Range;

use thalweg_core::aggregate::Amounts;

/// The running totals of one amount over the rows of one key.
#[derive(Debug)]
pub struct Running {
    /// Before each row, and behind the last: the sum of all amounts before, which may wrap around.
    sums: Vec<i128>,
    /// The same of rows that count, and of amounts that are no number.
    counts: Vec<(u32, u32)>,
    /// No amount has been larger.
    largest: u128,
}

/// What some rows add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// How many of them count.
    pub count: u64,
    /// The sum of their amounts.
    pub sum: i128,
}

impl Default for Running {
    fn default() -> Self {
        Self { sums: vec![0], counts: vec![(0, 0)], largest: 0 }
    }
}

impl Running {
    /// Appends rows.
    pub fn append(&mut self, amounts: &Amounts, rows: Range<usize>) {
        let (mut sum, (mut count, mut beyond)) = (self.sums[self.sums.len() - 1], self.counts[self.counts.len() - 1]);
        for row in rows {
            let amount = amounts.amounts[row];
            sum = sum.wrapping_add(amount);
            self.largest = self.largest.max(amount.unsigned_abs());
            count = count.wrapping_add(u32::from(amounts.counted.as_ref().is_none_or(|counted| counted.value(row))));
            if !amounts.beyond.is_empty() {
                beyond = beyond.wrapping_add(u32::from(amounts.beyond.binary_search(&row).is_ok()));
            }
            self.sums.push(sum);
            self.counts.push((count, beyond));
        }
    }

    /// What rows add up to, if that is a number of 128 bits for certain.
    pub fn of(&self, rows: Range<usize>) -> Option<Total> {
        let ((more, beyond), (less, before)) = (self.counts[rows.end], self.counts[rows.start]);
        if beyond != before {
            return None;
        }
        let count = u64::from(more.wrapping_sub(less));
        // The difference is right where the sum itself does not wrap around.
        let is_sure = self.largest.checked_mul(u128::from(count)).is_some_and(|most| most <= i128::MAX as u128);
        is_sure.then(|| Total { count, sum: self.sums[rows.end].wrapping_sub(self.sums[rows.start]) })
    }

    /// Drops the first rows.
    pub fn drop_first(&mut self, rows: usize) {
        self.sums.drain(..rows);
        self.counts.drain(..rows);
        let amounts = self.sums.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]).unsigned_abs());
        self.largest = amounts.max().unwrap_or(0);
        let most = 4 * self.sums.len().max(64);
        if self.sums.capacity() > most {
            self.sums.shrink_to(most / 2);
            self.counts.shrink_to(most / 2);
        }
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.counts.capacity() * size_of::<(u32, u32)>()
    }
}

impl Total {
    /// What both add up to, if it is a number of 128 bits.
    pub fn plus(self, other: Self) -> Option<Self> {
        Some(Self { count: self.count + other.count, sum: self.sum.checked_add(other.sum)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(amounts: &[i128], uncounted: &[usize], beyond: &[usize]) -> Amounts {
        let counted = (0..amounts.len()).map(|row| !uncounted.contains(&row)).collect::<Vec<_>>();
        Amounts { amounts: amounts.to_vec(), counted: Some(counted.into()), beyond: beyond.to_vec() }
    }

    #[test]
    fn what_rows_add_up_to_is_the_difference_of_two_totals() {
        let mut running = Running::default();
        running.append(&amounts(&[5, -3, 0, 0, 9], &[2], &[3]), 0..5);
        assert_eq!(running.of(0..2), Some(Total { count: 2, sum: 2 }));
        assert_eq!(running.of(1..3), Some(Total { count: 1, sum: -3 }));
        assert_eq!(running.of(2..5), None, "one of them is no number");
        running.drop_first(4);
        assert_eq!((running.of(0..1), running.of(1..1)), (Some(Total { count: 1, sum: 9 }), Some(Total::default())));
    }

    #[test]
    fn totals_may_wrap_around_but_sums_of_rows_may_not() {
        let mut running = Running::default();
        let large = i128::MAX / 2;
        running.append(&amounts(&[large; 7], &[], &[]), 0..7);
        assert_eq!(running.of(3..5), Some(Total { count: 2, sum: large * 2 }));
        assert_eq!(running.of(3..6), None);
        running.append(&amounts(&[1, 1, 1], &[], &[]), 0..3);
        assert_eq!(running.of(7..10), None, "nobody knows that the large ones are not among them");
        running.drop_first(7);
        assert_eq!(running.of(0..3), Some(Total { count: 3, sum: 3 }));
    }
}
