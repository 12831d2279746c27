//! The rows of a batch, partition by partition: a histogram, and one pass.

use arrow_buffer::ScalarBuffer;
use thalweg_memory::{
    kernels::{gather::push_equal, select::BLOCK},
    simd::Level,
};

use crate::route::Destinations;

/// The rows of a batch in the order of their partitions; within one, in the order in which they came.
///
/// ```text
/// rows:  3 9 │ 0 4 5 │   │ 1 2        ends: 2 5 5 7
///          0       1   2     3
/// ```
#[derive(Debug, Default)]
pub struct Order {
    rows: Vec<u32>,
    ends: Vec<usize>,
}

/// For so many partitions a pass for each costs less than one for all.
const FEW: usize = 8;

impl Order {
    /// Orders rows, given by their numbers in the batch (`None` is all of them), by where they go.
    pub fn new(selected: Option<&[u32]>, destinations: &Destinations, partitions: usize) -> Self {
        let row = |number: usize| selected.map_or(number as u32, |rows| rows[number]);
        match destinations {
            Destinations::One(of) if partitions <= FEW => Self::of_few(selected, of, partitions),
            Destinations::One(of) => {
                let all = of.iter().enumerate().map(|(number, partition)| (row(number), *partition));
                Self::of(all, partitions)
            }
            Destinations::Lines { line, lines } => {
                let members =
                    |number: usize| lines[line[number] as usize].iter().map(move |partition| (number, *partition));
                let all = (0..line.len()).flat_map(members).map(|(number, partition)| (row(number), partition));
                Self::of(all, partitions)
            }
        }
    }

    /// Orders them by one pass for each partition, many rows at a time.
    fn of_few(selected: Option<&[u32]>, of: &[u32], partitions: usize) -> Self {
        let (level, mut rows) = (Level::best(), Vec::with_capacity(of.len() + BLOCK + 8));
        let partitions = (0..partitions as u32).map(|partition| {
            push_equal(level, of, partition, &mut rows);
            rows.len()
        });
        let ends = partitions.collect();
        if let Some(selected) = selected {
            rows.iter_mut().for_each(|row| *row = selected[*row as usize]);
        }
        Self { rows, ends }
    }

    /// Orders rows, given by their numbers, by where each goes.
    pub fn of_rows(rows: &[u32], to: &[u32], partitions: usize) -> Self {
        Self::of(rows.iter().copied().zip(to.iter().copied()), partitions)
    }

    fn of(all: impl Iterator<Item = (u32, u32)> + Clone, partitions: usize) -> Self {
        let mut ends = vec![0; partitions];
        all.clone().for_each(|(_, partition)| ends[partition as usize] += 1);
        let mut total = 0;
        for end in &mut ends {
            // Where a partition begins, until its rows are put behind each other.
            total += std::mem::replace(end, total);
        }
        let mut rows = vec![0; total];
        for (row, partition) in all {
            let end = &mut ends[partition as usize];
            rows[*end] = row;
            *end += 1;
        }
        Self { rows, ends }
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.ends.len()
    }

    /// The rows of a partition.
    pub fn of_partition(&self, partition: usize) -> &[u32] {
        let start = if partition == 0 { 0 } else { self.ends[partition - 1] };
        &self.rows[start..self.ends[partition]]
    }

    /// The rows of each partition, in the same memory.
    pub fn into_partitions(self) -> impl Iterator<Item = ScalarBuffer<u32>> {
        let (rows, mut start) = (ScalarBuffer::from(self.rows), 0);
        self.ends.into_iter().map(move |end| rows.slice(start, end - std::mem::replace(&mut start, end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_by_partition_in_the_order_in_which_they_came() {
        let order = Order::new(None, &Destinations::One(vec![1, 0, 1, 3, 1, 0]), 4);
        let found: Vec<_> = (0..4).map(|partition| order.of_partition(partition).to_vec()).collect();
        assert_eq!(found, [vec![1, 5], vec![0, 2, 4], vec![], vec![3]]);
        for (rows, partitions) in [(0, 1), (1, 1), (5, 2), (1000, 2), (1000, 3), (1000, 4), (1000, 5)] {
            let of: Vec<u32> = (0..rows).map(|row| row * row % 7 % partitions).collect();
            let order = Order::new(None, &Destinations::One(of.clone()), partitions as usize);
            for partition in 0..partitions {
                let expected: Vec<u32> = (0..rows).filter(|row| of[*row as usize] == partition).collect();
                assert_eq!(
                    order.of_partition(partition as usize),
                    expected,
                    "{rows} rows, {partition} of {partitions}"
                );
            }
            let parts: Vec<_> = (0..partitions as usize).map(|one| order.of_partition(one).to_vec()).collect();
            assert_eq!(order.into_partitions().map(|part| part.to_vec()).collect::<Vec<_>>(), parts);
        }
        let order = Order::new(Some(&[10, 20, 30]), &Destinations::One(vec![1, 1, 0]), 2);
        assert_eq!((order.of_partition(0), order.of_partition(1)), (&[30][..], &[10, 20][..]));
        let lines = Destinations::Lines { line: vec![0, 1, 0], lines: vec![vec![0, 2], vec![1]] };
        let order = Order::new(None, &lines, 3);
        let found: Vec<_> = (0..3).map(|partition| order.of_partition(partition).to_vec()).collect();
        assert_eq!(found, [vec![0, 2], vec![1], vec![0, 2]]);
    }
}
