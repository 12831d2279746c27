//! What tests are made of: streams written as text, naive definitions of the operators, and a runner of both.
//!
//! * [`script`]: a connector whose partitions say row by row what they give
//! * [`slt`]: cases as text, run over a matrix of batch sizes, workers and reloads
//! * [`show`]: rows as text
//! * [`fold`]: corrections put together
//! * [`sim`]: schedules from seeds, for runs that can be repeated
//! * [`streams`]: random streams of rows with keys, and the ways in which a query over them is run
//! * [`oracle`]: windows and aggregates, one row at a time, as slowly and plainly as can be

pub mod fold;
pub mod oracle;
pub mod script;
pub mod show;
pub mod sim;
pub mod slt;
pub mod streams;
