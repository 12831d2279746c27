//! Which partitions a row goes to.
//!
//! * [`hash`]: by the hash of a key, directly or by way of its key group
//! * [`spread`]: in turn, to all, and the grid of the product

pub mod hash;
pub mod spread;

use thalweg_core::{Batch, Result};

/// Where the selected rows of a batch go.
#[derive(Clone, Debug, PartialEq)]
pub enum Destinations {
    /// Each row to one partition.
    One(Vec<u32>),
    /// Each row to all partitions of a line, of which there are several.
    Lines {
        /// The line of each row.
        line: Vec<u32>,
        /// The partitions of each line.
        lines: Vec<Vec<u32>>,
    },
}

impl Destinations {
    /// A row and a partition for each copy of the selected rows, in their order.
    pub fn each(&self, rows: &[u32]) -> (Vec<u32>, Vec<u32>) {
        match self {
            Self::One(of) => (rows.to_vec(), of.clone()),
            Self::Lines { line, lines } => {
                let to = |number: usize| lines[line[number] as usize].iter().map(move |to| (rows[number], *to));
                (0..line.len()).flat_map(to).unzip()
            }
        }
    }
}

/// Decides which partitions rows go to.
pub trait Route: Send {
    /// How many partitions there are.
    fn partitions(&self) -> usize;

    /// The destinations of the selected rows.
    ///
    /// Errors: what the key's type gives where it cannot be hashed.
    fn route(&mut self, batch: &Batch) -> Result<Destinations>;
}
