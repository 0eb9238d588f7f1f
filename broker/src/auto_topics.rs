//! Topics that come to be because somebody asks for them: a client's topics by Metadata, and the internal ones by the
//! coordinators that need them.

use std::collections::BTreeMap;
use std::sync::Arc;

use taffrail_core::config::BrokerConfig;
use taffrail_core::control::{Command, CreateTopics, NewTopic, Reply};
use taffrail_core::errors::ErrorCode;
use taffrail_core::topic_name;

use crate::api::wire;
use crate::broker::Broker;

/// How long an answer waits for a new topic to be served here. The client is told to ask again in any case.
const VISIBLE_WAIT_MS: i32 = 1_000;

/// Creates topics with the broker's defaults, or the fixed settings of internal ones, and waits until this broker serves
/// them. Tells for each that could not be created what its client is to be told; one that exists already is no error.
pub(crate) async fn create(broker: &Broker, names: &[Arc<str>]) -> BTreeMap<Arc<str>, ErrorCode> {
    let config = broker.config.load();
    let topics = names.iter().map(|name| new_topic(name, &config)).collect();
    drop(config);
    let command = Command::CreateTopics(CreateTopics { topics, validate_only: false });
    let unavailable = || names.iter().map(|name| (Arc::clone(name), ErrorCode::UnknownTopicOrPartition)).collect();
    match broker.propose(command, wire::deadline(VISIBLE_WAIT_MS)).await {
        Ok(Reply::TopicsCreated(outcomes)) => outcomes
            .into_iter()
            .filter_map(|(name, outcome)| match outcome.err()?.code {
                ErrorCode::TopicAlreadyExists => None,
                ErrorCode::InvalidTopicException => Some((name, ErrorCode::InvalidTopicException)),
                _ => Some((name, ErrorCode::UnknownTopicOrPartition)),
            })
            .collect(),
        Ok(_) => unavailable(),
        Err(error) => {
            tracing::warn!(%error, "topics could not be created on request of a client");
            unavailable()
        }
    }
}

fn new_topic(name: &Arc<str>, config: &BrokerConfig) -> NewTopic {
    let min_isr = |replicas: i32| ("min.insync.replicas", replicas.to_string());
    let (partitions, replication_factor, settings) = match &**name {
        topic_name::CONSUMER_OFFSETS => (
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            vec![
                ("cleanup.policy", "compact".to_owned()),
                ("segment.bytes", config.offsets_topic_segment_bytes.to_string()),
                ("compression.type", "producer".to_owned()),
            ],
        ),
        topic_name::TRANSACTION_STATE => (
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            vec![
                ("cleanup.policy", "compact".to_owned()),
                ("segment.bytes", config.transaction_state_log_segment_bytes.to_string()),
                ("compression.type", "uncompressed".to_owned()),
                min_isr(config.transaction_state_log_min_isr),
                ("unclean.leader.election.enable", "false".to_owned()),
            ],
        ),
        // Its coordinator cuts it by deleting records.
        topic_name::SHARE_GROUP_STATE => (
            config.share_coordinator_state_topic_num_partitions,
            config.share_coordinator_state_topic_replication_factor,
            vec![
                ("cleanup.policy", "delete".to_owned()),
                ("segment.bytes", config.share_coordinator_state_topic_segment_bytes.to_string()),
                ("compression.type", "producer".to_owned()),
                min_isr(config.share_coordinator_state_topic_min_isr),
                ("retention.ms", "-1".to_owned()),
            ],
        ),
        _ => return NewTopic::new(Arc::clone(name)),
    };
    NewTopic {
        configs: settings.into_iter().map(|(name, value)| (Arc::from(name), Some(Arc::from(value)))).collect(),
        ..NewTopic::sized(Arc::clone(name), partitions, replication_factor)
    }
}
