//! What a call to the machine brings about.

use super::record::GroupRecord;
use crate::errors::ErrorCode;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Names a request that waits for its reply; the coordinator draws the numbers.
pub type Waiter = u64;

/// Replies to give, and records to write.
#[derive(Debug, Default)]
#[must_use]
pub struct Effects {
    /// Replies that may go out now.
    pub replies: Vec<(Waiter, Reply)>,
    /// Records to append, in this order.
    pub writes: Vec<Write>,
}

impl Effects {
    /// One reply.
    pub(super) fn reply(waiter: Waiter, reply: Reply) -> Self {
        Self { replies: vec![(waiter, reply)], writes: Vec::new() }
    }

    /// Takes in what another call brought about.
    pub fn extend(&mut self, other: Self) {
        self.replies.extend(other.replies);
        self.writes.extend(other.writes);
    }
}

/// Records that belong together: they are appended as one batch, and then given back to the shard.
#[derive(Clone, Debug)]
pub struct Write {
    /// The records.
    pub records: Vec<GroupRecord>,
    /// What goes on when they are committed.
    pub(super) then: Then,
    /// Who waits for them, and for what.
    pub(super) reply: Option<(Waiter, Reply)>,
}

/// What goes on when a write is committed, or is undone when it failed.
#[derive(Clone, Debug)]
pub(super) enum Then {
    /// Nothing but applying the records.
    Apply,
    /// The leader's assignment of a generation: members get theirs, the group is stable.
    Assign { group_id: Arc<str>, generation: i32, assignments: BTreeMap<Arc<str>, Bytes> },
    /// New ids of static members, before a generation begins with them: the join phase ends.
    CompleteJoin { group_id: Arc<str> },
    /// A static member that came back under a new id: it may go on.
    Replace(Box<Replacement>),
}

/// A static member that takes the place of its former self.
#[derive(Clone, Debug)]
pub(super) struct Replacement {
    pub(super) group_id: Arc<str>,
    pub(super) instance_id: Arc<str>,
    /// The former member, to put back if the write fails.
    pub(super) former: super::member::Member,
    pub(super) former_leader: Option<Arc<str>>,
    pub(super) member_id: Arc<str>,
    pub(super) skip_assignment: bool,
}

/// A reply to a request that waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To JoinGroup.
    Join(JoinReply),
    /// To SyncGroup.
    Sync(SyncReply),
    /// To LeaveGroup.
    Leave(LeaveReply),
    /// To OffsetCommit, DeleteGroups and others that are done or not.
    Done(ErrorCode),
    /// To OffsetDelete: the topics that the group is subscribed to, whose offsets stay.
    OffsetsDeleted {
        /// Of the whole request.
        error: ErrorCode,
        /// Topics whose offsets stay.
        subscribed: BTreeSet<String>,
    },
}

impl Reply {
    /// The same reply when its records could not be written.
    pub(super) fn failed(self, error: ErrorCode) -> Self {
        match self {
            Self::Join(join) => Self::Join(JoinReply::refused(error, &join.member_id)),
            Self::Sync(_) => Self::Sync(SyncReply::refused(error)),
            Self::Leave(_) => Self::Leave(LeaveReply { error, members: Vec::new() }),
            Self::Done(_) => Self::Done(error),
            Self::OffsetsDeleted { .. } => Self::OffsetsDeleted { error, subscribed: BTreeSet::new() },
        }
    }
}

/// Reply to JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinReply {
    /// Outcome.
    pub error: ErrorCode,
    /// Generation, or -1.
    pub generation: i32,
    /// Type of the group's protocol.
    pub protocol_type: Option<String>,
    /// Protocol that all members support.
    pub protocol_name: Option<String>,
    /// The leader, or empty.
    pub leader: String,
    /// The leader need not assign anew (KIP-814).
    pub skip_assignment: bool,
    /// The member's id.
    pub member_id: String,
    /// All members, for the leader only.
    pub members: Vec<JoinedMember>,
}

impl JoinReply {
    pub(super) fn refused(error: ErrorCode, member_id: &str) -> Self {
        Self {
            error,
            generation: -1,
            protocol_type: None,
            protocol_name: None,
            leader: String::new(),
            skip_assignment: false,
            member_id: member_id.to_owned(),
            members: Vec::new(),
        }
    }
}

/// A member as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// Its id.
    pub member_id: String,
    /// Its `group.instance.id`.
    pub instance_id: Option<String>,
    /// Its metadata for the chosen protocol.
    pub metadata: Bytes,
}

/// Reply to SyncGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncReply {
    /// Outcome.
    pub error: ErrorCode,
    /// Type of the group's protocol.
    pub protocol_type: Option<String>,
    /// The chosen protocol.
    pub protocol_name: Option<String>,
    /// What the leader assigned to the member.
    pub assignment: Bytes,
}

impl SyncReply {
    pub(super) fn refused(error: ErrorCode) -> Self {
        Self { error, protocol_type: None, protocol_name: None, assignment: Bytes::new() }
    }
}

/// Reply to LeaveGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveReply {
    /// Outcome of the whole request.
    pub error: ErrorCode,
    /// Member id, instance id and outcome of each.
    pub members: Vec<(String, Option<String>, ErrorCode)>,
}
