//! The vocabulary of Thalweg: time, batches, events, operators, state, and the traits that the other rooms meet at.
//!
//! There is no I/O, no thread, no clock and no SQL in here. Read the modules in this order:
//!
//! * [`error`]: whose fault it was and where
//! * [`time`]: event time, [`Timestamp`] and [`Interval`]
//! * [`types`]: what Arrow's types are called in SQL
//! * [`decimal`]: arithmetic of decimals
//! * [`window`]: which windows a row belongs to
//! * [`selection`], [`positions`], [`batch`]: rows in columns, which of them are still in, and where they stand
//! * [`event`]: what travels on a pipe
//! * [`operator`]: behaviour, the second waist of the engine
//! * [`told`]: how many results are exact
//! * [`snapshot`], [`state`]: what outlives a batch, by key group
//! * [`expression`], [`aggregate`], [`ranked`], [`moving`], [`ordered`]: values computed from batches
//! * [`connector`]: where rows come from and go to

pub mod aggregate;
pub mod batch;
pub mod connector;
pub mod decimal;
pub mod error;
pub mod event;
pub mod expression;
pub mod moving;
pub mod near;
pub mod operator;
pub mod ordered;
pub mod positions;
pub mod ranked;
pub mod selection;
pub mod snapshot;
pub mod state;
pub mod time;
pub mod told;
pub mod types;
pub mod views;
pub mod window;

pub use batch::{Batch, Origin};
pub use error::{Error, Result};
pub use event::{Epoch, Event};
pub use operator::{Frontier, Operator, Output, Port, Progress, PutOff};
pub use positions::{PositionKey, Positions};
pub use selection::Selection;
pub use snapshot::Snapshot;
pub use state::{Held, KeyGroup, KeyGroups, Part, State};
pub use time::{Interval, Timestamp};
pub use window::Window;
