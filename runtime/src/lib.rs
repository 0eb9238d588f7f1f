//! The only way to the outside: sockets, files, timers, tasks, threads and randomness.
//!
//! Every other crate reaches the operating system's clock, network and scheduler through here (clippy refuses the rest),
//! so that a simulator can put its own in their place and run the very code that production runs.

pub mod blocking;
pub mod cluster_secret;
pub mod disk;
pub mod grpc;
pub mod net;
pub mod open_files;
pub mod random;
pub mod shard;
pub mod shutdown;
pub mod signal;
#[cfg(feature = "simulation")]
pub mod simulation;
pub mod task;
pub mod time;
