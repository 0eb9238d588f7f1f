//! The messages that are served, as structs; the only place that names the codec crate's.
//!
//! `kafka-protocol` 0.18 knows Kafka 4.1. What 4.4 added since then is written by hand and stands here beside the rest:
//! ListOffsets 11 (same bytes as 10), AddRaftVoter 1, DescribeLogDirs 5, DeleteGroups 3, ApiVersions 5, and OffsetCommit and OffsetFetch
//! 10 (topic ids instead of names). Structs of that crate are made with `default()` and the `with_` setters; a field that
//! a version does not have must be left at its default, unless Kafka calls it ignorable.
//!
//! Each module below is named after its message and has its nested structs, for instance
//! [`metadata_response::MetadataResponseTopic`].

mod add_raft_voter;
mod api_versions;
mod codec;
mod delete_groups;
mod describe_log_dirs;
mod offset_commit;
mod offset_fetch;
mod structs;

use bytes::{Bytes, BytesMut};
use taffrail_core::ids::Uuid;

pub use kafka_protocol::messages::{
    AddRaftVoterResponse, AlterConfigsRequest, AlterConfigsResponse, AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse, ApiVersionsResponse, BrokerId, ConsumerProtocolAssignment,
    ConsumerProtocolSubscription, CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest,
    CreateTopicsResponse, DeleteGroupsRequest, DeleteRecordsRequest, DeleteRecordsResponse, DeleteTopicsRequest,
    DeleteTopicsResponse, DescribeClusterRequest, DescribeClusterResponse, DescribeConfigsRequest,
    DescribeConfigsResponse, DescribeGroupsRequest, DescribeGroupsResponse, DescribeLogDirsRequest,
    DescribeQuorumRequest, DescribeQuorumResponse, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    ElectLeadersRequest, ElectLeadersResponse, FetchRequest, FetchResponse, FindCoordinatorRequest,
    FindCoordinatorResponse, GroupId, HeartbeatRequest, HeartbeatResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, InitProducerIdRequest, InitProducerIdResponse, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, ListGroupsRequest, ListGroupsResponse,
    ListOffsetsRequest, ListOffsetsResponse, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
    MetadataRequest, MetadataResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest,
    OffsetDeleteResponse, OffsetFetchRequest, OffsetFetchResponse, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse, ProduceRequest, ProduceResponse, ProducerId, RemoveRaftVoterRequest,
    RemoveRaftVoterResponse, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
    SaslHandshakeResponse, SyncGroupRequest, SyncGroupResponse, TopicName, TransactionalId, UnregisterBrokerRequest,
    UnregisterBrokerResponse,
};
pub use kafka_protocol::messages::{
    add_raft_voter_request, alter_configs_request, alter_configs_response, alter_partition_reassignments_request,
    alter_partition_reassignments_response, api_versions_response, consumer_protocol_assignment,
    consumer_protocol_subscription, create_partitions_request, create_partitions_response, create_topics_request,
    create_topics_response, delete_groups_request, delete_records_request, delete_records_response,
    delete_topics_request, delete_topics_response, describe_cluster_request, describe_cluster_response,
    describe_configs_request, describe_configs_response, describe_groups_request, describe_groups_response,
    describe_log_dirs_request, describe_quorum_request, describe_quorum_response, describe_topic_partitions_request,
    describe_topic_partitions_response, elect_leaders_request, elect_leaders_response, fetch_request, fetch_response,
    find_coordinator_request, find_coordinator_response, heartbeat_request, heartbeat_response,
    incremental_alter_configs_request, incremental_alter_configs_response, init_producer_id_request,
    init_producer_id_response, join_group_request, join_group_response, leave_group_request, leave_group_response,
    list_groups_request, list_groups_response, list_offsets_request, list_offsets_response,
    list_partition_reassignments_request, list_partition_reassignments_response, metadata_request, metadata_response,
    offset_commit_request, offset_commit_response, offset_delete_request, offset_delete_response, offset_fetch_request,
    offset_fetch_response, offset_for_leader_epoch_request, offset_for_leader_epoch_response, produce_request,
    produce_response, sasl_authenticate_request, sasl_authenticate_response, sasl_handshake_request,
    sasl_handshake_response, sync_group_request, sync_group_response,
};
pub use kafka_protocol::protocol::StrBytes;
/// A 16-byte id as the message structs hold it; [`from_wire_id`] and [`to_wire_id`] turn it into ours and back.
pub use uuid::Uuid as WireUuid;

