//! DataFusion behind `thalweg-core`'s expressions and aggregates: the one crate that feels its major versions at run time.
//!
//! * [`compile`]: an expression of a plan becomes something that computes columns
//! * [`constant_rows`]: the rows of `VALUES`
//! * `fused`: predicates on numbers and times, which run on kernels of ours and fall back to DataFusion
//! * [`aggregate`]: an aggregate call of a plan becomes accumulators
//!
//! What DataFusion does otherwise than PostgreSQL, and is put right here: integers and decimals that overflow are an error,
//! floats are compared by value and not by their bits, and the right side of AND and OR is never computed for rows that the left side
//! decides.

mod aggregate;
mod blame;
mod checked;
mod compile;
mod constant;
mod decimals;
mod error;
mod finite;
mod floats;
mod fused;
mod lazy;

pub use aggregate::{Call, aggregate, aggregate_in_order};
pub use compile::compile;
pub use constant::constant_rows;
