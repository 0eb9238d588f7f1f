//! CreatePartitions: decided by the controller, answered when this broker serves the partitions.

use std::sync::Arc;

use taffrail_core::control::{Command, CreatePartitions, NewPartitions, Outcome, Reply};
use taffrail_core::ids::BrokerId;
use taffrail_protocol::message::create_partitions_request::CreatePartitionsTopic;
use taffrail_protocol::message::create_partitions_response::CreatePartitionsTopicResult;
use taffrail_protocol::message::{CreatePartitionsRequest, CreatePartitionsResponse};

use super::wire;
use crate::broker::{self, Broker};
use crate::client_info::ClientInfo;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: CreatePartitionsRequest,
    _version: i16,
) -> CreatePartitionsResponse {
    let topics: Vec<NewPartitions> = request.topics.iter().map(new_partitions).collect();
    let names: Vec<Arc<str>> = topics.iter().map(|topic| Arc::clone(&topic.name)).collect();
    let command = CreatePartitions { topics, validate_only: request.validate_only };
    let reply = broker.propose(Command::CreatePartitions(command), wire::deadline(request.timeout_ms)).await;
    let outcomes: Vec<(Arc<str>, Outcome<()>)> = match reply {
        Ok(Reply::PartitionsCreated(outcomes)) => outcomes,
        other => {
            let error = broker::refusal(other);
            names.into_iter().map(|name| (name, Err(error.clone()))).collect()
        }
    };
    let entry = |(name, outcome): (Arc<str>, Outcome<()>)| {
        let (code, message) = wire::outcome(&outcome);
        CreatePartitionsTopicResult::default()
            .with_name(wire::topic_name(&name))
            .with_error_code(code)
            .with_error_message(message)
    };
    CreatePartitionsResponse::default().with_results(outcomes.into_iter().map(entry).collect())
}

fn new_partitions(topic: &CreatePartitionsTopic) -> NewPartitions {
    let assignments = topic.assignments.as_ref().map(|assignments| {
        let ids = assignments.iter().map(|it| it.broker_ids.iter().map(|id| BrokerId(id.0)).collect());
        ids.collect()
    });
    NewPartitions { name: wire::shared(&topic.name), count: topic.count, assignments }
}
