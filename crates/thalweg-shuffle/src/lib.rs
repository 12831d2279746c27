//! From tuple to partition: which partitions a row goes to, and how its bytes get there.
//!
//! * [`route`]: which partitions?
//! * [`scatter`]: how do the bytes get there?

pub mod route;
pub mod scatter;
