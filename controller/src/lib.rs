//! The controller role: the cluster's metadata, agreed on by a majority of controllers.
//!
//! Commands come in by gRPC, one loop decides them (core), Raft commits the events, every controller applies them to the
//! same image, and brokers follow the events. openraft, sled and redb stay inside this crate.

mod changes;
mod controller;
mod decider;
mod directory;
mod heartbeats;
mod machine;
mod opening;
mod options;
mod quorum;
mod raft;
mod service;
mod session_watch;
mod sessions;
mod store;
mod tender;
mod view;

pub use changes::{Cause, Changes};
pub use controller::Controller;
pub use directory::DirectoryError;
pub use options::{ControllerError, ControllerOptions, MetadataDir};
pub use raft::links::Dialer;
pub use store::StoreError;
pub use store::folder::Folder;
pub use view::{ControllerView, QuorumStanding};
