//! JoinGroup.

use std::fmt::Write as _;

use taffrail_core::errors::ErrorCode;
use taffrail_core::group::{JoinReply, JoinRequest, Protocol, Reply};
use taffrail_protocol::message::join_group_response::JoinGroupResponseMember;
use taffrail_protocol::message::{JoinGroupRequest, JoinGroupResponse, StrBytes};
use taffrail_runtime::random;

use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

/// The first version with a rebalance timeout of its own; before, it is the session timeout.
const REBALANCE_TIMEOUT_SINCE: i16 = 1;
/// The first version whose clients join again with the id that they are given (KIP-394).
const KNOWN_MEMBER_ID_SINCE: i16 = 4;
/// The first version with the protocol's type, and with null for no protocol.
const PROTOCOL_TYPE_SINCE: i16 = 7;
/// The first version whose clients understand that an assignment stands (KIP-814).
const SKIP_ASSIGNMENT_SINCE: i16 = 9;

pub(crate) async fn handle(
    broker: &Broker,
    client: &ClientInfo,
    request: JoinGroupRequest,
    version: i16,
) -> JoinGroupResponse {
    let member_id = request.member_id.clone();
    let outcome = match broker.groups.shard(&request.group_id) {
        _ if request.group_id.is_empty() => Err(ErrorCode::InvalidGroupId),
        Ok(shard) => {
            let request = to_step(client, request, version);
            shard.ask(|machine, now, waiter| machine.join(now, &JoinRequest { waiter, ..request })).await
        }
        Err(error) => Err(error),
    };
    match outcome {
        Ok(Reply::Join(reply)) => response(reply, version),
        Ok(_) => refused(ErrorCode::UnknownServerError, member_id, version),
        Err(error) => refused(error, member_id, version),
    }
}

fn to_step(client: &ClientInfo, request: JoinGroupRequest, version: i16) -> JoinRequest {
    let name = request.group_instance_id.as_deref().unwrap_or(&client.client_id);
    let rebalance_timeout_ms =
        if version < REBALANCE_TIMEOUT_SINCE { request.session_timeout_ms } else { request.rebalance_timeout_ms };
    JoinRequest {
        waiter: 0,
        group_id: request.group_id.to_string(),
        member_id: request.member_id.to_string(),
        instance_id: request.group_instance_id.as_deref().map(str::to_owned),
        new_member_id: format!("{name}-{}", random_uuid()),
        client_id: client.client_id.to_string(),
        client_host: client.host(),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms,
        protocol_type: request.protocol_type.to_string(),
        protocols: request
            .protocols
            .into_iter()
            // Copies: slices would keep the frame that they came in for as long as the member lives.
            .map(|protocol| Protocol {
                name: protocol.name.to_string(),
                metadata: bytes::Bytes::copy_from_slice(&protocol.metadata),
            })
            .collect(),
        requires_known_member_id: version >= KNOWN_MEMBER_ID_SINCE,
        supports_skipping_assignment: version >= SKIP_ASSIGNMENT_SINCE,
    }
}

/// A random (version 4) UUID, written as Java does.
fn random_uuid() -> String {
    let mut bytes = [0; 16];
    random::fill(&mut bytes);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn refused(error: ErrorCode, member_id: StrBytes, version: i16) -> JoinGroupResponse {
    JoinGroupResponse::default()
        .with_error_code(error.code())
        .with_generation_id(-1)
        .with_protocol_name(protocol_name(None, version))
        .with_member_id(member_id)
}

fn protocol_name(name: Option<&str>, version: i16) -> Option<StrBytes> {
    match name {
        None if version < PROTOCOL_TYPE_SINCE => Some(StrBytes::default()),
        name => name.map(wire::text),
    }
}

fn response(reply: JoinReply, version: i16) -> JoinGroupResponse {
    let member = |member: taffrail_core::group::JoinedMember| {
        JoinGroupResponseMember::default()
            .with_member_id(wire::text(&member.member_id))
            .with_group_instance_id(member.instance_id.as_deref().map(wire::text))
            .with_metadata(member.metadata)
    };
    let response = JoinGroupResponse::default()
        .with_error_code(reply.error.code())
        .with_generation_id(reply.generation)
        .with_protocol_name(protocol_name(reply.protocol_name.as_deref(), version))
        .with_leader(wire::text(&reply.leader))
        .with_member_id(wire::text(&reply.member_id))
        .with_members(reply.members.into_iter().map(member).collect());
    let response = match version {
        PROTOCOL_TYPE_SINCE.. => response.with_protocol_type(reply.protocol_type.as_deref().map(wire::text)),
        _ => response,
    };
    if version >= SKIP_ASSIGNMENT_SINCE { response.with_skip_assignment(reply.skip_assignment) } else { response }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ids_look_as_javas_do() {
        let id = random_uuid();
        let parts: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(id.as_bytes()[14], b'4');
        assert_ne!(id, random_uuid());
    }
}
