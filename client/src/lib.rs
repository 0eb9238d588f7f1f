//! What the operator, the command line and the tests call on a cluster.

pub mod controller;
pub mod groups;
pub mod kafka;
