//! In what order do rows come out?
//!
//! * by arrival: there is nothing to do
//! * [`ordered`]: as one sender would have sent them, which watermarks tell
//! * [`furthest`]: what comes behind rows that did not wait for all senders
//! * [`losers`]: which of many senders is next
//! * [`words`]: the same where a word of each row says so
//! * [`places`]: rows of many senders go to their places at once
//! * [`run`]: rows that leave together

pub mod furthest;
pub mod losers;
pub mod ordered;
pub mod places;
pub mod run;
#[cfg(test)]
mod tests;
pub mod words;

pub use ordered::Ordered;
