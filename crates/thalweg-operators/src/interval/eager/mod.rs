//! Results that come out at once, with what is there, and corrections of them.
//!
//! Rows that are folded, those of `+I` and `+U` put in and those of `-U` and `-D` taken out, are those that come out when the watermark
//! has passed: the same rows are late, and the same ones are seen.
//!
//! * [`over`]: aggregates over the rows around each row
//! * [`join`]: pairs of rows
//! * [`answers`]: rows whose results may change
//! * [`changes`]: what is new of some rows' results
//! * [`corrections`]: what is said anew of rows that results are given for
//! * [`normalize`]: corrections as those see them who read some columns of some rows
//! * [`op`]: what becomes of a row
//! * [`stale`]: the spans of time in which results may have changed
//! * [`watched`]: where rows are whose results are remembered

pub mod answers;
pub mod changes;
pub mod corrections;
pub mod join;
pub mod normalize;
pub mod op;
pub mod over;
pub mod stale;
pub mod watched;

#[cfg(test)]
mod tests;

pub use join::EagerJoin;
pub use normalize::Normalize;
pub use over::EagerOver;
