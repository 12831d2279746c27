//! Which instance has which key group, and how that changes while a query runs.
//!
//! ```text
//!   senders ── rows by key group ──► team ◄── time at work ── members: the instances that take the rows
//!                                     │
//!                          planner: looks at it from time to time, by the policy
//!                                     │
//!                          a new table for epoch E, and then a barrier E
//!
//!   sender   … rows by the old table │ barrier E │ rows by the new one …
//!   member   … barrier E has come on all inputs ► time is made the same ► gives what it loses ► takes what it gains ► time goes on
//!                                                                                             └ rows of its other groups go on
//! ```
//!
//! Behind barrier E no row of a group that moves can be before its state, since such rows wait at the new member until it has all
//! states; and none of the old table can be behind it. All other rows go on, at the members that give and take too. What waits while
//! states are on their way, and only at those, is time: windows close when all is there.
//!
//! * [`table`]: which instance has which key group
//! * [`sharing`]: what those get who share a group
//! * [`tally`]: how many rows a sender has for each
//! * [`team`]: what senders, members and the planner tell each other
//! * [`member`]: how an instance gives and takes
//! * [`waiting`]: rows that are there before their states
//! * [`policy`]: which table fits a load
//! * [`planner`]: when it is looked at, and in which epoch a table holds

pub mod member;
pub mod planner;
pub mod policy;
pub mod sharing;
pub mod table;
pub mod tally;
pub mod team;
pub mod waiting;
