//! Raft's types as messages: for the log on disk, and between controllers.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use openraft::{CommittedLeaderId, EntryPayload};
use prost::Message;
use taffrail_protocol::rpc::{FormatError, check_version, id_from_bytes, id_to_bytes, required, v1};

use super::{Entry, Events, LogId, Member, Membership, NodeId, SnapshotMeta, StoredMembership, Vote};

/// Version of the forms in this file that this release writes, and the newest that it reads.
pub(crate) const RAFT_VERSION: u32 = 1;

const WHAT: &str = "a Raft message";

pub(crate) fn node_to_message(node: NodeId) -> v1::RaftNodeId {
    v1::RaftNodeId { controller: node.controller, directory: id_to_bytes(node.directory()) }
}

pub(crate) fn node_from_message(message: &v1::RaftNodeId) -> Result<NodeId, FormatError> {
    Ok(NodeId::new(message.controller, id_from_bytes(WHAT, "directory", &message.directory)?))
}

pub(crate) fn vote_to_message(vote: Vote) -> v1::RaftVote {
    let node = vote.leader_id().voted_for().map(node_to_message);
    v1::RaftVote { term: vote.leader_id().term, node, committed: vote.is_committed() }
}

pub(crate) fn vote_from_message(message: Option<v1::RaftVote>) -> Result<Vote, FormatError> {
    let message = required(WHAT, "vote", message)?;
    let node = node_from_message(&required(WHAT, "node", message.node)?)?;
    let vote = if message.committed { Vote::new_committed(message.term, node) } else { Vote::new(message.term, node) };
    Ok(vote)
}

pub(crate) fn log_id_to_message(log_id: LogId) -> v1::RaftLogId {
    v1::RaftLogId {
        term: log_id.leader_id.term,
        node: Some(node_to_message(log_id.leader_id.node_id)),
        index: log_id.index,
    }
}

pub(crate) fn log_id_from_message(message: v1::RaftLogId) -> Result<LogId, FormatError> {
    let node = node_from_message(&required(WHAT, "node", message.node)?)?;
    Ok(LogId::new(CommittedLeaderId::new(message.term, node), message.index))
}

pub(crate) fn optional_log_id(message: Option<v1::RaftLogId>) -> Result<Option<LogId>, FormatError> {
    message.map(log_id_from_message).transpose()
}

fn membership_to_message(membership: &Membership) -> v1::RaftMembership {
    let voters =
        |nodes: &BTreeSet<NodeId>| v1::RaftVoters { nodes: nodes.iter().copied().map(node_to_message).collect() };
    let member = |(id, member): (&NodeId, &Member)| v1::RaftMember {
        id: Some(node_to_message(*id)),
        address: member.address.clone(),
    };
    v1::RaftMembership {
        configs: membership.get_joint_config().iter().map(voters).collect(),
        members: membership.nodes().map(member).collect(),
    }
}

fn membership_from_message(message: v1::RaftMembership) -> Result<Membership, FormatError> {
    let voters = |voters: v1::RaftVoters| voters.nodes.iter().map(node_from_message).collect();
    let configs = message.configs.into_iter().map(voters).collect::<Result<Vec<BTreeSet<NodeId>>, _>>()?;
    let member = |member: v1::RaftMember| {
        let id = node_from_message(&required(WHAT, "member", member.id)?)?;
        Ok((id, Member { address: member.address }))
    };
    let members = message.members.into_iter().map(member).collect::<Result<BTreeMap<_, _>, FormatError>>()?;
    Ok(Membership::new(configs, members))
}

fn stored_to_message(stored: &StoredMembership) -> v1::RaftStoredMembership {
    v1::RaftStoredMembership {
        log_id: stored.log_id().map(log_id_to_message),
        membership: Some(membership_to_message(stored.membership())),
    }
}

fn stored_from_message(message: v1::RaftStoredMembership) -> Result<StoredMembership, FormatError> {
    let membership = membership_from_message(required(WHAT, "membership", message.membership)?)?;
    Ok(StoredMembership::new(optional_log_id(message.log_id)?, membership))
}

pub(crate) fn entry_to_message(entry: &Entry) -> v1::RaftEntry {
    use v1::raft_entry::Payload;
    let payload = match &entry.payload {
        EntryPayload::Blank => Payload::Blank(v1::RaftBlank {}),
        EntryPayload::Normal(events) => Payload::Events(Bytes::copy_from_slice(&events.0)),
        EntryPayload::Membership(membership) => Payload::Membership(membership_to_message(membership)),
    };
    v1::RaftEntry {
        format_version: RAFT_VERSION,
        log_id: Some(log_id_to_message(entry.log_id)),
        payload: Some(payload),
    }
}

