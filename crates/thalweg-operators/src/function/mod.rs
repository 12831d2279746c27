//! What the program that embeds the engine does with rows.
//!
//! * [`row`]: a row as a program reads it
//! * [`values`]: what a program computes from it, as columns
//! * [`stateful_map`]: new columns, with a state per key
//! * [`notify`]: looks at batches
//! * [`keep`]: keeps rows

pub mod keep;
pub mod notify;
pub mod row;
pub mod stateful_map;
pub mod values;

pub use keep::Keep;
pub use notify::Notify;
pub use row::Row;
pub use stateful_map::StatefulMap;
pub use values::{Value, Values};
