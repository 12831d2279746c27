//! How rows get to the pages of their partitions.
//!
//! * [`order`]: the rows of a batch, partition by partition
//! * [`outbox`]: one sender, with an open page for each receiver: how the running engine exchanges rows
//! * [`choice`]: which way is taken where nobody says
//! * [`variant`]: all ways in which threads fill pages together, by name
//! * [`work`]: what threads scatter together
//! * [`manager`]: pages that threads fill together
//! * [`ordered`], [`buffered`], [`radix`], [`ranges`], [`local`]: how a thread walks through batches

pub mod buffered;
pub mod choice;
pub mod local;
pub mod manager;
pub mod order;
pub mod ordered;
pub mod outbox;
mod own;
pub mod radix;
pub mod ranges;
pub mod variant;
pub mod work;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod variants;

pub use outbox::Sizes;
