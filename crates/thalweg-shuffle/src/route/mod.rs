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

/// Decides which partitions rows go to.
pub trait Route: Send {
    /// How many partitions there are.
    fn partitions(&self) -> usize;

    /// The destinations of the selected rows.
    ///
    /// Errors: what the key's type gives where it cannot be hashed.
    fn route(&mut self, batch: &Batch) -> Result<Destinations>;
}
