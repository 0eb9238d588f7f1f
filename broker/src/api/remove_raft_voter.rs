//! RemoveRaftVoter: a controller loses its vote (KIP-853).

use taffrail_core::control::ControlError;
use taffrail_protocol::message::{RemoveRaftVoterRequest, RemoveRaftVoterResponse, from_wire_id};
use taffrail_protocol::rpc::{VoterChange, VoterId};

use super::add_raft_voter::check_cluster;
use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: RemoveRaftVoterRequest,
    _version: i16,
) -> RemoveRaftVoterResponse {
    let (code, message) = wire::outcome(&remove(broker, &request).await);
    RemoveRaftVoterResponse::default().with_error_code(code).with_error_message(message)
}

async fn remove(broker: &Broker, request: &RemoveRaftVoterRequest) -> Result<(), ControlError> {
    check_cluster(broker, request.cluster_id.as_ref())?;
    let voter = VoterId { id: request.voter_id, directory_id: from_wire_id(request.voter_directory_id) };
    broker.controller.change_voters(VoterChange::Remove(voter)).await
}
