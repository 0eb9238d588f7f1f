//! SyncGroup.

use bytes::Bytes;
use taffrail_core::errors::ErrorCode;
use taffrail_core::group::{Reply, SyncReply, SyncRequest};
use taffrail_protocol::message::{SyncGroupRequest, SyncGroupResponse};

use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

/// The first version in which both sides name the protocol.
const PROTOCOL_SINCE: i16 = 5;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: SyncGroupRequest,
    version: i16,
) -> SyncGroupResponse {
    match sync(broker, request, version).await {
        Ok(reply) => response(&reply, version),
        Err(error) => SyncGroupResponse::default().with_error_code(error.code()),
    }
}

async fn sync(broker: &Broker, request: SyncGroupRequest, version: i16) -> Result<SyncReply, ErrorCode> {
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    if version >= PROTOCOL_SINCE && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return Err(ErrorCode::InconsistentGroupProtocol);
    }
    let shard = broker.groups.shard(&request.group_id)?;
    let request = SyncRequest {
        waiter: 0,
        group_id: request.group_id.to_string(),
        generation: request.generation_id,
        member_id: request.member_id.to_string(),
        instance_id: request.group_instance_id.as_deref().map(str::to_owned),
        protocol_type: request.protocol_type.as_deref().map(str::to_owned),
        protocol_name: request.protocol_name.as_deref().map(str::to_owned),
        assignments: request
            .assignments
            .into_iter()
            // Copies: slices would keep the frame that they came in for as long as the generation lives.
            .map(|member| (member.member_id.to_string(), Bytes::copy_from_slice(&member.assignment)))
            .collect(),
    };
    match shard.ask(|machine, now, waiter| machine.sync(now, SyncRequest { waiter, ..request })).await? {
        Reply::Sync(reply) => Ok(reply),
        _ => Err(ErrorCode::UnknownServerError),
    }
}

fn response(reply: &SyncReply, version: i16) -> SyncGroupResponse {
    let response =
        SyncGroupResponse::default().with_error_code(reply.error.code()).with_assignment(reply.assignment.clone());
    if version < PROTOCOL_SINCE {
        return response;
    }
    response
        .with_protocol_type(reply.protocol_type.as_deref().map(wire::text))
        .with_protocol_name(reply.protocol_name.as_deref().map(wire::text))
}
