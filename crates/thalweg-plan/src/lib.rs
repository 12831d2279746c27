//! Waist 1: what was asked for, as plain data.
//!
//! A [`Plan`] is a graph of a closed set of [`Node`]s with DataFusion's expressions. SQL and topologies lower to it; it is
//! rendered by EXPLAIN, cut into subqueries by [`parallel`], and run by a backend. Nothing above knows a thread, nothing
//! below knows SQL.
//!
//! * [`node`]: the nodes
//! * [`schema`]: what an edge carries
//! * [`plan`]: the graph; `changing`: which values corrections of rows change; `partners`: which rows have no results without some
//! * [`label`]: what nodes are called
//! * [`settings`]: `SET 'key' = 'value'`
//! * [`parallel`]: plan → subqueries
//! * [`render`]: plan → text, JSON, DOT
//! * [`reuse`]: what is written twice is done once
//! * [`written`]: expressions → SQL

pub mod accuracy;
mod apart;
mod changing;
pub mod label;
pub mod node;
pub mod parallel;
mod partners;
pub mod plan;
pub mod render;
pub mod reuse;
pub mod schema;
pub mod settings;
pub mod written;

pub use accuracy::Accuracy;
pub use node::Node;
pub use plan::{NodeId, Plan, PlanNode};
pub use schema::StreamSchema;
pub use settings::Settings;
pub use written::written;
