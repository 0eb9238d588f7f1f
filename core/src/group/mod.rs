//! The classic consumer group: members, generations, offsets. A pure machine; the coordinator in `broker` gives it time,
//! ids and the log.
//!
//! [`GroupShard`] holds the groups of one partition of `__consumer_offsets`. Each request is one call that answers with
//! [`Effects`]: replies that may go out, and writes. A write's records go to the log; when the high watermark covers them,
//! [`GroupShard::committed`] applies them and gives the replies that waited for them, and if they cannot be written,
//! [`GroupShard::failed`] undoes what was begun. Committed offsets become visible only when their write is committed.
//! After a change of leader the same records come back through [`GroupShard::replay`], and every session starts anew.
//!
//! Deadlines are kept here and given out by [`GroupShard::next_deadline`]; the coordinator calls [`GroupShard::expire`] when
//! it is reached. Rules follow Kafka's `GroupMetadataManager`, `ClassicGroup` and `OffsetMetadataManager`.

pub mod consumer_protocol;
mod deadlines;
mod describe;
mod effects;
mod join;
mod leave;
mod member;
mod offsets;
mod rebalance;
mod record;
mod shard;
mod state;
mod stats;
mod sync;

#[cfg(test)]
mod tests;

pub use describe::{DescribedGroup, DescribedMember, ListedGroup};
pub use effects::{Effects, JoinReply, JoinedMember, LeaveReply, Reply, SyncReply, Waiter, Write};
pub use join::JoinRequest;
pub use leave::{HeartbeatRequest, LeaveRequest, LeavingMember};
pub use member::{Member, Protocol};
pub use offsets::{CommitRequest, CommittedOffset, OffsetsOfGroup, PartitionOffset, RESET_MARKER};
pub use record::{GroupRecord, GroupValue, MemberValue};
pub use shard::GroupShard;
pub use state::{Group, GroupState};
pub use stats::GroupStats;
pub use sync::SyncRequest;

/// Protocol type of ordinary consumers; the only one whose subscriptions the coordinator can read.
pub const CONSUMER_PROTOCOL_TYPE: &str = "consumer";

/// Most ids that a group hands out to clients that have not joined with them yet. Kafka has no limit here; a client that
/// asks again and again would fill the memory.
pub const MAX_PENDING_MEMBERS: usize = 10_000;

/// The time of a call, by two clocks: deadlines must not jump when the wall clock is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since 1970, for what is stored.
    pub unix_ms: i64,
    /// Milliseconds by a clock that never goes back, for deadlines.
    pub monotonic_ms: i64,
}

/// The broker's settings for groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`.
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`.
    pub max_session_timeout_ms: i32,
    /// `group.max.size`.
    pub max_size: usize,
    /// `group.initial.rebalance.delay.ms`: how long the first rebalance of an empty group waits for more members.
    pub initial_rebalance_delay_ms: i32,
    /// How long a new member may wait for its first rebalance (Kafka fixes it at five minutes).
    pub new_member_join_timeout_ms: i32,
    /// `offset.metadata.max.bytes`.
    pub offset_metadata_max_bytes: usize,
    /// `offsets.retention.minutes`, in milliseconds.
    pub offsets_retention_ms: i64,
}

impl Default for GroupConfig {
    /// Kafka's defaults.
    fn default() -> Self {
        Self {
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            max_size: i32::MAX as usize,
            initial_rebalance_delay_ms: 3_000,
            new_member_join_timeout_ms: 300_000,
            offset_metadata_max_bytes: 4_096,
            offsets_retention_ms: 7 * 24 * 3_600_000,
        }
    }
}
