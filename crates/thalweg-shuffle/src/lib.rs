//! From tuple to partition and back: which partitions a row goes to, how its bytes get there, and in what order they come out.
//!
//! * [`route`]: which partitions?
//! * [`scatter`]: how do the bytes get there?
//! * [`gather`]: in what order do they come out?

pub mod gather;
pub mod route;
pub mod scatter;
