//! One member of a group.

use super::deadlines::Deadline;
use super::effects::{JoinedMember, Waiter};
use super::record::MemberValue;
use bytes::Bytes;
use std::sync::Arc;

/// A protocol that a member supports (an assignment strategy, for consumers) and its metadata for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Its name.
    pub name: String,
    /// What the leader needs to know of the member.
    pub metadata: Bytes,
}

/// A member of a group.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its id.
    pub member_id: Arc<str>,
    /// Its `group.instance.id`, if it is a static member (KIP-345).
    pub instance_id: Option<Arc<str>>,
    /// Its client's id.
    pub client_id: String,
    /// Where it connected from, as "/address".
    pub client_host: String,
    /// How long a rebalance waits for it.
    pub rebalance_timeout_ms: i32,
    /// How long it may be silent.
    pub session_timeout_ms: i32,
    /// What it supports, most wanted first.
    pub protocols: Vec<Protocol>,
    /// What it was assigned.
    pub assignment: Bytes,
    pub(super) awaiting_join: Option<Waiter>,
    pub(super) awaiting_sync: Option<Waiter>,
    /// Has not been through a rebalance: it is removed on time even while it waits for one.
    pub(super) is_new: bool,
    pub(super) session: Deadline,
}

impl Member {
    /// Its metadata for a protocol; empty if it does not support it.
    pub fn metadata(&self, protocol: Option<&str>) -> Bytes {
        let known = |name: &str| self.protocols.iter().find(|p| p.name == name).map(|p| p.metadata.clone());
        protocol.and_then(known).unwrap_or_default()
    }

    pub(super) fn joined(&self, protocol: Option<&str>) -> JoinedMember {
        JoinedMember {
            member_id: self.member_id.to_string(),
            instance_id: self.instance_id.as_deref().map(str::to_owned),
            metadata: self.metadata(protocol),
        }
    }

    pub(super) fn to_value(&self, protocol: Option<&str>, assignment: Bytes) -> MemberValue {
        MemberValue {
            member_id: self.member_id.to_string(),
            instance_id: self.instance_id.as_deref().map(str::to_owned),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            rebalance_timeout_ms: Some(self.rebalance_timeout_ms),
            session_timeout_ms: self.session_timeout_ms,
            subscription: self.metadata(protocol),
            assignment,
        }
    }

    pub(super) fn from_value(value: MemberValue, protocol: Option<&str>) -> Self {
        let name = protocol.unwrap_or_default().to_owned();
        Self {
            member_id: value.member_id.into(),
            instance_id: value.instance_id.map(Into::into),
            client_id: value.client_id,
            client_host: value.client_host,
            // Records of Kafka before 0.10.1 know one timeout only.
            rebalance_timeout_ms: value.rebalance_timeout_ms.unwrap_or(value.session_timeout_ms),
            session_timeout_ms: value.session_timeout_ms,
            protocols: vec![Protocol { name, metadata: value.subscription }],
            assignment: value.assignment,
            awaiting_join: None,
            awaiting_sync: None,
            is_new: false,
            session: Deadline::default(),
        }
    }

    /// Whether the end of its session does not count: it waits for the group, not the group for it.
    pub(super) fn is_excused(&self) -> bool {
        !self.is_new && (self.awaiting_join.is_some() || self.awaiting_sync.is_some())
    }
}
