//! The fields of every request that is served.
//!
//! Taken from the schemas that Apache Kafka 4.4's own client library prints for each version, merged over the versions
//! that are served. A test in [`super`] encodes every message at every version and checks that the guard agrees.

use super::shape::{BOOL, BYTES, INT8, INT16, INT32, INT64, Kind, Shape, TEXT, UUID, array_of, field};
use crate::versions::ApiKey;

/// The fields of the request of a key.
pub(super) const fn shape(key: ApiKey) -> Shape {
    match key {
        ApiKey::Produce => PRODUCE,
        ApiKey::Fetch => FETCH,
        ApiKey::ListOffsets => LIST_OFFSETS,
        ApiKey::Metadata => METADATA,
        ApiKey::OffsetCommit => OFFSET_COMMIT,
        ApiKey::OffsetFetch => OFFSET_FETCH,
        ApiKey::FindCoordinator => FIND_COORDINATOR,
        ApiKey::JoinGroup => JOIN_GROUP,
        ApiKey::Heartbeat => HEARTBEAT,
        ApiKey::LeaveGroup => LEAVE_GROUP,
        ApiKey::SyncGroup => SYNC_GROUP,
        ApiKey::DescribeGroups => DESCRIBE_GROUPS,
        ApiKey::ListGroups => LIST_GROUPS,
        ApiKey::SaslHandshake => SASL_HANDSHAKE,
        ApiKey::ApiVersions => API_VERSIONS,
        ApiKey::CreateTopics => CREATE_TOPICS,
        ApiKey::DeleteTopics => DELETE_TOPICS,
        ApiKey::DeleteRecords => DELETE_RECORDS,
        ApiKey::InitProducerId => INIT_PRODUCER_ID,
        ApiKey::OffsetForLeaderEpoch => OFFSET_FOR_LEADER_EPOCH,
        ApiKey::DescribeConfigs => DESCRIBE_CONFIGS,
        ApiKey::AlterConfigs => ALTER_CONFIGS,
        ApiKey::DescribeLogDirs => DESCRIBE_LOG_DIRS,
        ApiKey::SaslAuthenticate => SASL_AUTHENTICATE,
        ApiKey::CreatePartitions => CREATE_PARTITIONS,
        ApiKey::DeleteGroups => DELETE_GROUPS,
        ApiKey::ElectLeaders => ELECT_LEADERS,
        ApiKey::IncrementalAlterConfigs => INCREMENTAL_ALTER_CONFIGS,
        ApiKey::AlterPartitionReassignments => ALTER_PARTITION_REASSIGNMENTS,
        ApiKey::ListPartitionReassignments => LIST_PARTITION_REASSIGNMENTS,
        ApiKey::OffsetDelete => OFFSET_DELETE,
        ApiKey::DescribeCluster => DESCRIBE_CLUSTER,
        ApiKey::UnregisterBroker => UNREGISTER_BROKER,
        ApiKey::DescribeTopicPartitions => DESCRIBE_TOPIC_PARTITIONS,
        ApiKey::DescribeQuorum => DESCRIBE_QUORUM,
        ApiKey::AddRaftVoter => ADD_RAFT_VOTER,
        ApiKey::RemoveRaftVoter => REMOVE_RAFT_VOTER,
    }
}

const PRODUCE: Shape = &[
    field("transactional_id", 0, TEXT),
    field("acks", 0, INT16),
    field("timeout_ms", 0, INT32),
    field(
        "topic_data",
        0,
        array_of(&Kind::Struct(&[
            field("topic_id", 13, UUID),
            field("name", 0, TEXT).until(12),
            field(
                "partition_data",
                0,
                array_of(&Kind::Struct(&[field("index", 0, INT32), field("records", 0, BYTES)])),
            ),
        ])),
    ),
];

