//! AlterPartitionReassignments: decided by the controller, answered when this broker has seen it (KIP-455, KIP-860).

use std::sync::Arc;

use taffrail_core::control::{Command, PartitionOutcome, ReassignPartitions, Reassignment, Reply};
use taffrail_core::ids::BrokerId;
use taffrail_protocol::message::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use taffrail_protocol::message::{AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse};

use super::wire;
use crate::broker::{self, Broker};
use crate::client_info::ClientInfo;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: AlterPartitionReassignmentsRequest,
    _version: i16,
) -> AlterPartitionReassignmentsResponse {
    let partitions = reassignments(&request);
    let allow_replication_factor_change = request.allow_replication_factor_change;
    let command = ReassignPartitions { partitions: partitions.clone(), allow_replication_factor_change };
    let reply = broker.propose(Command::ReassignPartitions(command), wire::deadline(request.timeout_ms)).await;
    let response = AlterPartitionReassignmentsResponse::default()
        .with_allow_replication_factor_change(allow_replication_factor_change);
    let (response, outcomes) = match reply {
        Ok(Reply::PartitionsReassigned(outcomes)) => (response.with_error_message(None), outcomes),
        other => {
            // As in Kafka, every partition of the request tells it too.
            let error = broker::refusal(other);
            let refused = partitions.into_iter().map(|it| {
                let (topic, partition) = (it.topic, it.partition);
                PartitionOutcome { topic, partition, outcome: Err(error.clone()) }
            });
            let refused = refused.collect();
            let (code, message) = wire::outcome(&Err::<(), _>(error));
            (response.with_error_code(code).with_error_message(message), refused)
        }
    };
    let topic = |(topic, outcomes): (Arc<str>, Vec<PartitionOutcome>)| {
        let entry = |outcome: &PartitionOutcome| {
            let (code, message) = wire::outcome(&outcome.outcome);
            ReassignablePartitionResponse::default()
                .with_partition_index(outcome.partition)
                .with_error_code(code)
                .with_error_message(message)
        };
        ReassignableTopicResponse::default()
            .with_name(wire::topic_name(&topic))
            .with_partitions(outcomes.iter().map(entry).collect())
    };
    response.with_responses(wire::by_topic(outcomes).into_iter().map(topic).collect())
}

fn reassignments(request: &AlterPartitionReassignmentsRequest) -> Vec<Reassignment> {
    let moved = request.topics.iter().flat_map(|topic| {
        let name = wire::shared(&topic.name);
        topic.partitions.iter().map(move |partition| Reassignment {
            topic: Arc::clone(&name),
            partition: partition.partition_index,
            replicas: partition.replicas.as_ref().map(|replicas| replicas.iter().map(|id| BrokerId(id.0)).collect()),
        })
    });
    moved.collect()
}
