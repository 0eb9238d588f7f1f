//! What administrators ask: list, describe, delete.

use super::effects::{Effects, Reply, Then, Waiter, Write};
use super::record::GroupRecord;
use super::shard::GroupShard;
use super::state::{Group, GroupState};
use crate::errors::ErrorCode;
use bytes::Bytes;
use std::sync::Arc;

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    /// Its id.
    pub group_id: Arc<str>,
    /// Type of its protocol; empty if it only stores offsets.
    pub protocol_type: String,
    /// Its state.
    pub state: GroupState,
}

/// A group in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedGroup {
    /// Its state.
    pub state: GroupState,
    /// Type of its protocol.
    pub protocol_type: String,
    /// The chosen protocol; empty unless it is stable.
    pub protocol_name: String,
    /// Its members.
    pub members: Vec<DescribedMember>,
}

/// A member in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedMember {
    /// Its id.
    pub member_id: String,
    /// Its `group.instance.id`.
    pub instance_id: Option<String>,
    /// Its client's id.
    pub client_id: String,
    /// Where it connected from.
    pub client_host: String,
    /// Its metadata for the chosen protocol; empty unless the group is stable.
    pub metadata: Bytes,
    /// What it was assigned.
    pub assignment: Bytes,
}

impl GroupShard {
    /// All groups, in the order of their ids.
    pub fn list(&self) -> impl Iterator<Item = ListedGroup> + '_ {
        self.groups.values().map(|group| ListedGroup {
            group_id: group.group_id.clone(),
            protocol_type: group.protocol_type.clone().unwrap_or_default(),
            state: group.state,
        })
    }

    /// One group; `None` if there is no such group.
    pub fn describe(&self, group_id: &str) -> Option<DescribedGroup> {
        self.groups.get(group_id).map(Group::describe)
    }

    /// Deletes a group that has no members, with its offsets.
    pub fn delete_group(&mut self, waiter: Waiter, group_id: &str) -> Effects {
        let refused = |error| Effects::reply(waiter, Reply::Done(error));
        let Some(group) = self.groups.get_mut(group_id) else { return refused(ErrorCode::GroupIdNotFound) };
        if group.state != GroupState::Empty {
            return refused(ErrorCode::NonEmptyGroup);
        }
        if self.pending_writes.contains_key(group_id) {
            // Offsets that are on their way to the log would outlive the group; the client tries again.
            return refused(ErrorCode::CoordinatorLoadInProgress);
        }
        // Who has an id and has not joined with it yet is no member, and begins anew.
        group.pending_join.clear();
        let group_id = group.group_id.clone();
        let mut records = self.offset_tombstones(&group_id);
        records.push(GroupRecord::Group { group_id, value: None });
        let reply = Some((waiter, Reply::Done(ErrorCode::None)));
        Effects { replies: Vec::new(), writes: vec![Write { records, then: Then::Apply, reply }] }
    }
}

impl Group {
    fn describe(&self) -> DescribedGroup {
        let protocol = self.protocol_name.as_deref().filter(|_| self.state == GroupState::Stable);
        let member = |member: &super::Member| DescribedMember {
            member_id: member.member_id.to_string(),
            instance_id: member.instance_id.as_deref().map(str::to_owned),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: member.metadata(protocol),
            assignment: member.assignment.clone(),
        };
        DescribedGroup {
            state: self.state,
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol_name: protocol.unwrap_or_default().to_owned(),
            members: self.members.values().map(member).collect(),
        }
    }
}
