//! Call description records, as StreamCloud's evaluation has them (§IV-B): operators in any number of instances.
//!
//! * [`records`]: the records
//! * [`map`]: an operator without a state
//! * [`aggregate`]: calls and their average duration per district, in windows that slide
//! * [`join`]: a user's calls within a minute
//! * [`dealt`]: what it costs to deal the batches of one partition, and from which work on it pays
//!
//! Source: Gulisano et al., "StreamCloud: A Large Scale Data Streaming System", §IV.

pub mod aggregate;
pub mod dealt;
pub mod join;
pub mod map;
pub mod records;

use std::sync::Arc;

use thalweg::{Engine, Memory, Metrics};

use crate::measure::Report;

/// One instance, which the others are compared with; then more than there are cores.
pub const INSTANCES: [usize; 6] = [1, 2, 4, 8, 16, 64];

/// Measures all of them.
pub fn run(report: &mut Report) -> Result<(), String> {
    map::run(report)?;
    aggregate::run(report)?;
    join::run(report)?;
    dealt::run(report)
}

/// An engine that knows the records as `calls`.
pub fn engine(memory: &Memory, settings: &str) -> thalweg::Result<Engine> {
    let mut engine = Engine::with_connectors(vec![Arc::new(memory.clone())]);
    engine.sql(&format!(
        "{settings}
         CREATE TABLE calls (WATERMARK FOR ts AS ts) WITH ('connector' = 'memory', 'stream' = 'calls')"
    ))?;
    Ok(engine)
}

/// Runs a query whose rows have these columns, into nothing.
pub fn discard(memory: &Memory, settings: &str, columns: &str, query: &str) -> Result<Metrics, String> {
    let run = || {
        let mut engine = engine(memory, settings)?;
        engine.sql(&format!("CREATE TABLE nothing ({columns}) WITH ('connector' = 'blackhole')"))?;
        engine.sql(&format!("INSERT INTO nothing {query}"))?.wait()
    };
    run().map_err(|error| error.to_string())
}