const FETCH: Shape = &[
    field("replica_id", 0, INT32).until(14),
    field("max_wait_ms", 0, INT32),
    field("min_bytes", 0, INT32),
    field("max_bytes", 0, INT32),
    field("isolation_level", 0, INT8),
    field("session_id", 7, INT32),
    field("session_epoch", 7, INT32),
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[
            field("topic_id", 13, UUID),
            field("topic", 0, TEXT).until(12),
            field(
                "partitions",
                0,
                array_of(&Kind::Struct(&[
                    field("partition", 0, INT32),
                    field("current_leader_epoch", 9, INT32),
                    field("fetch_offset", 0, INT64),
                    field("last_fetched_epoch", 12, INT32),
                    field("log_start_offset", 5, INT64),
                    field("partition_max_bytes", 0, INT32),
                    field("replica_directory_id", 17, UUID).tagged(0),
                    field("high_watermark", 18, INT64).tagged(1),
                ])),
            ),
        ])),
    ),
    field(
        "forgotten_topics_data",
        7,
        array_of(&Kind::Struct(&[
            field("topic_id", 13, UUID),
            field("topic", 7, TEXT).until(12),
            field("partitions", 7, array_of(&INT32)),
        ])),
    ),
    field("rack_id", 11, TEXT),
    field("cluster_id", 12, TEXT).tagged(0),
    field("replica_state", 15, Kind::Struct(&[field("replica_id", 15, INT32), field("replica_epoch", 15, INT64)]))
        .tagged(1),
];

const LIST_OFFSETS: Shape = &[
    field("replica_id", 0, INT32),
    field("isolation_level", 2, INT8),
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[
            field("name", 0, TEXT),
            field(
                "partitions",
                0,
                array_of(&Kind::Struct(&[
                    field("partition_index", 0, INT32),
                    field("current_leader_epoch", 4, INT32),
                    field("timestamp", 0, INT64),
                ])),
            ),
        ])),
    ),
    field("timeout_ms", 10, INT32),
];

const METADATA: Shape = &[
    field("topics", 0, array_of(&Kind::Struct(&[field("topic_id", 10, UUID), field("name", 0, TEXT)]))),
    field("allow_auto_topic_creation", 4, BOOL),
    field("include_cluster_authorized_operations", 8, BOOL).until(10),
    field("include_topic_authorized_operations", 8, BOOL),
];

const OFFSET_COMMIT: Shape = &[
    field("group_id", 0, TEXT),
    field("generation_id_or_member_epoch", 0, INT32),
    field("member_id", 0, TEXT),
    field("group_instance_id", 7, TEXT),
    field("retention_time_ms", 0, INT64).until(4),
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[
            field("topic_id", 10, UUID),
            field("name", 0, TEXT).until(9),
            field(
                "partitions",
                0,
                array_of(&Kind::Struct(&[
                    field("partition_index", 0, INT32),
                    field("committed_offset", 0, INT64),
                    field("committed_leader_epoch", 6, INT32),
                    field("committed_metadata", 0, TEXT),
                ])),
            ),
        ])),
    ),
];

const OFFSET_FETCH: Shape = &[
    field(
        "groups",
        8,
        array_of(&Kind::Struct(&[
            field("group_id", 8, TEXT),
            field("member_id", 9, TEXT),
            field("member_epoch", 9, INT32),
            field(
                "topics",
                8,
                array_of(&Kind::Struct(&[
                    field("topic_id", 10, UUID),
                    field("name", 8, TEXT).until(9),
                    field("partition_indexes", 8, array_of(&INT32)),
                ])),
            ),
        ])),
    ),
    field("group_id", 0, TEXT).until(7),
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[field("name", 0, TEXT), field("partition_indexes", 0, array_of(&INT32))])),
    )
    .until(7),
    field("require_stable", 7, BOOL),
];

const FIND_COORDINATOR: Shape =
    &[field("key", 0, TEXT).until(3), field("key_type", 1, INT8), field("coordinator_keys", 4, array_of(&TEXT))];

const JOIN_GROUP: Shape = &[
    field("group_id", 0, TEXT),
    field("session_timeout_ms", 0, INT32),
    field("rebalance_timeout_ms", 1, INT32),
    field("member_id", 0, TEXT),
    field("group_instance_id", 5, TEXT),
    field("protocol_type", 0, TEXT),
    field("protocols", 0, array_of(&Kind::Struct(&[field("name", 0, TEXT), field("metadata", 0, BYTES)]))),
    field("reason", 8, TEXT),
];

const HEARTBEAT: Shape = &[
    field("group_id", 0, TEXT),
    field("generation_id", 0, INT32),
    field("member_id", 0, TEXT),
    field("group_instance_id", 3, TEXT),
];

