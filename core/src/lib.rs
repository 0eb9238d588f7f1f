//! The rules of the log: everything that decides, and nothing that does.
//!
//! No I/O, no async, no clock and no randomness live here: time and random bytes are arguments. Whatever recovers state
//! from disk and whatever follows a leader runs the same `apply` as the leader itself.

pub mod collections;
pub mod config;
pub mod control;
pub mod errors;
pub mod event;
pub mod group;
pub mod ids;
pub mod image;
pub mod metric;
pub mod partition;
pub mod planted;
pub mod record;
pub mod throttle;
pub mod topic_name;
