//! The quorum as callers see and change it.

use std::time::Duration;

use openraft::RaftMetrics;
use taffrail_protocol::rpc::{FormatError, RPC_VERSION, id_from_bytes, id_to_bytes, required, v1};
use taffrail_runtime::time;

use super::members::{MemberError, Members, matched};
use super::view::active;
use crate::raft::{Member, NodeId};
use crate::service::address;

/// Longest time that a newcomer is waited for.
const ADD_TIMEOUT_MAX: Duration = Duration::from_secs(120);

/// Who votes, who follows, and how far each of them is, as the active controller knows it.
pub(crate) fn describe(metrics: &RaftMetrics<NodeId, Member>, members: &Members) -> v1::DescribeQuorumReply {
    let membership = metrics.membership_config.membership();
    let last = metrics.last_log_index;
    let now_ms = time::unix_ms();
    let member = |id: NodeId| {
        let is_leader = id == metrics.id;
        let has = if is_leader { last } else { matched(metrics, id) };
        let heard = if is_leader { Some(now_ms) } else { members.contact(id).map(|contact| contact.unix_ms) };
        v1::QuorumMember {
            id: id.controller,
            directory_id: id_to_bytes(id.directory()),
            address: membership.get_node(&id).map(|member| member.address.clone()).unwrap_or_default(),
            log_end: has.map(|index| index + 1),
            last_heard_ms: heard,
            last_caught_up_ms: heard.filter(|_| has >= last),
        }
    };
    let is_voter = |id: &NodeId| membership.voter_ids().any(|voter| voter == *id);
    let observers = membership.nodes().map(|(id, _)| *id).filter(|id| !is_voter(id));
    v1::DescribeQuorumReply {
        format_version: RPC_VERSION,
        refusal: None,
        active: active(metrics).map(address),
        term: metrics.current_term,
        committed_log_end: metrics.last_applied.map_or(0, |log_id| log_id.index + 1),
        voters: membership.voter_ids().map(member).collect(),
        observers: observers.map(member).collect(),
    }
}

fn node(key: Option<&v1::VoterKey>) -> Result<NodeId, FormatError> {
    let what = "a change of voters";
    let key = required(what, "key", key)?;
    Ok(NodeId::new(key.id, id_from_bytes(what, "directory_id", &key.directory_id)?))
}

/// Carries out a change of the voters.
pub(crate) async fn change_voters(members: &Members, request: &v1::ChangeVotersRequest) -> Result<(), MemberError> {
    use v1::change_voters_request::Change;
    match required("a change of voters", "change", request.change.as_ref())? {
        Change::Remove(key) => members.remove_voter(node(Some(key))?).await,
        Change::Add(new) => {
            let patience = Duration::from_millis(u64::from(new.timeout_ms)).min(ADD_TIMEOUT_MAX);
            members.add_voter(node(new.key.as_ref())?, new.address.clone(), patience).await
        }
    }
}
