//! What a group writes to its log: plain values, independent of their encoding.

use super::offsets::CommittedOffset;
use bytes::Bytes;
use std::sync::Arc;

/// A record of `__consumer_offsets`. `None` in place of a value is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupRecord {
    /// A committed offset.
    Offset {
        /// Group that committed.
        group_id: Arc<str>,
        /// Topic it is for.
        topic: Arc<str>,
        /// Partition it is for.
        partition: i32,
        /// The offset.
        value: Option<CommittedOffset>,
    },
    /// The members of a group in a generation.
    Group {
        /// The group.
        group_id: Arc<str>,
        /// Its state.
        value: Option<GroupValue>,
    },
}

/// A group as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupValue {
    /// Type of its protocol; empty if it never had a member.
    pub protocol_type: String,
    /// Its generation.
    pub generation: i32,
    /// The chosen protocol; none if it is empty.
    pub protocol_name: Option<String>,
    /// Its leader; none if it is empty.
    pub leader: Option<String>,
    /// When it came into its state, in milliseconds since 1970; `None` in old records.
    pub state_since_ms: Option<i64>,
    /// Its members.
    pub members: Vec<MemberValue>,
}

/// A member as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberValue {
    /// Its id.
    pub member_id: String,
    /// Its `group.instance.id`.
    pub instance_id: Option<String>,
    /// Its client's id.
    pub client_id: String,
    /// Where it connected from.
    pub client_host: String,
    /// How long a rebalance waits for it; `None` in old records.
    pub rebalance_timeout_ms: Option<i32>,
    /// How long it may be silent.
    pub session_timeout_ms: i32,
    /// Its metadata for the chosen protocol.
    pub subscription: Bytes,
    /// What it was assigned.
    pub assignment: Bytes,
}
