//! Who decides: elections, and who has a vote.
//!
//! openraft keeps the log and counts the votes. When to ask for them is decided here, because a majority is asked first
//! whether it would vote at all (its library has no pre-vote), and because a leader whose process has died is told from
//! one that is only slow.

pub(crate) mod describe;
pub(crate) mod elector;
pub(crate) mod formation;
pub(crate) mod liveness;
pub(crate) mod members;
pub(crate) mod view;
pub(crate) mod watcher;
