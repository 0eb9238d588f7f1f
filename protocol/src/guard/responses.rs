//! The fields of every response that is served: a client guards what it decodes as a broker does.
//!
//! Taken, like [`super::requests`], from the schemas that Apache Kafka 4.4's own client library prints.

use super::cluster_responses;
use super::shape::{BOOL, BYTES, INT8, INT16, INT32, INT64, Kind, Shape, TEXT, UUID, array_of, field};
use crate::versions::ApiKey;

/// The fields of the response of a key.
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
        ApiKey::ElectLeaders => cluster_responses::ELECT_LEADERS,
        ApiKey::IncrementalAlterConfigs => INCREMENTAL_ALTER_CONFIGS,
        ApiKey::AlterPartitionReassignments => cluster_responses::ALTER_PARTITION_REASSIGNMENTS,
        ApiKey::ListPartitionReassignments => cluster_responses::LIST_PARTITION_REASSIGNMENTS,
        ApiKey::OffsetDelete => OFFSET_DELETE,
        ApiKey::DescribeCluster => cluster_responses::DESCRIBE_CLUSTER,
        ApiKey::DescribeTopicPartitions => cluster_responses::DESCRIBE_TOPIC_PARTITIONS,
        ApiKey::DescribeQuorum => cluster_responses::DESCRIBE_QUORUM,
        ApiKey::UnregisterBroker | ApiKey::AddRaftVoter | ApiKey::RemoveRaftVoter => cluster_responses::OUTCOME,
    }
}

const PRODUCE: Shape = &[
    field(
        "responses",
        0,
        array_of(&Kind::Struct(&[
            field("topic_id", 13, UUID),
            field("name", 0, TEXT).until(12),
            field(
                "partition_responses",
                0,
                array_of(&Kind::Struct(&[
                    field("index", 0, INT32),
                    field("error_code", 0, INT16),
                    field("base_offset", 0, INT64),
                    field("log_append_time_ms", 0, INT64),
                    field("log_start_offset", 5, INT64),
                    field(
                        "record_errors",
                        8,
                        array_of(&Kind::Struct(&[
                            field("batch_index", 8, INT32),
                            field("batch_index_error_message", 8, TEXT),
                        ])),
                    ),
                    field("error_message", 8, TEXT),
                    field(
                        "current_leader",
                        10,
                        Kind::Struct(&[field("leader_id", 10, INT32), field("leader_epoch", 10, INT32)]),
                    )
                    .tagged(0),
                ])),
            ),
        ])),
    ),
    field("throttle_time_ms", 0, INT32),
    field(
        "node_endpoints",
        10,
        array_of(&Kind::Struct(&[
            field("node_id", 10, INT32),
            field("host", 10, TEXT),
            field("port", 10, INT32),
            field("rack", 10, TEXT),
        ])),
    )
    .tagged(0),
];

const FETCH: Shape = &[
    field("throttle_time_ms", 0, INT32),
    field("error_code", 7, INT16),
    field("session_id", 7, INT32),
    field(
        "responses",
        0,
        array_of(&Kind::Struct(&[
            field("topic_id", 13, UUID),
            field("topic", 0, TEXT).until(12),
            field(
                "partitions",
                0,
                array_of(&Kind::Struct(&[
                    field("partition_index", 0, INT32),
                    field("error_code", 0, INT16),
                    field("high_watermark", 0, INT64),
                    field("last_stable_offset", 0, INT64),
                    field("log_start_offset", 5, INT64),
                    field(
                        "aborted_transactions",
                        0,
                        array_of(&Kind::Struct(&[field("producer_id", 0, INT64), field("first_offset", 0, INT64)])),
                    ),
                    field("preferred_read_replica", 11, INT32),
                    field("records", 0, BYTES),
                    field(
                        "diverging_epoch",
                        12,
                        Kind::Struct(&[field("epoch", 12, INT32), field("end_offset", 12, INT64)]),
                    )
                    .tagged(0),
                    field(
                        "current_leader",
                        12,
                        Kind::Struct(&[field("leader_id", 12, INT32), field("leader_epoch", 12, INT32)]),
                    )
                    .tagged(1),
                    field(
                        "snapshot_id",
                        12,
                        Kind::Struct(&[field("end_offset", 12, INT64), field("epoch", 12, INT32)]),
                    )
                    .tagged(2),
                ])),
            ),
        ])),
    ),
    field(
        "node_endpoints",
        16,
        array_of(&Kind::Struct(&[
            field("node_id", 16, INT32),
            field("host", 16, TEXT),
            field("port", 16, INT32),
            field("rack", 16, TEXT),
        ])),
    )
    .tagged(0),
];

