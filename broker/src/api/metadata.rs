//! Metadata: brokers, topics, and who leads what.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use taffrail_core::errors::ErrorCode;
use taffrail_core::event::PartitionState;
use taffrail_core::ids::{BrokerId, PartitionIndex, TopicId};
use taffrail_core::image::{MetadataImage, TopicImage};
use taffrail_core::topic_name;
use taffrail_protocol::message::metadata_request::MetadataRequestTopic;
use taffrail_protocol::message::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use taffrail_protocol::message::{BrokerId as WireBrokerId, MetadataRequest, MetadataResponse};
use taffrail_protocol::message::{from_wire_id, to_wire_id};

use super::wire;
use crate::auto_topics;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

/// The first version that can name topics by id alone.
const TOPIC_IDS_SINCE: i16 = 12;

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    All,
    Names(Vec<Arc<str>>),
    Ids(Vec<TopicId>),
}

pub(crate) async fn handle(
    broker: &Broker,
    client: &ClientInfo,
    request: MetadataRequest,
    version: i16,
) -> MetadataResponse {
    let asked = match asked(&request, version) {
        Ok(asked) => asked,
        Err(error) => return refused(&request, error),
    };
    // As in Kafka, this answer still says that the topics are unknown: it is of the image from before.
    let image = broker.metadata.image();
    let created = match &asked {
        Asked::Names(names) if request.allow_auto_topic_creation || version < 4 => {
            create_missing(broker, &image, names).await
        }
        _ => BTreeMap::new(),
    };
    let include = request.include_topic_authorized_operations;
    let topics = topics(&image, &asked, &created).into_iter().map(|topic| match include {
        true => topic.with_topic_authorized_operations(wire::TOPIC_OPERATIONS),
        false => topic,
    });
    let cluster_operations =
        if request.include_cluster_authorized_operations { wire::CLUSTER_OPERATIONS } else { wire::NO_OPERATIONS };
    MetadataResponse::default()
        .with_brokers(brokers(&image, &client.listener))
        .with_cluster_id(image.cluster_id().map(|id| wire::text(&id.to_string())))
        .with_controller_id(wire::controller_id(&image, broker.id))
        .with_topics(topics.collect())
        .with_cluster_authorized_operations(cluster_operations)
}

/// Reads what is asked for. As in Kafka, ids win over names.
fn asked(request: &MetadataRequest, version: i16) -> Result<Asked, ErrorCode> {
    let Some(topics) = &request.topics else { return Ok(Asked::All) };
    if topics.is_empty() && version == 0 {
        return Ok(Asked::All);
    }
    if version < TOPIC_IDS_SINCE && topics.iter().any(|topic| topic.name.is_none() || !topic.topic_id.is_nil()) {
        return Err(ErrorCode::InvalidRequest);
    }
    let ids: BTreeSet<TopicId> =
        topics.iter().map(|topic| from_wire_id(topic.topic_id)).filter(|id| !id.is_zero()).collect();
    if !ids.is_empty() {
        return Ok(Asked::Ids(ids.into_iter().collect()));
    }
    let mut seen = BTreeSet::new();
    let mut names = Vec::with_capacity(topics.len());
    for topic in topics {
        let name = topic.name.as_ref().ok_or(ErrorCode::UnknownServerError)?;
        if seen.insert(&**name) {
            names.push(wire::shared(name));
        }
    }
    Ok(Asked::Names(names))
}

/// Every topic of the request with the same error, and nothing about brokers.
fn refused(request: &MetadataRequest, error: ErrorCode) -> MetadataResponse {
    let topic = |asked: &MetadataRequestTopic| {
        MetadataResponseTopic::default()
            .with_error_code(error.code())
            .with_name(Some(asked.name.clone().unwrap_or_default()))
            .with_topic_id(asked.topic_id)
    };
    MetadataResponse::default()
        .with_controller_id(WireBrokerId(-1))
        .with_topics(request.topics.iter().flatten().map(topic).collect())
}

/// Creates the topics that do not exist, if the broker may; tells for each that it could not create why. It waits a moment,
/// so that the client finds them when it asks again.
async fn create_missing(broker: &Broker, image: &MetadataImage, names: &[Arc<str>]) -> BTreeMap<Arc<str>, ErrorCode> {
    let missing: Vec<Arc<str>> = names.iter().filter(|name| image.topic(name).is_none()).map(Arc::clone).collect();
    if missing.is_empty() || !broker.config.load().auto_create_topics_enable {
        return BTreeMap::new();
    }
    auto_topics::create(broker, &missing).await
}

