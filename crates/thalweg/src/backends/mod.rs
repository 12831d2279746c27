//! Where a plan runs.

pub mod local;