const LIST_OFFSETS: Shape = &[
    field("throttle_time_ms", 2, INT32),
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
                    field("error_code", 0, INT16),
                    field("timestamp", 0, INT64),
                    field("offset", 0, INT64),
                    field("leader_epoch", 4, INT32),
                ])),
            ),
        ])),
    ),
];

const METADATA: Shape = &[
    field("throttle_time_ms", 3, INT32),
    field(
        "brokers",
        0,
        array_of(&Kind::Struct(&[
            field("node_id", 0, INT32),
            field("host", 0, TEXT),
            field("port", 0, INT32),
            field("rack", 1, TEXT),
        ])),
    ),
    field("cluster_id", 2, TEXT),
    field("controller_id", 1, INT32),
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[
            field("error_code", 0, INT16),
            field("name", 0, TEXT),
            field("topic_id", 10, UUID),
            field("is_internal", 1, BOOL),
            field(
                "partitions",
                0,
                array_of(&Kind::Struct(&[
                    field("error_code", 0, INT16),
                    field("partition_index", 0, INT32),
                    field("leader_id", 0, INT32),
                    field("leader_epoch", 7, INT32),
                    field("replica_nodes", 0, array_of(&INT32)),
                    field("isr_nodes", 0, array_of(&INT32)),
                    field("offline_replicas", 5, array_of(&INT32)),
                ])),
            ),
            field("topic_authorized_operations", 8, INT32),
        ])),
    ),
    field("error_code", 13, INT16),
    field("cluster_authorized_operations", 8, INT32).until(10),
];

const OFFSET_COMMIT: Shape = &[
    field("throttle_time_ms", 3, INT32),
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[
            field("topic_id", 10, UUID),
            field("name", 0, TEXT).until(9),
            field(
                "partitions",
                0,
                array_of(&Kind::Struct(&[field("partition_index", 0, INT32), field("error_code", 0, INT16)])),
            ),
        ])),
    ),
];

const OFFSET_FETCH: Shape = &[
    field("throttle_time_ms", 3, INT32),
    field(
        "groups",
        8,
        array_of(&Kind::Struct(&[
            field("group_id", 8, TEXT),
            field(
                "topics",
                8,
                array_of(&Kind::Struct(&[
                    field("topic_id", 10, UUID),
                    field("name", 8, TEXT).until(9),
                    field(
                        "partitions",
                        8,
                        array_of(&Kind::Struct(&[
                            field("partition_index", 8, INT32),
                            field("committed_offset", 8, INT64),
                            field("committed_leader_epoch", 8, INT32),
                            field("metadata", 8, TEXT),
                            field("error_code", 8, INT16),
                        ])),
                    ),
                ])),
            ),
            field("error_code", 8, INT16),
        ])),
    ),
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
                    field("committed_offset", 0, INT64),
                    field("committed_leader_epoch", 5, INT32),
                    field("metadata", 0, TEXT),
                    field("error_code", 0, INT16),
                ])),
            ),
        ])),
    )
    .until(7),
    field("error_code", 2, INT16).until(7),
];

const FIND_COORDINATOR: Shape = &[
    field("throttle_time_ms", 1, INT32),
    field(
        "coordinators",
        4,
        array_of(&Kind::Struct(&[
            field("key", 4, TEXT),
            field("node_id", 4, INT32),
            field("host", 4, TEXT),
            field("port", 4, INT32),
            field("error_code", 4, INT16),
            field("error_message", 4, TEXT),
        ])),
    ),
    field("error_code", 0, INT16).until(3),
    field("error_message", 1, TEXT).until(3),
    field("node_id", 0, INT32).until(3),
    field("host", 0, TEXT).until(3),
    field("port", 0, INT32).until(3),
];

const JOIN_GROUP: Shape = &[
    field("throttle_time_ms", 2, INT32),
    field("error_code", 0, INT16),
    field("generation_id", 0, INT32),
    field("protocol_type", 7, TEXT),
    field("protocol_name", 0, TEXT),
    field("leader", 0, TEXT),
    field("skip_assignment", 9, BOOL),
    field("member_id", 0, TEXT),
    field(
        "members",
        0,
        array_of(&Kind::Struct(&[
            field("member_id", 0, TEXT),
            field("group_instance_id", 5, TEXT),
            field("metadata", 0, BYTES),
        ])),
    ),
];

