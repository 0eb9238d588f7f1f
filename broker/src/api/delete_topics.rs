//! DeleteTopics: decided by the controller, answered when this broker has let the topics go.

use std::sync::Arc;

use taffrail_core::control::{Command, DeleteTopics, DeletedTopic, Reply, TopicRef};
use taffrail_core::ids::Uuid;
use taffrail_protocol::message::delete_topics_response::DeletableTopicResult;
use taffrail_protocol::message::{DeleteTopicsRequest, DeleteTopicsResponse, from_wire_id, to_wire_id};

use super::wire;
use crate::broker::{self, Broker};
use crate::client_info::ClientInfo;

/// The first version that can name topics by id.
const TOPIC_IDS_SINCE: i16 = 6;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: DeleteTopicsRequest,
    version: i16,
) -> DeleteTopicsResponse {
    let topics: Vec<TopicRef> = if version >= TOPIC_IDS_SINCE {
        let topic = |topic: &taffrail_protocol::message::delete_topics_request::DeleteTopicState| TopicRef {
            name: topic.name.as_ref().map(|name| wire::shared(name)),
            id: from_wire_id(topic.topic_id),
        };
        request.topics.iter().map(topic).collect()
    } else {
        request.topic_names.iter().map(|name| TopicRef { name: Some(wire::shared(name)), id: Uuid::ZERO }).collect()
    };
    let command = Command::DeleteTopics(DeleteTopics { topics: topics.clone() });
    let deleted = match broker.propose(command, wire::deadline(request.timeout_ms)).await {
        Ok(Reply::TopicsDeleted(deleted)) => deleted,
        other => {
            let error = broker::refusal(other);
            let failed = |topic: TopicRef| DeletedTopic { name: topic.name, id: topic.id, outcome: Err(error.clone()) };
            topics.into_iter().map(failed).collect()
        }
    };
    let entry = |deleted: DeletedTopic| {
        let (code, message) = wire::outcome(&deleted.outcome);
        DeletableTopicResult::default()
            .with_name(deleted.name.as_ref().map(|name: &Arc<str>| wire::topic_name(name)))
            .with_topic_id(to_wire_id(deleted.id))
            .with_error_code(code)
            .with_error_message(message)
    };
    DeleteTopicsResponse::default().with_responses(deleted.into_iter().map(entry).collect())
}
