//! Waist 2: what the nodes of a plan do with rows and time.
//!
//! One file or folder per operator, each a synchronous state machine: no I/O, no clock, no threads. Expressions and
//! aggregates come in as `thalweg-core`'s traits, already compiled.
//!
//! * [`filter`], [`map`], [`union`], [`split`], [`limit`]: rows pass
//! * [`position`]: rows say where they stand in their source
//! * [`rebatch`]: rows wait for their batch to fill
//! * [`function`]: what the program that embeds the engine does with rows
//! * [`window`]: rows are put into windows
//! * [`sort`]: rows wait for the end
//! * [`aggregate`]: rows become groups
//! * [`interval`]: rows meet others with the same key and a time near their own

pub mod aggregate;
pub mod filter;
pub mod function;
pub mod interval;
pub mod limit;
pub mod map;
pub mod position;
pub mod rebatch;
pub mod sort;
pub mod split;
pub mod union;
pub mod window;

mod rows;

pub use aggregate::Aggregate;
pub use filter::Filter;
pub use interval::{EagerJoin, EagerOver, IntervalJoin, Normalize, Over};
pub use limit::Limit;
pub use map::Map;
pub use position::Position;
pub use rebatch::Rebatch;
pub use sort::Sort;
pub use split::Split;
pub use union::Union;
pub use window::Window;
