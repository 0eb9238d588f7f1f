//! ElectLeaders: decided by the controller, answered when this broker has seen it (KIP-460).

use std::sync::Arc;

use taffrail_core::control::{Command, ControlError, ElectLeaders, ElectionKind, PartitionOutcome, Reply};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::PartitionIndex;
use taffrail_protocol::message::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use taffrail_protocol::message::{ElectLeadersRequest, ElectLeadersResponse};

use super::wire;
use crate::broker::{self, Broker};
use crate::client_info::ClientInfo;

/// The first version that can tell that the request as a whole failed.
const ERROR_SINCE: i16 = 1;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: ElectLeadersRequest,
    version: i16,
) -> ElectLeadersResponse {
    let partitions = partitions(&request);
    let outcomes = elect(broker, &request, partitions.clone()).await;
    let (error, outcomes) = match outcomes {
        Ok(outcomes) => (ErrorCode::None, outcomes),
        // As in Kafka, every partition of the request tells it too.
        Err(error) => (error.code, refused(partitions.unwrap_or_default(), &error)),
    };
    let topic = |(topic, outcomes): (Arc<str>, Vec<PartitionOutcome>)| {
        let entry = |outcome: &PartitionOutcome| {
            let (code, message) = wire::outcome(&outcome.outcome);
            PartitionResult::default()
                .with_partition_id(outcome.partition)
                .with_error_code(code)
                .with_error_message(message)
        };
        ReplicaElectionResult::default()
            .with_topic(wire::topic_name(&topic))
            .with_partition_result(outcomes.iter().map(entry).collect())
    };
    ElectLeadersResponse::default()
        .with_error_code(if version >= ERROR_SINCE { error.code() } else { ErrorCode::None.code() })
        .with_replica_election_results(wire::by_topic(outcomes).into_iter().map(topic).collect())
}

async fn elect(
    broker: &Broker,
    request: &ElectLeadersRequest,
    partitions: Option<Vec<(Arc<str>, PartitionIndex)>>,
) -> Result<Vec<PartitionOutcome>, ControlError> {
    let unknown = || {
        let text = format!("Unknown election type {}", request.election_type);
        ControlError::new(ErrorCode::InvalidRequest, text)
    };
    let kind = ElectionKind::from_code(request.election_type).ok_or_else(unknown)?;
    let command = Command::ElectLeaders(ElectLeaders { kind, partitions });
    match broker.propose(command, wire::deadline(request.timeout_ms)).await {
        Ok(Reply::LeadersElected(outcomes)) => Ok(outcomes),
        other => Err(broker::refusal(other)),
    }
}

/// What is asked for; `None` = all partitions.
fn partitions(request: &ElectLeadersRequest) -> Option<Vec<(Arc<str>, PartitionIndex)>> {
    let topics = request.topic_partitions.as_ref()?;
    let named = topics.iter().flat_map(|topic| {
        let name = wire::shared(&topic.topic);
        topic.partitions.iter().map(move |partition| (Arc::clone(&name), *partition))
    });
    Some(named.collect())
}

fn refused(partitions: Vec<(Arc<str>, PartitionIndex)>, error: &ControlError) -> Vec<PartitionOutcome> {
    let refused = partitions.into_iter();
    refused.map(|(topic, partition)| PartitionOutcome { topic, partition, outcome: Err(error.clone()) }).collect()
}
