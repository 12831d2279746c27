//! Safe functions over slices: selection, hashing, exact sums. The portable version of each is its specification.

pub mod bounds;
pub mod exact_sum;
pub mod hash;
pub mod select;
pub mod sums;
