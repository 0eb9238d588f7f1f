//! The consensus library, contained: only this crate knows it, and only its own forms reach disk and wire.

pub(crate) mod links;
pub(crate) mod messages;
pub(crate) mod network;
pub(crate) mod route;
pub(crate) mod service;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io::Cursor;

use std::time::Duration;

use openraft::{Config, SnapshotPolicy};
use serde::{Deserialize, Serialize};
use taffrail_core::ids::Uuid;

openraft::declare_raft_types!(
    /// The types that Raft works with here.
    pub(crate) TypeConfig:
        D = Events,
        R = Applied,
        NodeId = NodeId,
        Node = Member,
        SnapshotData = Cursor<Vec<u8>>,
);

pub(crate) type Raft = openraft::Raft<TypeConfig>;
pub(crate) type Entry = openraft::Entry<TypeConfig>;
pub(crate) type LogId = openraft::LogId<NodeId>;
pub(crate) type Vote = openraft::Vote<NodeId>;
pub(crate) type Membership = openraft::Membership<NodeId, Member>;
pub(crate) type StoredMembership = openraft::StoredMembership<NodeId, Member>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<NodeId, Member>;
pub(crate) type Snapshot = openraft::Snapshot<TypeConfig>;
pub(crate) type Fatal = openraft::error::Fatal<NodeId>;
pub(crate) type StorageError = openraft::StorageError<NodeId>;

/// openraft sends heartbeats every one and a half of these, and gives up on a call to a follower after one.
const HEARTBEAT_INTERVAL_MS: u64 = 200;

/// How long a voter that has heard of the leader votes for nobody else. Short, because voters say before an election how
/// long they hold to their leader, and candidates wait for that.
const LEASE_MS: u64 = 110;

/// The same, with what a clock may be off.
pub(crate) const LEASE: Duration = Duration::from_millis(LEASE_MS + 15);

/// How long a candidate waits for one voter's answer.
const VOTE_TIMEOUT_MS: u64 = 100;

/// Entries after which a snapshot is taken.
const SNAPSHOT_ENTRIES: u64 = 5_000;

/// Entries kept before a snapshot, for followers that are a little behind.
const KEPT_ENTRIES: u64 = 1_000;

/// How long a follower may take for one part of a snapshot, of which the last has it written to disk.
const SNAPSHOT_PART_TIMEOUT_MS: u64 = 10_000;

/// How Raft works here. openraft stands for no election by itself, so what it wants to hold between the time of a heartbeat
/// and that of an election need not.
pub(crate) fn config() -> Config {
    Config {
        cluster_name: "taffrail".to_owned(),
        heartbeat_interval: HEARTBEAT_INTERVAL_MS,
        election_timeout_min: VOTE_TIMEOUT_MS,
        election_timeout_max: LEASE_MS,
        enable_elect: false,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(SNAPSHOT_ENTRIES),
        max_in_snapshot_log_to_keep: KEPT_ENTRIES,
        install_snapshot_timeout: SNAPSHOT_PART_TIMEOUT_MS,
        ..Config::default()
    }
}

/// Waits until Raft has stopped, and tells why.
pub(crate) async fn failed(raft: &Raft) -> Fatal {
    let mut metrics = raft.metrics();
    loop {
        if let Err(error) = &metrics.borrow_and_update().running_state {
            return error.clone();
        }
        if metrics.changed().await.is_err() {
            return Fatal::Stopped;
        }
    }
}

/// A Raft node is a controller with one life of its disk: with an empty disk it is another node, because it has forgotten
/// how it voted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub(crate) struct NodeId {
    /// Number of the controller.
    pub(crate) controller: i32,
    /// Identity of its metadata directory.
    pub(crate) directory: [u8; 16],
}

impl NodeId {
    pub(crate) fn new(controller: i32, directory: Uuid) -> Self {
        Self { controller, directory: directory.0 }
    }

    pub(crate) fn directory(&self) -> Uuid {
        Uuid(self.directory)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.controller, self.directory())
    }
}

/// What the others know of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Member {
    /// Host and port of its gRPC service.
    pub(crate) address: String,
}

/// One entry of the metadata log: an encoded batch of events.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Events(pub(crate) Vec<u8>);

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Events({} bytes)", self.0.len())
    }
}

/// What came of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Applied {
    /// The image has its events now; `offset` is that of the last one.
    Accepted {
        /// Metadata offset of the last event.
        offset: i64,
    },
    /// It was decided from another image than the one it met: it changed nothing.
    Stale,
}

#[cfg(test)]
impl From<u64> for NodeId {
    fn from(number: u64) -> Self {
        Self { controller: i32::try_from(number).unwrap(), directory: [0; 16] }
    }
}
