//! Where a plan runs.

pub mod local;
mod not_null;
pub mod notes;
