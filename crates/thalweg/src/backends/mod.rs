//! Where a plan runs.

pub mod computed;
pub mod local;
mod not_null;