pub(crate) fn entry_from_message(message: v1::RaftEntry) -> Result<Entry, FormatError> {
    use v1::raft_entry::Payload;
    check_version("a Raft entry", message.format_version, RAFT_VERSION)?;
    let payload = match required("a Raft entry", "payload", message.payload)? {
        Payload::Blank(_) => EntryPayload::Blank,
        Payload::Events(events) => EntryPayload::Normal(Events(events.to_vec())),
        Payload::Membership(membership) => EntryPayload::Membership(membership_from_message(membership)?),
    };
    Ok(Entry { log_id: log_id_from_message(required("a Raft entry", "log_id", message.log_id)?)?, payload })
}

pub(crate) fn encode_entry(entry: &Entry) -> Vec<u8> {
    entry_to_message(entry).encode_to_vec()
}

pub(crate) fn decode_entry(bytes: &[u8]) -> Result<Entry, FormatError> {
    let decoded = v1::RaftEntry::decode(bytes);
    entry_from_message(decoded.map_err(|source| FormatError::Decode { what: "a Raft entry", source })?)
}

pub(crate) fn encode_vote(vote: Vote) -> Vec<u8> {
    let vote = Some(vote_to_message(vote));
    v1::RaftMark { format_version: RAFT_VERSION, vote, purged: None }.encode_to_vec()
}

pub(crate) fn decode_vote(bytes: &[u8]) -> Result<Vote, FormatError> {
    vote_from_message(decode_mark(bytes)?.vote)
}

pub(crate) fn encode_purged(log_id: LogId) -> Vec<u8> {
    let purged = Some(log_id_to_message(log_id));
    v1::RaftMark { format_version: RAFT_VERSION, vote: None, purged }.encode_to_vec()
}

pub(crate) fn decode_purged(bytes: &[u8]) -> Result<LogId, FormatError> {
    log_id_from_message(required("a Raft mark", "log id", decode_mark(bytes)?.purged)?)
}

fn decode_mark(bytes: &[u8]) -> Result<v1::RaftMark, FormatError> {
    let what = "a Raft mark";
    let mark = v1::RaftMark::decode(bytes).map_err(|source| FormatError::Decode { what, source })?;
    check_version(what, mark.format_version, RAFT_VERSION)?;
    Ok(mark)
}

pub(crate) fn meta_to_message(meta: &SnapshotMeta) -> v1::RaftSnapshotMeta {
    v1::RaftSnapshotMeta {
        format_version: RAFT_VERSION,
        last_log_id: meta.last_log_id.map(log_id_to_message),
        last_membership: Some(stored_to_message(&meta.last_membership)),
        snapshot_id: meta.snapshot_id.clone(),
    }
}

pub(crate) fn meta_from_message(message: v1::RaftSnapshotMeta) -> Result<SnapshotMeta, FormatError> {
    let what = "a Raft snapshot";
    check_version(what, message.format_version, RAFT_VERSION)?;
    Ok(SnapshotMeta {
        last_log_id: optional_log_id(message.last_log_id)?,
        last_membership: stored_from_message(required(what, "membership", message.last_membership)?)?,
        snapshot_id: message.snapshot_id,
    })
}

#[cfg(test)]
mod tests {
    use taffrail_core::ids::Uuid;

    use super::*;

    #[test]
    fn raft_forms_come_back_as_they_were() {
        let (a, b) = (NodeId::new(1, Uuid([1; 16])), NodeId::new(2, Uuid([2; 16])));
        let log_id = LogId::new(CommittedLeaderId::new(3, a), 9);
        let members =
            BTreeMap::from([(a, Member { address: "a:1".to_owned() }), (b, Member { address: "b:2".to_owned() })]);
        let membership = Membership::new(vec![BTreeSet::from([a]), BTreeSet::from([a, b])], members);
        let payloads = [
            EntryPayload::Blank,
            EntryPayload::Normal(Events(vec![1, 2, 3])),
            EntryPayload::Normal(Events(Vec::new())),
            EntryPayload::Membership(membership.clone()),
        ];
        for payload in payloads {
            let entry = Entry { log_id, payload };
            assert_eq!(decode_entry(&encode_entry(&entry)), Ok(entry));
        }
        for vote in [Vote::new(4, a), Vote::new_committed(5, b)] {
            assert_eq!(decode_vote(&encode_vote(vote)), Ok(vote));
        }
        assert_eq!(decode_purged(&encode_purged(log_id)), Ok(log_id));
        let meta = SnapshotMeta {
            last_log_id: Some(log_id),
            last_membership: StoredMembership::new(Some(log_id), membership),
            snapshot_id: "x".to_owned(),
        };
        assert_eq!(meta_from_message(meta_to_message(&meta)), Ok(meta));
    }

    #[test]
    fn newer_forms_are_refused_by_name() {
        let entry = Entry { log_id: LogId::default(), payload: EntryPayload::Blank };
        let message = v1::RaftEntry { format_version: RAFT_VERSION + 1, ..entry_to_message(&entry) };
        let error = decode_entry(&message.encode_to_vec()).unwrap_err();
        assert_eq!(error.to_string(), "a Raft entry has format version 2; this release knows versions up to 1");
    }
}