const HEARTBEAT: Shape = &[field("throttle_time_ms", 1, INT32), field("error_code", 0, INT16)];

const LEAVE_GROUP: Shape = &[
    field("throttle_time_ms", 1, INT32),
    field("error_code", 0, INT16),
    field(
        "members",
        3,
        array_of(&Kind::Struct(&[
            field("member_id", 3, TEXT),
            field("group_instance_id", 3, TEXT),
            field("error_code", 3, INT16),
        ])),
    ),
];

const SYNC_GROUP: Shape = &[
    field("throttle_time_ms", 1, INT32),
    field("error_code", 0, INT16),
    field("protocol_type", 5, TEXT),
    field("protocol_name", 5, TEXT),
    field("assignment", 0, BYTES),
];

const DESCRIBE_GROUPS: Shape = &[
    field("throttle_time_ms", 1, INT32),
    field(
        "groups",
        0,
        array_of(&Kind::Struct(&[
            field("error_code", 0, INT16),
            field("error_message", 6, TEXT),
            field("group_id", 0, TEXT),
            field("group_state", 0, TEXT),
            field("protocol_type", 0, TEXT),
            field("protocol_data", 0, TEXT),
            field(
                "members",
                0,
                array_of(&Kind::Struct(&[
                    field("member_id", 0, TEXT),
                    field("group_instance_id", 4, TEXT),
                    field("client_id", 0, TEXT),
                    field("client_host", 0, TEXT),
                    field("member_metadata", 0, BYTES),
                    field("member_assignment", 0, BYTES),
                ])),
            ),
            field("authorized_operations", 3, INT32),
        ])),
    ),
];

const LIST_GROUPS: Shape = &[
    field("throttle_time_ms", 1, INT32),
    field("error_code", 0, INT16),
    field(
        "groups",
        0,
        array_of(&Kind::Struct(&[
            field("group_id", 0, TEXT),
            field("protocol_type", 0, TEXT),
            field("group_state", 4, TEXT),
            field("group_type", 5, TEXT),
        ])),
    ),
];

const SASL_HANDSHAKE: Shape = &[field("error_code", 0, INT16), field("mechanisms", 0, array_of(&TEXT))];

const API_VERSIONS: Shape = &[
    field("error_code", 0, INT16),
    field(
        "api_keys",
        0,
        array_of(&Kind::Struct(&[
            field("api_key", 0, INT16),
            field("min_version", 0, INT16),
            field("max_version", 0, INT16),
        ])),
    ),
    field("throttle_time_ms", 1, INT32),
    field(
        "supported_features",
        3,
        array_of(&Kind::Struct(&[
            field("name", 3, TEXT),
            field("min_version", 3, INT16),
            field("max_version", 3, INT16),
        ])),
    )
    .tagged(0),
    field("finalized_features_epoch", 3, INT64).tagged(1),
    field(
        "finalized_features",
        3,
        array_of(&Kind::Struct(&[
            field("name", 3, TEXT),
            field("max_version_level", 3, INT16),
            field("min_version_level", 3, INT16),
        ])),
    )
    .tagged(2),
    field("zk_migration_ready", 3, BOOL).tagged(3),
];

const CREATE_TOPICS: Shape = &[
    field("throttle_time_ms", 0, INT32),
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[
            field("name", 0, TEXT),
            field("topic_id", 7, UUID),
            field("error_code", 0, INT16),
            field("error_message", 0, TEXT),
            field("num_partitions", 5, INT32),
            field("replication_factor", 5, INT16),
            field(
                "configs",
                5,
                array_of(&Kind::Struct(&[
                    field("name", 5, TEXT),
                    field("value", 5, TEXT),
                    field("read_only", 5, BOOL),
                    field("config_source", 5, INT8),
                    field("is_sensitive", 5, BOOL),
                ])),
            ),
            field("topic_config_error_code", 5, INT16).tagged(0),
        ])),
    ),
];

const DELETE_TOPICS: Shape = &[
    field("throttle_time_ms", 0, INT32),
    field(
        "responses",
        0,
        array_of(&Kind::Struct(&[
            field("name", 0, TEXT),
            field("topic_id", 6, UUID),
            field("error_code", 0, INT16),
            field("error_message", 5, TEXT),
        ])),
    ),
];

const DELETE_RECORDS: Shape = &[
    field("throttle_time_ms", 0, INT32),
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
                    field("low_watermark", 0, INT64),
                    field("error_code", 0, INT16),
                ])),
            ),
        ])),
    ),
];

