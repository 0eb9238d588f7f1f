//! [`Message`] for the structs of the codec crate.

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable};

use super::*;

/// Encodes through the codec crate.
pub(super) fn encode<T: Encodable>(message: &T, version: i16, out: &mut BytesMut) -> Result<(), BodyError> {
    message.encode(out, version).map_err(|error| BodyError::Codec(error.to_string()))
}

/// Decodes through the codec crate.
pub(super) fn decode<T: Decodable>(version: i16, body: &mut Bytes) -> Result<T, BodyError> {
    T::decode(body, version).map_err(|error| BodyError::Codec(error.to_string()))
}

/// Implements [`Message`] by the codec crate. `as at most N` maps newer versions, whose bytes are the same, to N.
macro_rules! by_codec {
    ($($key:ident $name:ident $(as at most $newest:literal)?;)*) => {
        $(
            impl Message for $name {
                const KEY: ApiKey = ApiKey::$key;
                const NAME: &'static str = stringify!($name);

                fn encode_body(&self, version: i16, out: &mut BytesMut) -> Result<(), BodyError> {
                    encode(self, version$(.min($newest))?, out)
                }

                fn decode_body(version: i16, body: &mut Bytes) -> Result<Self, BodyError> {
                    decode(version$(.min($newest))?, body)
                }
            }
        )*
    };
}

by_codec! {
    Produce ProduceRequest;
    Produce ProduceResponse;
    Fetch FetchRequest;
    Fetch FetchResponse;
    ListOffsets ListOffsetsRequest as at most 10;
    ListOffsets ListOffsetsResponse as at most 10;
    Metadata MetadataRequest;
    Metadata MetadataResponse;
    FindCoordinator FindCoordinatorRequest;
    FindCoordinator FindCoordinatorResponse;
    JoinGroup JoinGroupRequest;
    JoinGroup JoinGroupResponse;
    Heartbeat HeartbeatRequest;
    Heartbeat HeartbeatResponse;
    LeaveGroup LeaveGroupRequest;
    LeaveGroup LeaveGroupResponse;
    SyncGroup SyncGroupRequest;
    SyncGroup SyncGroupResponse;
    DescribeGroups DescribeGroupsRequest;
    DescribeGroups DescribeGroupsResponse;
    ListGroups ListGroupsRequest;
    ListGroups ListGroupsResponse;
    SaslHandshake SaslHandshakeRequest;
    SaslHandshake SaslHandshakeResponse;
    ApiVersions ApiVersionsResponse as at most 4;
    CreateTopics CreateTopicsRequest;
    CreateTopics CreateTopicsResponse;
    DeleteTopics DeleteTopicsRequest;
    DeleteTopics DeleteTopicsResponse;
    DeleteRecords DeleteRecordsRequest;
    DeleteRecords DeleteRecordsResponse;
    InitProducerId InitProducerIdRequest;
    InitProducerId InitProducerIdResponse;
    OffsetForLeaderEpoch OffsetForLeaderEpochRequest;
    OffsetForLeaderEpoch OffsetForLeaderEpochResponse;
    DescribeConfigs DescribeConfigsRequest;
    DescribeConfigs DescribeConfigsResponse;
    AlterConfigs AlterConfigsRequest;
    AlterConfigs AlterConfigsResponse;
    DescribeLogDirs DescribeLogDirsRequest as at most 4;
    SaslAuthenticate SaslAuthenticateRequest;
    SaslAuthenticate SaslAuthenticateResponse;
    CreatePartitions CreatePartitionsRequest;
    CreatePartitions CreatePartitionsResponse;
    DeleteGroups DeleteGroupsRequest as at most 2;
    ElectLeaders ElectLeadersRequest;
    ElectLeaders ElectLeadersResponse;
    IncrementalAlterConfigs IncrementalAlterConfigsRequest;
    IncrementalAlterConfigs IncrementalAlterConfigsResponse;
    AlterPartitionReassignments AlterPartitionReassignmentsRequest;
    AlterPartitionReassignments AlterPartitionReassignmentsResponse;
    ListPartitionReassignments ListPartitionReassignmentsRequest;
    ListPartitionReassignments ListPartitionReassignmentsResponse;
    OffsetDelete OffsetDeleteRequest;
    OffsetDelete OffsetDeleteResponse;
    DescribeCluster DescribeClusterRequest;
    DescribeCluster DescribeClusterResponse;
    UnregisterBroker UnregisterBrokerRequest;
    UnregisterBroker UnregisterBrokerResponse;
    DescribeTopicPartitions DescribeTopicPartitionsRequest;
    DescribeTopicPartitions DescribeTopicPartitionsResponse;
    DescribeQuorum DescribeQuorumRequest;
    DescribeQuorum DescribeQuorumResponse;
    AddRaftVoter AddRaftVoterResponse as at most 0;
    RemoveRaftVoter RemoveRaftVoterRequest;
    RemoveRaftVoter RemoveRaftVoterResponse;
}

/// Pairs each request with its response.
macro_rules! pairs {
    ($($key:ident $request:ident $response:ident;)*) => {
        $(
            impl Request for $request {
                type Response = $response;
            }

            impl Response for $response {}
        )*
    };
}

crate::for_each_key!(pairs);