const LEAVE_GROUP: Shape = &[
    field("group_id", 0, TEXT),
    field(
        "members",
        3,
        array_of(&Kind::Struct(&[
            field("member_id", 3, TEXT),
            field("group_instance_id", 3, TEXT),
            field("reason", 5, TEXT),
        ])),
    ),
    field("member_id", 0, TEXT).until(2),
];

const SYNC_GROUP: Shape = &[
    field("group_id", 0, TEXT),
    field("generation_id", 0, INT32),
    field("member_id", 0, TEXT),
    field("group_instance_id", 3, TEXT),
    field("protocol_type", 5, TEXT),
    field("protocol_name", 5, TEXT),
    field("assignments", 0, array_of(&Kind::Struct(&[field("member_id", 0, TEXT), field("assignment", 0, BYTES)]))),
];

const DESCRIBE_GROUPS: Shape = &[field("groups", 0, array_of(&TEXT)), field("include_authorized_operations", 3, BOOL)];

const LIST_GROUPS: Shape = &[field("states_filter", 4, array_of(&TEXT)), field("types_filter", 5, array_of(&TEXT))];

const SASL_HANDSHAKE: Shape = &[field("mechanism", 0, TEXT)];

const API_VERSIONS: Shape = &[
    field("client_software_name", 3, TEXT),
    field("client_software_version", 3, TEXT),
    field("cluster_id", 5, TEXT),
    field("node_id", 5, INT32),
];

const CREATE_TOPICS: Shape = &[
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[
            field("name", 0, TEXT),
            field("num_partitions", 0, INT32),
            field("replication_factor", 0, INT16),
            field(
                "assignments",
                0,
                array_of(&Kind::Struct(&[
                    field("partition_index", 0, INT32),
                    field("broker_ids", 0, array_of(&INT32)),
                ])),
            ),
            field("configs", 0, array_of(&Kind::Struct(&[field("name", 0, TEXT), field("value", 0, TEXT)]))),
        ])),
    ),
    field("timeout_ms", 0, INT32),
    field("validate_only", 0, BOOL),
];

const DELETE_TOPICS: Shape = &[
    field("topics", 6, array_of(&Kind::Struct(&[field("name", 6, TEXT), field("topic_id", 6, UUID)]))),
    field("topic_names", 0, array_of(&TEXT)).until(5),
    field("timeout_ms", 0, INT32),
];

const DELETE_RECORDS: Shape = &[
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[
            field("name", 0, TEXT),
            field(
                "partitions",
                0,
                array_of(&Kind::Struct(&[field("partition_index", 0, INT32), field("offset", 0, INT64)])),
            ),
        ])),
    ),
    field("timeout_ms", 0, INT32),
];

const INIT_PRODUCER_ID: Shape = &[
    field("transactional_id", 0, TEXT),
    field("transaction_timeout_ms", 0, INT32),
    field("producer_id", 3, INT64),
    field("producer_epoch", 3, INT16),
];

const OFFSET_FOR_LEADER_EPOCH: Shape = &[
    field("replica_id", 3, INT32),
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[
            field("topic", 0, TEXT),
            field(
                "partitions",
                0,
                array_of(&Kind::Struct(&[
                    field("partition", 0, INT32),
                    field("current_leader_epoch", 0, INT32),
                    field("leader_epoch", 0, INT32),
                ])),
            ),
        ])),
    ),
];

const DESCRIBE_CONFIGS: Shape = &[
    field(
        "resources",
        0,
        array_of(&Kind::Struct(&[
            field("resource_type", 0, INT8),
            field("resource_name", 0, TEXT),
            field("configuration_keys", 0, array_of(&TEXT)),
        ])),
    ),
    field("include_synonyms", 0, BOOL),
    field("include_documentation", 3, BOOL),
];

const ALTER_CONFIGS: Shape = &[
    field(
        "resources",
        0,
        array_of(&Kind::Struct(&[
            field("resource_type", 0, INT8),
            field("resource_name", 0, TEXT),
            field("configs", 0, array_of(&Kind::Struct(&[field("name", 0, TEXT), field("value", 0, TEXT)]))),
        ])),
    ),
    field("validate_only", 0, BOOL),
];

