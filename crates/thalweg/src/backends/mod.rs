//! Where a plan runs.

pub mod local;
pub mod measured;
mod not_null;
pub mod notes;
pub mod ran;
