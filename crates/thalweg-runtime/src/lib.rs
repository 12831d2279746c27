//! Runs a topology on this machine: a pool of workers, tasks, and bounded pipes between them.
//!
//! The runtime names no operator and no connector; it drives `thalweg-core`'s traits.
//!
//! * [`topology`]: what is to run
//! * [`pipe`]: one sender, one receiver, a capacity
//! * [`packing`]: how rows lie in the pages that pipes carry
//! * [`nested`]: lists, structs and maps as bytes
//! * [`exchange`]: rows go to the instance that owns their key
//! * [`deal`]: batches go to instances in turn, and come back in it
//! * [`clock`]: what time it is
//! * [`share`]: what of the exchanges' memory is one sender's
//! * [`adapt`]: which instance has which key group, and how that changes
//! * [`alarm`]: no task sleeps while something waits for it
//! * [`nodes`]: which processors are near which memory
//! * [`pool`]: workers that run tasks when there is something to do
//! * [`chain`]: the operators of one subquery, called one after the other
//! * [`source`]: partitions become batches and watermarks
//! * [`slack`]: how long rows wait for an instance that says nothing
//! * [`intake`]: the pipes that end at a task, put together
//! * [`task`]: one instance of a subquery
//! * [`metrics`]: what is counted
//! * [`simulation`]: the same tasks on one thread, in an order that a schedule decides
//! * [`query`]: the handle of a running query

pub mod accuracy;
pub mod adapt;
pub mod alarm;
pub mod align;
pub mod backlog;
pub mod chain;
pub mod clock;
pub mod deal;
pub mod exchange;
pub mod intake;
pub mod lateness;
pub mod lull;
pub mod metrics;
pub mod nested;
pub mod nodes;
pub mod packing;
pub mod pipe;
pub mod pool;
pub mod query;
pub mod share;
pub mod simulation;
pub mod slack;
pub mod source;
pub mod task;
pub mod topology;

pub use metrics::Metrics;
pub use query::{RunningQuery, start};
pub use simulation::{Pick, Schedule};
pub use topology::{KeyParts, OnBarrier, OperatorParts, SourceParts, Stage, StageInput, Topology};
