//! Thalweg: SQL over live streams, with exact results in event time.
//!
//! ```
//! let mut engine = thalweg::Engine::new();
//! let query = engine.sql("SELECT k, count(*) AS n FROM (VALUES ('a'), ('b'), ('a')) AS t (k) GROUP BY k ORDER BY k")?;
//! for batch in query {
//!     println!("{:?}", batch?);
//! }
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! * [`engine`]: SQL in, queries out
//! * [`topology`]: plans that are built in Rust
//! * [`query`]: the handle of a query: rows, stop, metrics
//! * [`backends`]: where a plan runs
//! * [`words`]: numbers, spans of time and sizes as people read them

pub mod backends;
pub mod engine;
pub mod query;
pub mod topology;
pub mod words;

pub use engine::Engine;
pub use query::{Kind, Query};
pub use thalweg_connectors::Memory;
pub use thalweg_core::{Batch, Error, Result, Timestamp};
pub use thalweg_operators::function::Row;
pub use thalweg_plan::{Plan, parallel::costs::CostFile};
pub use thalweg_runtime::{Metrics, Pick, Schedule, query::Control};
pub use thalweg_sql::{ExplainFormat, Statement, caret};
pub use topology::Topology;
