//! Without a key: in turn, to all, and the grid of the product.

use thalweg_core::{Batch, Result};

use super::{Destinations, Route};

/// One row after the other to the next partition.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    partitions: u32,
    next: u32,
}

impl RoundRobin {
    /// In turn to so many partitions, at least one.
    pub fn new(partitions: u32) -> Self {
        Self { partitions: partitions.max(1), next: 0 }
    }

    fn turns(&mut self, rows: usize) -> Vec<u32> {
        let mut turn = || {
            let turn = self.next;
            self.next = if turn + 1 == self.partitions { 0 } else { turn + 1 };
            turn
        };
        (0..rows).map(|_| turn()).collect()
    }
}

impl Route for RoundRobin {
    fn partitions(&self) -> usize {
        self.partitions as usize
    }

    fn route(&mut self, batch: &Batch) -> Result<Destinations> {
        Ok(Destinations::One(self.turns(batch.len())))
    }
}

/// Every row to all partitions.
#[derive(Clone, Debug)]
pub struct Broadcast {
    partitions: u32,
}

impl Broadcast {
    /// To so many partitions.
    pub fn new(partitions: u32) -> Self {
        Self { partitions }
    }
}

impl Route for Broadcast {
    fn partitions(&self) -> usize {
        self.partitions as usize
    }

    fn route(&mut self, batch: &Batch) -> Result<Destinations> {
        Ok(Destinations::Lines { line: vec![0; batch.len()], lines: vec![(0..self.partitions).collect()] })
    }
}

/// The partitions as a grid, so that every row of one input meets every row of the other exactly once: a row of the left input
/// goes to all partitions of a row of the grid, and a row of the right input to all of a column.
///
/// ```text
///            right: 0   1   2
/// left: 0           0   1   2        7 partitions: 2 × 3 of them are used
///       1           3   4   5
/// ```
///
/// Source: the √N × √N grid of StreamCloud's Cartesian product; here r × c ≤ N for any N, so that each partition reads least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    rows: u32,
    columns: u32,
}

/// Which input of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that goes along rows of the grid.
    Left,
    /// The one that goes along columns.
    Right,
}

impl Grid {
    /// A grid in so many partitions, at least one. Each partition reads 1/r of one input and 1/c of the other: of all grids
    /// that fit, this one has the smallest sum of the two, and of those the one with most cells.
    pub fn new(partitions: u32) -> Self {
        let partitions = partitions.max(1);
        let candidates = (1..=partitions.isqrt()).map(|rows| Self { rows, columns: partitions / rows });
        let better = |best: Self, other: Self| {
            // 1/r + 1/c as (r + c) / (r * c), compared without division.
            let share =
                |grid: Self| (u64::from(grid.rows + grid.columns), u64::from(grid.rows) * u64::from(grid.columns));
            let ((sum, cells), (other_sum, other_cells)) = (share(best), share(other));
            if other_sum * cells <= sum * other_cells { other } else { best }
        };
        candidates.reduce(better).unwrap_or(Self { rows: 1, columns: 1 })
    }

    /// How many partitions it uses.
    pub fn cells(self) -> usize {
        self.rows as usize * self.columns as usize
    }

    /// What routes one of the inputs.
    pub fn side(self, side: Side) -> Along {
        let cell = |row: u32, column: u32| row * self.columns + column;
        let lines: Vec<Vec<u32>> = match side {
            Side::Left => {
                (0..self.rows).map(|row| (0..self.columns).map(|column| cell(row, column)).collect()).collect()
            }
            Side::Right => {
                (0..self.columns).map(|column| (0..self.rows).map(|row| cell(row, column)).collect()).collect()
            }
        };
        Along { turns: RoundRobin::new(lines.len() as u32), lines, cells: self.cells() }
    }
}

/// One input of a product: each row to all partitions of the next line of the grid.
#[derive(Clone, Debug)]
pub struct Along {
    lines: Vec<Vec<u32>>,
    turns: RoundRobin,
    cells: usize,
}

impl Route for Along {
    fn partitions(&self) -> usize {
        self.cells
    }

    fn route(&mut self, batch: &Batch) -> Result<Destinations> {
        Ok(Destinations::Lines { line: self.turns.turns(batch.len()), lines: self.lines.clone() })
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Arc};

    use arrow_array::{ArrayRef, Int64Array, RecordBatch};

    use super::*;

    fn batch(rows: i64) -> Batch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        Batch::new(RecordBatch::try_from_iter([("n", numbers)]).unwrap())
    }

    /// The rows that each partition gets of two batches.
    fn rows(route: &mut dyn Route) -> HashMap<u32, Vec<usize>> {
        let mut found: HashMap<u32, Vec<usize>> = HashMap::new();
        for from in [0, 23] {
            match route.route(&batch(23)).unwrap() {
                Destinations::One(partitions) => {
                    partitions
                        .iter()
                        .zip(from..)
                        .for_each(|(partition, row)| found.entry(*partition).or_default().push(row));
                }
                Destinations::Lines { line, lines } => {
                    for (line, row) in line.iter().zip(from..) {
                        let members = &lines[*line as usize];
                        members.iter().for_each(|partition| found.entry(*partition).or_default().push(row));
                    }
                }
            }
        }
        found
    }

    #[test]
    fn in_turn_and_to_all() {
        let found = rows(&mut RoundRobin::new(4));
        assert!((0..46).all(|row| found[&(row as u32 % 4)].contains(&row)));
        let found = rows(&mut Broadcast::new(3));
        assert!((0..3).all(|partition| found[&partition] == (0..46).collect::<Vec<_>>()));
    }

    #[test]
    fn every_pair_of_rows_meets_exactly_once_whatever_the_number_of_partitions() {
        for partitions in 1..=70 {
            let grid = Grid::new(partitions);
            assert!(grid.cells() <= partitions as usize);
            let (left, right) = (rows(&mut grid.side(Side::Left)), rows(&mut grid.side(Side::Right)));
            let mut met = vec![0; 46 * 46];
            for (partition, left) in &left {
                for left in left {
                    right[partition].iter().for_each(|right| met[left * 46 + right] += 1);
                }
            }
            assert!(met.iter().all(|times| *times == 1), "{partitions} partitions");
        }
    }

    #[test]
    fn a_grid_is_as_square_as_fits() {
        let shapes = [1, 2, 3, 4, 6, 7, 12, 16, 17, 64].map(|partitions| {
            let grid = Grid::new(partitions);
            (grid.rows, grid.columns)
        });
        assert_eq!(shapes, [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (2, 3), (3, 4), (4, 4), (4, 4), (8, 8)]);
    }
}
