//! DescribeQuorum: who keeps the metadata, and how far each of them is (KIP-595, KIP-853).

use taffrail_core::control::ControlError;
use taffrail_core::errors::ErrorCode;
use taffrail_protocol::message::describe_quorum_response::{Listener, Node, PartitionData, ReplicaState, TopicData};
use taffrail_protocol::message::{
    BrokerId as WireBrokerId, DescribeQuorumRequest, DescribeQuorumResponse, describe_quorum_request, to_wire_id,
};
use taffrail_protocol::rpc::{Quorum, QuorumMember};

use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

/// The topic under which Kafka's clients know the log of metadata.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// Name under which the address of a controller is listed.
const LISTENER: &str = "CONTROLLER";

/// First version that tells directories and addresses.
const WITH_DIRECTORIES: i16 = 2;

/// Stands for an offset or a time that is not known.
const UNKNOWN: i64 = -1;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: DescribeQuorumRequest,
    version: i16,
) -> DescribeQuorumResponse {
    let asks_for_metadata = |topic: &describe_quorum_request::TopicData| {
        *topic.topic_name == *METADATA_TOPIC
            && matches!(topic.partitions.as_slice(), [partition] if partition.partition_index == 0)
    };
    if !matches!(request.topics.as_slice(), [topic] if asks_for_metadata(topic)) {
        return unknown_partitions(request);
    }
    match broker.controller.describe_quorum().await {
        Ok(quorum) => described(quorum, version),
        Err(error) => refused(&error),
    }
}

/// Every partition that is asked for, of which none is there.
fn unknown_partitions(request: DescribeQuorumRequest) -> DescribeQuorumResponse {
    let code = ErrorCode::UnknownTopicOrPartition.code();
    let partition = |asked: describe_quorum_request::PartitionData| {
        PartitionData::default().with_partition_index(asked.partition_index).with_error_code(code)
    };
    let topic = |asked: describe_quorum_request::TopicData| {
        let partitions = asked.partitions.into_iter().map(partition).collect();
        TopicData::default().with_topic_name(asked.topic_name).with_partitions(partitions)
    };
    DescribeQuorumResponse::default().with_topics(request.topics.into_iter().map(topic).collect())
}

fn refused(error: &ControlError) -> DescribeQuorumResponse {
    let message = error.message.as_deref().map(wire::text);
    DescribeQuorumResponse::default().with_error_code(error.code.code()).with_error_message(message)
}

fn described(quorum: Quorum, version: i16) -> DescribeQuorumResponse {
    let with_directories = version >= WITH_DIRECTORIES;
    let told = |member: &QuorumMember| match replica(member) {
        state if with_directories => state.with_replica_directory_id(to_wire_id(member.voter.directory_id)),
        state => state,
    };
    let leader = quorum.active.map_or(-1, |active| active.id);
    let partition = PartitionData::default()
        .with_leader_id(WireBrokerId(leader))
        .with_leader_epoch(i32::try_from(quorum.term).unwrap_or(i32::MAX))
        .with_high_watermark(offset(Some(quorum.committed_log_end)))
        .with_current_voters(quorum.voters.iter().map(told).collect())
        .with_observers(quorum.observers.iter().map(told).collect());
    let topic = TopicData::default().with_topic_name(wire::topic_name(METADATA_TOPIC)).with_partitions(vec![partition]);
    let members = quorum.voters.iter().chain(&quorum.observers);
    let nodes = members.filter(|_| with_directories).map(node).collect();
    DescribeQuorumResponse::default().with_topics(vec![topic]).with_nodes(nodes)
}

fn offset(log_end: Option<u64>) -> i64 {
    log_end.and_then(|log_end| i64::try_from(log_end).ok()).unwrap_or(UNKNOWN)
}

fn replica(member: &QuorumMember) -> ReplicaState {
    ReplicaState::default()
        .with_replica_id(WireBrokerId(member.voter.id))
        .with_log_end_offset(offset(member.log_end))
        .with_last_fetch_timestamp(member.last_heard_ms.unwrap_or(UNKNOWN))
        .with_last_caught_up_timestamp(member.last_caught_up_ms.unwrap_or(UNKNOWN))
}

fn node(member: &QuorumMember) -> Node {
    let (host, port) = member.address.rsplit_once(':').unwrap_or((&member.address, ""));
    let listener = Listener::default()
        .with_name(wire::text(LISTENER))
        .with_host(wire::text(host.trim_matches(['[', ']'])))
        .with_port(port.parse().unwrap_or_default());
    Node::default().with_node_id(WireBrokerId(member.voter.id)).with_listeners(vec![listener])
}
