//! The fields of responses about brokers, controllers and replicas.
//!
//! Taken, like [`super::requests`], from the schemas that Apache Kafka 4.4's own client library prints.

use super::shape::{BOOL, INT8, INT16, INT32, INT64, Kind, Shape, TEXT, UUID, array_of, field};

pub(super) const DESCRIBE_CLUSTER: Shape = &[
    field("throttle_time_ms", 0, INT32),
    field("error_code", 0, INT16),
    field("error_message", 0, TEXT),
    field("endpoint_type", 1, INT8),
    field("cluster_id", 0, TEXT),
    field("controller_id", 0, INT32),
    field(
        "brokers",
        0,
        array_of(&Kind::Struct(&[
            field("broker_id", 0, INT32),
            field("host", 0, TEXT),
            field("port", 0, INT32),
            field("rack", 0, TEXT),
            field("is_fenced", 2, BOOL),
        ])),
    ),
    field("cluster_authorized_operations", 0, INT32),
];

pub(super) const DESCRIBE_TOPIC_PARTITIONS: Shape = &[
    field("throttle_time_ms", 0, INT32),
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[
            field("error_code", 0, INT16),
            field("name", 0, TEXT),
            field("topic_id", 0, UUID),
            field("is_internal", 0, BOOL),
            field(
                "partitions",
                0,
                array_of(&Kind::Struct(&[
                    field("error_code", 0, INT16),
                    field("partition_index", 0, INT32),
                    field("leader_id", 0, INT32),
                    field("leader_epoch", 0, INT32),
                    field("replica_nodes", 0, array_of(&INT32)),
                    field("isr_nodes", 0, array_of(&INT32)),
                    field("eligible_leader_replicas", 0, array_of(&INT32)),
                    field("last_known_elr", 0, array_of(&INT32)),
                    field("offline_replicas", 0, array_of(&INT32)),
                ])),
            ),
            field("topic_authorized_operations", 0, INT32),
        ])),
    ),
    field("next_cursor", 0, Kind::NullableStruct(&[field("topic_name", 0, TEXT), field("partition_index", 0, INT32)])),
];

const REPLICA_STATE: Kind = Kind::Struct(&[
    field("replica_id", 0, INT32),
    field("replica_directory_id", 2, UUID),
    field("log_end_offset", 0, INT64),
    field("last_fetch_timestamp", 1, INT64),
    field("last_caught_up_timestamp", 1, INT64),
]);

pub(super) const DESCRIBE_QUORUM: Shape = &[
    field("error_code", 0, INT16),
    field("error_message", 2, TEXT),
    field(
        "topics",
        0,
        array_of(&Kind::Struct(&[
            field("topic_name", 0, TEXT),
            field(
                "partitions",
                0,
                array_of(&Kind::Struct(&[
                    field("partition_index", 0, INT32),
                    field("error_code", 0, INT16),
                    field("error_message", 2, TEXT),
                    field("leader_id", 0, INT32),
                    field("leader_epoch", 0, INT32),
                    field("high_watermark", 0, INT64),
                    field("current_voters", 0, array_of(&REPLICA_STATE)),
                    field("observers", 0, array_of(&REPLICA_STATE)),
                ])),
            ),
        ])),
    ),
    field(
        "nodes",
        2,
        array_of(&Kind::Struct(&[
            field("node_id", 0, INT32),
            field(
                "listeners",
                0,
                array_of(&Kind::Struct(&[field("name", 0, TEXT), field("host", 0, TEXT), field("port", 0, INT16)])),
            ),
        ])),
    ),
];

/// Of requests that only succeed or fail.
pub(super) const OUTCOME: Shape =
    &[field("throttle_time_ms", 0, INT32), field("error_code", 0, INT16), field("error_message", 0, TEXT)];

const PARTITION_OUTCOMES: Kind = array_of(&Kind::Struct(&[
    field("partition_index", 0, INT32),
    field("error_code", 0, INT16),
    field("error_message", 0, TEXT),
]));

pub(super) const ELECT_LEADERS: Shape = &[
    field("throttle_time_ms", 0, INT32),
    field("error_code", 1, INT16),
    field(
        "replica_election_results",
        0,
        array_of(&Kind::Struct(&[field("topic", 0, TEXT), field("partition_result", 0, PARTITION_OUTCOMES)])),
    ),
];

pub(super) const ALTER_PARTITION_REASSIGNMENTS: Shape = &[
    field("throttle_time_ms", 0, INT32),
    field("allow_replication_factor_change", 1, BOOL),
    field("error_code", 0, INT16),
    field("error_message", 0, TEXT),
    field(
        "responses",
        0,
        array_of(&Kind::Struct(&[field("name", 0, TEXT), field("partitions", 0, PARTITION_OUTCOMES)])),
    ),
];

pub(super) const LIST_PARTITION_REASSIGNMENTS: Shape = &[
    field("throttle_time_ms", 0, INT32),
    field("error_code", 0, INT16),
    field("error_message", 0, TEXT),
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
                    field("replicas", 0, array_of(&INT32)),
                    field("adding_replicas", 0, array_of(&INT32)),
                    field("removing_replicas", 0, array_of(&INT32)),
                ])),
            ),
        ])),
    ),
];