const DESCRIBE_LOG_DIRS: Shape = &[field(
    "topics",
    0,
    array_of(&Kind::Struct(&[field("topic", 0, TEXT), field("partitions", 0, array_of(&INT32))])),
)];

const SASL_AUTHENTICATE: Shape = &[field("auth_bytes", 0, BYTES)];

const CREATE_PARTITIONS: Shape = &[
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[
            field("name", 0, TEXT),
            field("count", 0, INT32),
            field("assignments", 0, array_of(&Kind::Struct(&[field("broker_ids", 0, array_of(&INT32))]))),
        ])),
    ),
    field("timeout_ms", 0, INT32),
    field("validate_only", 0, BOOL),
];

const DELETE_GROUPS: Shape = &[field("groups_names", 0, array_of(&TEXT))];

const INCREMENTAL_ALTER_CONFIGS: Shape = &[
    field(
        "resources",
        0,
        array_of(&Kind::Struct(&[
            field("resource_type", 0, INT8),
            field("resource_name", 0, TEXT),
            field(
                "configs",
                0,
                array_of(&Kind::Struct(&[
                    field("name", 0, TEXT),
                    field("config_operation", 0, INT8),
                    field("value", 0, TEXT),
                ])),
            ),
        ])),
    ),
    field("validate_only", 0, BOOL),
];

const OFFSET_DELETE: Shape = &[
    field("group_id", 0, TEXT),
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[
            field("name", 0, TEXT),
            field("partitions", 0, array_of(&Kind::Struct(&[field("partition_index", 0, INT32)]))),
        ])),
    ),
];

const DESCRIBE_CLUSTER: Shape = &[
    field("include_cluster_authorized_operations", 0, BOOL),
    field("endpoint_type", 1, INT8),
    field("include_fenced_brokers", 2, BOOL),
];

const DESCRIBE_TOPIC_PARTITIONS: Shape = &[
    field("topics", 0, array_of(&Kind::Struct(&[field("name", 0, TEXT)]))),
    field("response_partition_limit", 0, INT32),
    field("cursor", 0, Kind::NullableStruct(&[field("topic_name", 0, TEXT), field("partition_index", 0, INT32)])),
];

const DESCRIBE_QUORUM: Shape = &[field(
    "topics",
    0,
    array_of(&Kind::Struct(&[
        field("topic_name", 0, TEXT),
        field("partitions", 0, array_of(&Kind::Struct(&[field("partition_index", 0, INT32)]))),
    ])),
)];

const ADD_RAFT_VOTER: Shape = &[
    field("cluster_id", 0, TEXT),
    field("timeout_ms", 0, INT32),
    field("voter_id", 0, INT32),
    field("voter_directory_id", 0, UUID),
    field(
        "listeners",
        0,
        array_of(&Kind::Struct(&[field("name", 0, TEXT), field("host", 0, TEXT), field("port", 0, INT16)])),
    ),
    field("ack_when_committed", 1, BOOL),
];

const REMOVE_RAFT_VOTER: Shape =
    &[field("cluster_id", 0, TEXT), field("voter_id", 0, INT32), field("voter_directory_id", 0, UUID)];

const ELECT_LEADERS: Shape = &[
    field("election_type", 1, INT8),
    field(
        "topic_partitions",
        0,
        array_of(&Kind::Struct(&[field("topic", 0, TEXT), field("partitions", 0, array_of(&INT32))])),
    ),
    field("timeout_ms", 0, INT32),
];

const ALTER_PARTITION_REASSIGNMENTS: Shape = &[
    field("timeout_ms", 0, INT32),
    field("allow_replication_factor_change", 1, BOOL),
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[
            field("name", 0, TEXT),
            field(
                "partitions",
                0,
                array_of(&Kind::Struct(&[field("partition_index", 0, INT32), field("replicas", 0, array_of(&INT32))])),
            ),
        ])),
    ),
];

const LIST_PARTITION_REASSIGNMENTS: Shape = &[
    field("timeout_ms", 0, INT32),
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[field("name", 0, TEXT), field("partition_indexes", 0, array_of(&INT32))])),
    ),
];

const UNREGISTER_BROKER: Shape = &[field("broker_id", 0, INT32)];
