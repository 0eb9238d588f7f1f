//! Heartbeat.

use taffrail_core::errors::ErrorCode;
use taffrail_core::group::HeartbeatRequest as Step;
use taffrail_protocol::message::{HeartbeatRequest, HeartbeatResponse};

use crate::broker::Broker;
use crate::client_info::ClientInfo;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: HeartbeatRequest,
    _version: i16,
) -> HeartbeatResponse {
    let step = Step {
        group_id: &request.group_id,
        generation: request.generation_id,
        member_id: &request.member_id,
        instance_id: request.group_instance_id.as_deref(),
    };
    let shard = broker.groups.shard(&request.group_id);
    let outcome = shard.and_then(|shard| shard.look(|machine, now| machine.heartbeat(now, &step)));
    let error = match outcome {
        _ if request.group_id.is_empty() => ErrorCode::InvalidGroupId,
        Ok(error) => error,
        // Sessions begin anew when the groups are loaded: the member need not be troubled.
        Err(ErrorCode::CoordinatorLoadInProgress) => ErrorCode::None,
        Err(error) => error,
    };
    HeartbeatResponse::default().with_error_code(error.code())
}
