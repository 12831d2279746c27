//! Which of some rows are there, in the order of their values: the one at any place among them is found at once.

use std::cmp::Ordering;

/// Rows in the order of their values, of which some are there: a tree of counts, in which a place is found in as many steps as the number
/// of rows has binary digits.
///
/// Source: Fenwick, "A new data structure for cumulative frequency tables" (1994).
pub struct Ranked {
    /// The rows by value.
    order: Vec<u32>,
    /// The place of each row in that order.
    places: Vec<u32>,
    tree: Vec<u32>,
    count: usize,
}

impl Ranked {
    /// So many rows, of which none is there yet, and how two of them compare.
    pub fn new(rows: usize, compare: impl Fn(usize, usize) -> Ordering) -> Self {
        let mut order: Vec<u32> = (0..rows as u32).collect();
        order.sort_unstable_by(|one, other| compare(*one as usize, *other as usize));
        let mut places = vec![0; rows];
        order.iter().zip(0..).for_each(|(row, place)| places[*row as usize] = place);
        Self { order, places, tree: vec![0; rows + 1], count: 0 }
    }

    /// A row comes or goes.
    pub fn change(&mut self, row: usize, comes: bool) {
        let mut node = self.places[row] as usize + 1;
        while node < self.tree.len() {
            self.tree[node] = if comes { self.tree[node] + 1 } else { self.tree[node] - 1 };
            node += node & node.wrapping_neg();
        }
        self.count = if comes { self.count + 1 } else { self.count - 1 };
    }

    /// How many are there.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The row that has so many before it, of those that are there, which are more.
    pub fn nth(&self, before: usize) -> usize {
        let (mut node, mut left) = (0, before as u32);
        let mut step = 1 << (self.tree.len().max(2) - 1).ilog2();
        while step > 0 {
            if let Some(count) = self.tree.get(node + step).filter(|count| **count <= left) {
                left -= count;
                node += step;
            }
            step /= 2;
        }
        self.order[node] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_come_and_go_are_found_by_their_places() {
        for rows in [1, 2, 7, 64, 100] {
            let value = |row: usize| row * 37 % 11;
            let mut ranked = Ranked::new(rows, |one, other| value(one).cmp(&value(other)));
            let mut there: Vec<usize> = Vec::new();
            for step in 0..4 * rows {
                let row = step * 13 % rows;
                match there.iter().position(|other| *other == row) {
                    Some(place) => drop(there.remove(place)),
                    None => there.push(row),
                }
                ranked.change(row, there.contains(&row));
                let mut values: Vec<usize> = there.iter().map(|row| value(*row)).collect();
                values.sort_unstable();
                assert_eq!((0..ranked.count()).map(|place| value(ranked.nth(place))).collect::<Vec<_>>(), values);
            }
        }
    }
}
