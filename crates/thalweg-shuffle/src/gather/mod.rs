//! In what order do rows come out?
//!
//! * by arrival: there is nothing to do
//! * [`ordered`]: as one sender would have sent them, which watermarks tell
//! * [`sender`]: what a sender sent
//! * [`braid`]: rows of several that take turns
//! * [`furthest`]: what comes behind rows that did not wait for all senders
//! * [`losers`]: which of many senders is next
//! * [`words`]: the same where a word of each row says so
//! * [`places`]: rows of many senders go to their places at once
//! * [`mixed`]: rows of several batches that leave together
//! * [`run`]: rows of one batch that follow each other

mod braid;
pub mod furthest;
pub mod losers;
pub mod mixed;
pub mod ordered;
pub mod places;
pub mod run;
mod sender;
#[cfg(test)]
mod tests;
pub mod words;

pub use ordered::Ordered;
