//! SQL text → [`Plan`](thalweg_plan::Plan), and no further.
//!
//! ```text
//! text ─ script ─► statements ─ session ─► catalog (CREATE, DROP, SET)
//!                                   │
//!                                   └─ planner ─► DataFusion's logical plan ─ optimize ─ lower ─► Plan
//! ```
//!
//! * `session`: what a user holds: tables, views, settings
//! * `script`, `dialect`, `parse`: text → statements; what sqlparser cannot read is read here
//! * `depth`: how deep statements may be nested
//! * `types`: SQL's types and Arrow's
//! * `catalog`, `create`, `describe`: tables and views
//! * `forms`: what DataFusion's planner does not know, as what it knows
//! * `over`: aggregates over the rows around a row
//! * `last`: LAST JOIN, until it is lowered
//! * `planner`, `functions`, `windowing`: what DataFusion's planner asks us for
//! * `unions`: inputs of UNION, whose columns count by their place
//! * `settle`: the types of columns and expressions, from the inputs up
//! * `together`, `numbers`: which type values of several types have where they meet
//! * `guard`: what DataFusion must not compute when a query is planned
//! * `bounded`: functions that are asked how much text they would make before they make it
//! * `emit`: results that come out before they are final
//! * `optimize`: the rules that are right for streams
//! * `clauses`, `refuse`, `diagnose`: what is not there, and whose fault it is, with the place in the text
//! * `lower`: logical plan → plan
//! * `places`: where in the text something stands that went wrong while it ran

mod bounded;
mod catalog;
mod clauses;
mod create;
mod days;
mod depth;
mod describe;
mod diagnose;
mod dialect;
mod emit;
mod forms;
mod functions;
mod guard;
mod insert;
mod last;
mod lateness;
mod lower;
mod numbers;
mod optimize;
mod over;
mod parse;
mod places;
mod planner;
mod refuse;
mod script;
mod session;
mod settle;
mod together;
mod types;
mod unions;
mod windowing;

#[cfg(test)]
mod tests;

pub use diagnose::caret;
pub use lower::States;
pub use places::Places;
pub use script::Statement;
pub use session::{ExplainFormat, Outcome, Session};
