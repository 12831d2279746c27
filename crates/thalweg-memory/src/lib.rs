//! Where bytes live and what is done to them. The only crate that contains `unsafe`.
//!
//! * [`pool`]: blocks of memory that are used again
//! * [`page`]: rows in a block, which another thread or another machine reads as they lie
//! * [`preallocate`]: batches in such blocks
//! * [`kernels`]: loops over columns
//! * [`index`]: rows by key and time, which one thread writes while others search
//! * [`stable`]: a list that grows while others read it
//! * [`simd`]: for which instructions the loops are compiled

pub mod index;
pub mod kernels;
pub mod page;
pub mod pool;
pub mod preallocate;
pub mod simd;
pub mod stable;
pub mod sync;