fn topics(image: &MetadataImage, asked: &Asked, created: &BTreeMap<Arc<str>, ErrorCode>) -> Vec<MetadataResponseTopic> {
    match asked {
        Asked::All => image.topics().iter().map(|topic| topic_entry(image, topic)).collect(),
        Asked::Ids(ids) => ids
            .iter()
            .map(|id| match image.topic_by_id(*id) {
                Some(topic) => topic_entry(image, topic),
                None => MetadataResponseTopic::default()
                    .with_error_code(ErrorCode::UnknownTopicId.code())
                    .with_name(None)
                    .with_topic_id(to_wire_id(*id)),
            })
            .collect(),
        Asked::Names(names) => names
            .iter()
            .map(|name| match image.topic(name) {
                Some(topic) => topic_entry(image, topic),
                None => missing_entry(name, created.get(name).copied()),
            })
            .collect(),
    }
}

fn missing_entry(name: &str, error: Option<ErrorCode>) -> MetadataResponseTopic {
    let error = error.unwrap_or(match topic_name::validate(name) {
        Ok(()) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    });
    MetadataResponseTopic::default()
        .with_error_code(error.code())
        .with_name(Some(wire::topic_name(name)))
        .with_is_internal(topic_name::is_internal(name))
}

fn topic_entry(image: &MetadataImage, topic: &TopicImage) -> MetadataResponseTopic {
    let partitions = topic.numbered().map(|(index, state)| partition_entry(image, index, state));
    MetadataResponseTopic::default()
        .with_name(Some(wire::topic_name(&topic.name)))
        .with_topic_id(to_wire_id(topic.id))
        .with_is_internal(topic_name::is_internal(&topic.name))
        .with_partitions(partitions.collect())
}

fn partition_entry(image: &MetadataImage, index: PartitionIndex, state: &PartitionState) -> MetadataResponsePartition {
    let (error, leader) = leader_of(image, state);
    MetadataResponsePartition::default()
        .with_error_code(error.code())
        .with_partition_index(index)
        .with_leader_id(WireBrokerId(leader.0))
        .with_leader_epoch(state.leader_epoch)
        .with_replica_nodes(wire::broker_ids(&state.replicas))
        .with_isr_nodes(wire::broker_ids(&state.isr))
        .with_offline_replicas(wire::broker_ids(&offline_replicas(image, state)))
}

/// Who leads a partition, and the error that tells that nobody does.
pub(super) fn leader_of(image: &MetadataImage, state: &PartitionState) -> (ErrorCode, BrokerId) {
    if image.is_active(state.leader) {
        (ErrorCode::None, state.leader)
    } else {
        (ErrorCode::LeaderNotAvailable, BrokerId::NONE)
    }
}

/// Replicas on brokers that are not there.
pub(super) fn offline_replicas(image: &MetadataImage, state: &PartitionState) -> Vec<BrokerId> {
    state.replicas.iter().copied().filter(|replica| !image.is_active(*replica)).collect()
}

fn brokers(image: &MetadataImage, listener: &str) -> Vec<MetadataResponseBroker> {
    let active = image.brokers().values().filter(|broker| !broker.fenced);
    let entry = |broker: &Arc<taffrail_core::event::BrokerRegistration>| {
        let endpoint = wire::endpoint(broker, listener)?;
        let entry = MetadataResponseBroker::default()
            .with_node_id(WireBrokerId(broker.id.0))
            .with_host(wire::text(&endpoint.host))
            .with_port(i32::from(endpoint.port))
            .with_rack(broker.rack.as_deref().map(wire::text));
        Some(entry)
    };
    active.filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(topics: Option<Vec<(Option<&str>, [u8; 16])>>) -> MetadataRequest {
        let topics = topics.map(|topics| {
            let topic = |(name, id): (Option<&str>, [u8; 16])| {
                MetadataRequestTopic::default()
                    .with_name(name.map(wire::topic_name))
                    .with_topic_id(to_wire_id(taffrail_core::ids::Uuid(id)))
            };
            topics.into_iter().map(topic).collect()
        });
        MetadataRequest::default().with_topics(topics)
    }

    #[test]
    fn what_is_asked_depends_on_the_version_as_in_kafka() {
        let (none, one) = ([0; 16], [1; 16]);
        let names = |names: &[&str]| Ok(Asked::Names(names.iter().map(|name| Arc::from(*name)).collect()));
        let ids = Ok(Asked::Ids(vec![taffrail_core::ids::Uuid(one)]));
        let cases = [
            (0, Some(vec![]), Ok(Asked::All)),
            (1, Some(vec![]), names(&[])),
            (1, None, Ok(Asked::All)),
            (9, Some(vec![(Some("a"), none), (Some("b"), none), (Some("a"), none)]), names(&["a", "b"])),
            (10, Some(vec![(None, none)]), Err(ErrorCode::InvalidRequest)),
            (11, Some(vec![(Some("a"), one)]), Err(ErrorCode::InvalidRequest)),
            (12, Some(vec![(None, one)]), ids),
            (12, Some(vec![(Some("a"), one), (Some("b"), none)]), Ok(Asked::Ids(vec![taffrail_core::ids::Uuid(one)]))),
            (12, Some(vec![(None, none)]), Err(ErrorCode::UnknownServerError)),
        ];
        for (version, topics, expected) in cases {
            assert_eq!(asked(&request(topics), version), expected, "version {version}");
        }
    }
}
