//! How rows get to the pages of their partitions.
//!
//! * [`order`]: the rows of a batch, partition by partition
//! * [`outbox`]: one sender, with an open page for each receiver

pub mod order;
pub mod outbox;

#[cfg(test)]
mod tests;
