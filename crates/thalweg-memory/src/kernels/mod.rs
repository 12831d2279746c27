//! Safe functions over slices: selection, the values of rows, hashing, exact sums, sums between two times, how many numbers are less and whether one is behind, the fields and members of text, two sequences that become one. The portable version of each is its specification.

pub mod behind;
pub mod between;
pub mod bounds;
pub mod exact_sum;
pub mod fields;
mod four;
pub mod gather;
pub mod hash;
mod masks;
pub mod members;
pub mod merge;
pub mod select;
pub mod steps;
pub mod sums;
pub mod walk;
