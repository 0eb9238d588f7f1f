//! CreateTopics: decided by the controller, answered when this broker serves the topics.

use std::sync::Arc;

use taffrail_core::config::{Overrides, describe_topic};
use taffrail_core::control::{
    Command, ControlError, CreateTopics, CreatedTopic, NewTopic, Outcome, ReplicaAssignment, Reply,
};
use taffrail_core::ids::BrokerId;
use taffrail_protocol::message::create_topics_request::CreatableTopic;
use taffrail_protocol::message::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use taffrail_protocol::message::{CreateTopicsRequest, CreateTopicsResponse, to_wire_id};

use super::wire;
use crate::broker::{self, Broker};
use crate::client_info::ClientInfo;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: CreateTopicsRequest,
    _version: i16,
) -> CreateTopicsResponse {
    let topics: Vec<NewTopic> = request.topics.iter().map(new_topic).collect();
    let command = CreateTopics { topics: topics.clone(), validate_only: request.validate_only };
    let reply = broker.propose(Command::CreateTopics(command), wire::deadline(request.timeout_ms)).await;
    let outcomes = match reply {
        Ok(Reply::TopicsCreated(outcomes)) => outcomes,
        other => {
            let error = broker::refusal(other);
            topics.iter().map(|topic| (Arc::clone(&topic.name), Err(error.clone()))).collect()
        }
    };
    let entry = |(name, outcome): (Arc<str>, Outcome<CreatedTopic>)| {
        let asked = topics.iter().find(|topic| topic.name == name);
        topic_entry(broker, &name, &outcome, asked, request.validate_only)
    };
    CreateTopicsResponse::default().with_topics(outcomes.into_iter().map(entry).collect())
}

fn new_topic(topic: &CreatableTopic) -> NewTopic {
    let assignment = |assignment: &taffrail_protocol::message::create_topics_request::CreatableReplicaAssignment| {
        ReplicaAssignment {
            partition: assignment.partition_index,
            replicas: assignment.broker_ids.iter().map(|id| BrokerId(id.0)).collect(),
        }
    };
    let config = |config: &taffrail_protocol::message::create_topics_request::CreatableTopicConfig| {
        (wire::shared(&config.name), config.value.as_ref().map(wire::shared))
    };
    NewTopic {
        name: wire::shared(&topic.name),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: topic.assignments.iter().map(assignment).collect(),
        configs: topic.configs.iter().map(config).collect(),
        id: None,
    }
}

fn topic_entry(
    broker: &Broker,
    name: &str,
    outcome: &Result<CreatedTopic, ControlError>,
    asked: Option<&NewTopic>,
    validate_only: bool,
) -> CreatableTopicResult {
    let (code, message) = wire::outcome(outcome);
    let result = CreatableTopicResult::default()
        .with_name(wire::topic_name(name))
        .with_error_code(code)
        .with_error_message(message);
    let Ok(created) = outcome else { return result };
    let overrides: Overrides = asked
        .iter()
        .flat_map(|topic| &topic.configs)
        .filter_map(|(name, value)| Some((name.to_string(), value.as_ref()?.to_string())))
        .collect();
    let result = result
        .with_num_partitions(created.partitions)
        .with_replication_factor(created.replication_factor)
        .with_configs(Some(configs(broker, &overrides)));
    if validate_only { result } else { result.with_topic_id(to_wire_id(created.id)) }
}

/// The settings that the topic has, with all the defaults (KIP-525).
fn configs(broker: &Broker, overrides: &Overrides) -> Vec<CreatableTopicConfigs> {
    let layers = broker.layers.load();
    let entry = |described: taffrail_core::config::Described| {
        CreatableTopicConfigs::default()
            .with_name(wire::text(described.setting.name))
            .with_value(described.value.as_deref().map(wire::text))
            .with_read_only(false)
            .with_config_source(described.source as i8)
            .with_is_sensitive(described.setting.sensitive())
    };
    describe_topic(overrides, &layers).map(entry).collect()
}