pub use self::add_raft_voter::AddRaftVoterRequest;
pub use self::api_versions::{ApiVersionsRequest, api_versions_request};
pub use self::delete_groups::{DeleteGroupsResponse, delete_groups_response};
pub use self::describe_log_dirs::{DescribeLogDirsResponse, describe_log_dirs_response};
use crate::versions::ApiKey;
use crate::wire::WireError;

/// Our form of an id in a message.
pub fn from_wire_id(id: WireUuid) -> Uuid {
    Uuid(id.into_bytes())
}

/// An id as a message holds it.
pub fn to_wire_id(id: Uuid) -> WireUuid {
    WireUuid::from_bytes(id.0)
}

/// Why a body is no message of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// A hand-written message found a broken value.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The codec crate's reason.
    #[error("{0}")]
    Codec(String),
}

/// A body that can be written and read at the versions of its key.
///
/// Handlers use [`crate::request`] and [`crate::response`], which add headers and check the shape before decoding.
pub trait Message: Sized {
    /// The key whose request or response this is.
    const KEY: ApiKey;
    /// Kafka's name of the message.
    const NAME: &'static str;

    /// Appends the body at a version.
    fn encode_body(&self, version: i16, out: &mut BytesMut) -> Result<(), BodyError>;

    /// Takes the body off the front of `body`. The shape must have been checked before ([`crate::guard`]).
    fn decode_body(version: i16, body: &mut Bytes) -> Result<Self, BodyError>;
}

/// A request, and what answers it.
pub trait Request: Message {
    /// The answer.
    type Response: Response;
}

/// A response.
pub trait Response: Message {}

/// Calls the macro `callback` with one line for each key that is served: `Key KeyRequest KeyResponse;`. The names are
/// those of [`crate::versions::ApiKey`] and of this module, which the caller imports.
#[macro_export]
macro_rules! for_each_key {
    ($callback:ident) => {
        $callback! {
            Produce ProduceRequest ProduceResponse;
            Fetch FetchRequest FetchResponse;
            ListOffsets ListOffsetsRequest ListOffsetsResponse;
            Metadata MetadataRequest MetadataResponse;
            OffsetCommit OffsetCommitRequest OffsetCommitResponse;
            OffsetFetch OffsetFetchRequest OffsetFetchResponse;
            FindCoordinator FindCoordinatorRequest FindCoordinatorResponse;
            JoinGroup JoinGroupRequest JoinGroupResponse;
            Heartbeat HeartbeatRequest HeartbeatResponse;
            LeaveGroup LeaveGroupRequest LeaveGroupResponse;
            SyncGroup SyncGroupRequest SyncGroupResponse;
            DescribeGroups DescribeGroupsRequest DescribeGroupsResponse;
            ListGroups ListGroupsRequest ListGroupsResponse;
            SaslHandshake SaslHandshakeRequest SaslHandshakeResponse;
            ApiVersions ApiVersionsRequest ApiVersionsResponse;
            CreateTopics CreateTopicsRequest CreateTopicsResponse;
            DeleteTopics DeleteTopicsRequest DeleteTopicsResponse;
            DeleteRecords DeleteRecordsRequest DeleteRecordsResponse;
            InitProducerId InitProducerIdRequest InitProducerIdResponse;
            OffsetForLeaderEpoch OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse;
            DescribeConfigs DescribeConfigsRequest DescribeConfigsResponse;
            AlterConfigs AlterConfigsRequest AlterConfigsResponse;
            DescribeLogDirs DescribeLogDirsRequest DescribeLogDirsResponse;
            SaslAuthenticate SaslAuthenticateRequest SaslAuthenticateResponse;
            CreatePartitions CreatePartitionsRequest CreatePartitionsResponse;
            DeleteGroups DeleteGroupsRequest DeleteGroupsResponse;
            ElectLeaders ElectLeadersRequest ElectLeadersResponse;
            IncrementalAlterConfigs IncrementalAlterConfigsRequest IncrementalAlterConfigsResponse;
            AlterPartitionReassignments AlterPartitionReassignmentsRequest AlterPartitionReassignmentsResponse;
            ListPartitionReassignments ListPartitionReassignmentsRequest ListPartitionReassignmentsResponse;
            OffsetDelete OffsetDeleteRequest OffsetDeleteResponse;
            DescribeCluster DescribeClusterRequest DescribeClusterResponse;
            UnregisterBroker UnregisterBrokerRequest UnregisterBrokerResponse;
            DescribeTopicPartitions DescribeTopicPartitionsRequest DescribeTopicPartitionsResponse;
            DescribeQuorum DescribeQuorumRequest DescribeQuorumResponse;
            AddRaftVoter AddRaftVoterRequest AddRaftVoterResponse;
            RemoveRaftVoter RemoveRaftVoterRequest RemoveRaftVoterResponse;
        }
    };
}
