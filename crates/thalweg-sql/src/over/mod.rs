//! Aggregates over the rows around a row: `sum(v) OVER (PARTITION BY k ORDER BY ts …)`, over one input or over a union of them.
//!
//! DataFusion's planner makes a node of calls of window functions of it. Its calls become calls of aggregates in a node of ours,
//! so that types, constants and errors are those of aggregates in GROUP BY.
//!
//! * [`clauses`]: what sqlparser does not know of a window, taken out of the text and put aside under a number
//! * [`named`]: windows by their names
//! * [`calls`]: `lag`, `row_number` and others as aggregates
//! * [`otherwise`]: what `lag` gives where there is no row
//! * [`foreign`]: columns that only other inputs of a union have
//! * [`absent`]: columns that are null in other inputs of a union alone
//! * [`frame`]: from where to where a frame reaches
//! * [`node`]: the node of the logical plan
//! * [`convert`]: DataFusion's node → ours
//! * [`prune`]: what nobody reads is not computed

mod absent;
mod calls;
mod clauses;
mod convert;
mod foreign;
mod frame;
mod named;
mod node;
mod otherwise;
mod prune;

pub(crate) use absent::bare;
pub(crate) use calls::OverCalls;
pub(crate) use clauses::{Clauses, is_clauses, marker, take, written};
pub(crate) use convert::{Input, Planned, convert, depends_on_order};
pub(crate) use foreign::{Foreign, stand_in, supply};
pub(crate) use frame::{Bounds, Shape};
pub(crate) use named::resolve;
pub(crate) use node::{Call, OverNode};
pub(crate) use prune::PruneOver;

/// The functions that OVER alone has, and that are there.
pub(crate) const FUNCTIONS: [&str; 4] = ["dense_rank", "lag", "rank", "row_number"];
