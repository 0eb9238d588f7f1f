//! LeaveGroup: one member by itself, or many by an administrator (KIP-345).

use taffrail_core::errors::ErrorCode;
use taffrail_core::group::{LeaveReply, LeaveRequest, LeavingMember, Reply};
use taffrail_protocol::message::leave_group_response::MemberResponse;
use taffrail_protocol::message::{LeaveGroupRequest, LeaveGroupResponse};

use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

/// The first version that names several members.
const MANY_MEMBERS_SINCE: i16 = 3;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: LeaveGroupRequest,
    version: i16,
) -> LeaveGroupResponse {
    let reply = match leave(broker, request, version).await {
        Ok(reply) => reply,
        Err(error) => LeaveReply { error, members: Vec::new() },
    };
    if version < MANY_MEMBERS_SINCE {
        let of_member = reply.members.first().map_or(ErrorCode::None, |(_, _, error)| *error);
        let error = if reply.error.is_none() { of_member } else { reply.error };
        return LeaveGroupResponse::default().with_error_code(error.code());
    }
    let member = |(member_id, instance_id, error): (String, Option<String>, ErrorCode)| {
        MemberResponse::default()
            .with_member_id(wire::text(&member_id))
            .with_group_instance_id(instance_id.as_deref().map(wire::text))
            .with_error_code(error.code())
    };
    LeaveGroupResponse::default()
        .with_error_code(reply.error.code())
        .with_members(reply.members.into_iter().map(member).collect())
}

async fn leave(broker: &Broker, request: LeaveGroupRequest, version: i16) -> Result<LeaveReply, ErrorCode> {
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let members = if version < MANY_MEMBERS_SINCE {
        vec![LeavingMember { member_id: request.member_id.to_string(), instance_id: None }]
    } else {
        let member = |member: &taffrail_protocol::message::leave_group_request::MemberIdentity| LeavingMember {
            member_id: member.member_id.to_string(),
            instance_id: member.group_instance_id.as_deref().map(str::to_owned),
        };
        request.members.iter().map(member).collect()
    };
    let shard = broker.groups.shard(&request.group_id)?;
    let request = LeaveRequest { waiter: 0, group_id: request.group_id.to_string(), members };
    match shard.ask(|machine, now, waiter| machine.leave(now, &LeaveRequest { waiter, ..request })).await? {
        Reply::Leave(reply) => Ok(reply),
        _ => Err(ErrorCode::UnknownServerError),
    }
}
