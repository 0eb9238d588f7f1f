//! Small conversions between our values and those of messages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use taffrail_core::control::{ControlError, PartitionOutcome};
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::{BrokerRegistration, Listener};
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::data::NodeEndpoint;
use taffrail_protocol::message::{BrokerId as WireBrokerId, StrBytes, TopicName};
use taffrail_runtime::time;

/// What everyone may do with a topic while there is no authorizer, as bits by Kafka's `AclOperation`: read, write, create,
/// delete, alter, describe, describe configs, alter configs.
pub(crate) const TOPIC_OPERATIONS: i32 = 0b1101_1111_1000;
/// The same for the cluster: create, alter, describe, cluster action, describe configs, alter configs, idempotent write.
pub(crate) const CLUSTER_OPERATIONS: i32 = 0b1_1111_1010_0000;
/// Stands for operations that were not asked for.
pub(crate) const NO_OPERATIONS: i32 = i32::MIN;
/// Longest time that a request may wait for its effect, whatever it says.
const TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// A text in a message.
pub(crate) fn text(value: &str) -> StrBytes {
    StrBytes::from(value.to_owned())
}

/// A topic's name in a message.
pub(crate) fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

/// A name from a message, free of the frame that it came in.
pub(crate) fn shared(value: &StrBytes) -> Arc<str> {
    Arc::from(&**value)
}

/// Ids of brokers in a message.
pub(crate) fn broker_ids(ids: &[BrokerId]) -> Vec<WireBrokerId> {
    ids.iter().map(|id| WireBrokerId(id.0)).collect()
}

/// The moment at which a request that came now and has this timeout must be answered.
pub(crate) fn deadline(timeout_ms: i32) -> time::Instant {
    time::monotonic() + Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0)).min(TIMEOUT_MAX)
}

/// Where clients of a listener reach a broker.
pub(crate) fn endpoint<'a>(broker: &'a BrokerRegistration, listener: &str) -> Option<&'a Listener> {
    broker.listeners.iter().find(|known| &*known.name == listener)
}

/// Where clients of a listener reach the leader that an answer names.
pub(crate) fn node_endpoint(image: &MetadataImage, leader: BrokerId, listener: &str) -> Option<NodeEndpoint> {
    let broker = image.broker(leader)?;
    let endpoint = endpoint(broker, listener)?;
    Some(NodeEndpoint {
        node_id: leader.0,
        host: text(&endpoint.host),
        port: i32::from(endpoint.port),
        rack: broker.rack.as_deref().map(text),
    })
}

/// A broker that clients may take for the controller: any that lives will pass their requests on.
pub(crate) fn controller_id(image: &MetadataImage, own: BrokerId) -> WireBrokerId {
    if image.is_active(own) {
        return WireBrokerId(own.0);
    }
    let active = image.brokers().values().find(|broker| !broker.fenced);
    WireBrokerId(active.map_or(-1, |broker| broker.id.0))
}

/// Outcomes by topic, as answers have them. Each topic stands where it was first.
pub(crate) fn by_topic(outcomes: Vec<PartitionOutcome>) -> Vec<(Arc<str>, Vec<PartitionOutcome>)> {
    let mut topics: Vec<(Arc<str>, Vec<PartitionOutcome>)> = Vec::new();
    let mut places: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    for outcome in outcomes {
        let place = *places.entry(Arc::clone(&outcome.topic)).or_insert(topics.len());
        if place == topics.len() {
            topics.push((Arc::clone(&outcome.topic), Vec::new()));
        }
        topics[place].1.push(outcome);
    }
    topics
}

/// Code and text of an outcome.
pub(crate) fn outcome<T>(outcome: &Result<T, ControlError>) -> (i16, Option<StrBytes>) {
    match outcome {
        Ok(_) => (ErrorCode::None.code(), None),
        Err(error) => (error.code.code(), error.message.as_deref().map(text)),
    }
}
