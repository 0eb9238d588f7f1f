//! AddRaftVoter: one more controller gets a vote (KIP-853).

use std::time::Duration;

use taffrail_core::control::ControlError;
use taffrail_core::errors::ErrorCode;
use taffrail_protocol::message::{AddRaftVoterRequest, AddRaftVoterResponse, StrBytes, from_wire_id};
use taffrail_protocol::rpc::{VoterChange, VoterId};

use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: AddRaftVoterRequest,
    _version: i16,
) -> AddRaftVoterResponse {
    let (code, message) = wire::outcome(&add(broker, &request).await);
    AddRaftVoterResponse::default().with_error_code(code).with_error_message(message)
}

async fn add(broker: &Broker, request: &AddRaftVoterRequest) -> Result<(), ControlError> {
    check_cluster(broker, request.cluster_id.as_ref())?;
    let listener = request.listeners.first().ok_or_else(|| {
        ControlError::new(ErrorCode::InvalidRequest, "The request names no endpoint of the new voter.")
    })?;
    let host = &*listener.host;
    let address =
        if host.contains(':') { format!("[{host}]:{}", listener.port) } else { format!("{host}:{}", listener.port) };
    let voter = VoterId { id: request.voter_id, directory_id: from_wire_id(request.voter_directory_id) };
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or_default());
    broker.controller.change_voters(VoterChange::Add { voter, address, timeout }).await
}

/// Refuses what is meant for another cluster.
pub(super) fn check_cluster(broker: &Broker, theirs: Option<&StrBytes>) -> Result<(), ControlError> {
    let ours = broker.metadata.image().cluster_id().unwrap_or_default().to_string();
    match theirs {
        Some(theirs) if **theirs != *ours => {
            let text = format!("The request is for cluster {}, but this is cluster {ours}.", &**theirs);
            Err(ControlError::new(ErrorCode::InconsistentClusterId, text))
        }
        _ => Ok(()),
    }
}
