//! Brings rows together that have equal keys, and event times close to each other.
//!
//! * [`over`]: aggregates over the rows around each row; [`asked`] which, and [`chunk`] what they come to
//! * [`join`]: pairs of rows
//! * [`eager`]: both at once, with corrections
//! * [`frame`]: which rows around a row are looked at
//! * [`input`]: rows as they arrive
//! * [`waiting`]: rows that wait for the watermark; [`slices`] those that do so for long, and [`due`] those that do no longer
//! * [`index`]: rows that are looked for as they come
//! * [`lines`]: the rows of each key, in the order of time, [`line`] those of one, and [`walk`] where those of some times are; [`sweep`]: rows without an index
//! * [`order`]: sorts rows by key and time, as [`words`]
//! * [`kept`]: the values of rows that wait, or may be looked at, and [`spare`] the memory of those that are gone
//! * [`followed`]: results of windows that are followed as they move on, and [`standing`] from batch to batch
//! * [`totals`]: running totals over the rows of a key, [`sums`] what follows from these, and [`blocks`]: states of blocks of them
//! * [`past`]: what rows come to that are seen for ever, and are gone
//! * [`layout`]: which columns are kept of a row that aggregates look at
//! * [`saved`]: rows as a snapshot
//! * [`spoilt`]: how many results lack rows that came too late
//! * [`pairs`]: what pairs of rows are made of, and [`paired`]: aggregates over them
//! * [`places`]: where results stand among those of all instances
//! * [`entry`]: what is known of one row, [`entries`] of many, and [`columns`] of those that did not come together

pub mod asked;
pub mod blocks;
pub mod chunk;
pub mod columns;
pub mod due;
pub mod eager;
pub mod entries;
pub mod entry;
pub mod followed;
pub mod frame;
pub mod index;
pub mod input;
pub mod join;
pub mod kept;
pub mod layout;
mod light;
pub mod line;
pub mod lines;
pub mod order;
pub mod over;
pub mod paired;
pub mod pairs;
pub mod past;
pub mod places;
pub mod saved;
pub mod slices;
pub mod spare;
mod spoilt;
pub mod standing;
pub mod sums;
pub mod sweep;
pub mod totals;
pub mod waiting;
pub mod walk;
pub mod words;

#[cfg(test)]
mod tests;

pub use eager::{EagerJoin, EagerOver, Normalize};
pub use frame::Frame;
pub use input::Input;
pub use join::IntervalJoin;
pub use over::Over;