const INIT_PRODUCER_ID: Shape = &[
    field("throttle_time_ms", 0, INT32),
    field("error_code", 0, INT16),
    field("producer_id", 0, INT64),
    field("producer_epoch", 0, INT16),
];

const OFFSET_FOR_LEADER_EPOCH: Shape = &[
    field("throttle_time_ms", 0, INT32),
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[
            field("topic", 0, TEXT),
            field(
                "partitions",
                0,
                array_of(&Kind::Struct(&[
                    field("error_code", 0, INT16),
                    field("partition", 0, INT32),
                    field("leader_epoch", 0, INT32),
                    field("end_offset", 0, INT64),
                ])),
            ),
        ])),
    ),
];

const DESCRIBE_CONFIGS: Shape = &[
    field("throttle_time_ms", 0, INT32),
    field(
        "results",
        0,
        array_of(&Kind::Struct(&[
            field("error_code", 0, INT16),
            field("error_message", 0, TEXT),
            field("resource_type", 0, INT8),
            field("resource_name", 0, TEXT),
            field(
                "configs",
                0,
                array_of(&Kind::Struct(&[
                    field("name", 0, TEXT),
                    field("value", 0, TEXT),
                    field("read_only", 0, BOOL),
                    field("config_source", 0, INT8),
                    field("is_sensitive", 0, BOOL),
                    field(
                        "synonyms",
                        0,
                        array_of(&Kind::Struct(&[
                            field("name", 0, TEXT),
                            field("value", 0, TEXT),
                            field("source", 0, INT8),
                        ])),
                    ),
                    field("config_type", 3, INT8),
                    field("documentation", 3, TEXT),
                ])),
            ),
        ])),
    ),
];

const ALTER_CONFIGS: Shape = &[
    field("throttle_time_ms", 0, INT32),
    field(
        "responses",
        0,
        array_of(&Kind::Struct(&[
            field("error_code", 0, INT16),
            field("error_message", 0, TEXT),
            field("resource_type", 0, INT8),
            field("resource_name", 0, TEXT),
        ])),
    ),
];

const DESCRIBE_LOG_DIRS: Shape = &[
    field("throttle_time_ms", 0, INT32),
    field("error_code", 3, INT16),
    field(
        "results",
        0,
        array_of(&Kind::Struct(&[
            field("error_code", 0, INT16),
            field("log_dir", 0, TEXT),
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
                            field("partition_size", 0, INT64),
                            field("offset_lag", 0, INT64),
                            field("is_future_key", 0, BOOL),
                        ])),
                    ),
                ])),
            ),
            field("total_bytes", 4, INT64),
            field("usable_bytes", 4, INT64),
            field("is_cordoned", 5, BOOL),
        ])),
    ),
];

const SASL_AUTHENTICATE: Shape = &[
    field("error_code", 0, INT16),
    field("error_message", 0, TEXT),
    field("auth_bytes", 0, BYTES),
    field("session_lifetime_ms", 1, INT64),
];

const CREATE_PARTITIONS: Shape = &[
    field("throttle_time_ms", 0, INT32),
    field(
        "results",
        0,
        array_of(&Kind::Struct(&[
            field("name", 0, TEXT),
            field("error_code", 0, INT16),
            field("error_message", 0, TEXT),
        ])),
    ),
];

const DELETE_GROUPS: Shape = &[
    field("throttle_time_ms", 0, INT32),
    field(
        "results",
        0,
        array_of(&Kind::Struct(&[
            field("group_id", 0, TEXT),
            field("error_code", 0, INT16),
            field("error_message", 3, TEXT),
        ])),
    ),
];

const INCREMENTAL_ALTER_CONFIGS: Shape = &[
    field("throttle_time_ms", 0, INT32),
    field(
        "responses",
        0,
        array_of(&Kind::Struct(&[
            field("error_code", 0, INT16),
            field("error_message", 0, TEXT),
            field("resource_type", 0, INT8),
            field("resource_name", 0, TEXT),
        ])),
    ),
];

const OFFSET_DELETE: Shape = &[
    field("error_code", 0, INT16),
    field("throttle_time_ms", 0, INT32),
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[
            field("name", 0, TEXT),
            field(
                "partitions",
                0,
                array_of(&Kind::Struct(&[field("partition_index", 0, INT32), field("error_code", 0, INT16)])),
            ),
        ])),
    ),
];
