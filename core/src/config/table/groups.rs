//! Classic consumer groups and committed offsets.

use crate::config::setting::{Setting, Valid};

/// Said of the settings here that have no effect.
const LATER: &str = "Known to Kafka; no effect here: an inner matter of Kafka's coordinator.";

/// Rows in order of their names.
pub(super) const SETTINGS: &[Setting] = &[
    Setting::int("group.coordinator.append.linger.ms", "-1").at_least(-1).inert(LATER),
    Setting::int("group.coordinator.background.threads", "2").at_least(1).inert(LATER),
    Setting::int("group.coordinator.cached.buffer.max.bytes", "1048588").at_least(524_288).cluster_wide().inert(LATER),
    Setting::list("group.coordinator.rebalance.protocols", "classic,consumer,streams")
        .items(&["consumer", "classic", "share", "streams"], false)
        .inert(LATER),
    Setting::int("group.coordinator.threads", "4").at_least(1).inert(LATER),
    Setting::int("group.initial.rebalance.delay.ms", "3000")
        .doc("How long a new group waits for more members before its first assignment."),
    Setting::int("group.max.session.timeout.ms", "1800000")
        .doc("Longest session timeout that a group member may ask for."),
    Setting::int("group.max.size", "2147483647").at_least(1).doc("Members that a group may have."),
    Setting::int("group.min.session.timeout.ms", "6000")
        .doc("Shortest session timeout that a group member may ask for."),
    Setting::int("offset.metadata.max.bytes", "4096").doc("Longest text that may be committed with an offset."),
    Setting::int("offsets.commit.timeout.ms", "5000")
        .at_least(1)
        .doc("How long a commit, or a deletion of offsets or groups, waits to be replicated."),
    Setting::int("offsets.load.buffer.size", "5242880")
        .at_least(1)
        .doc("Bytes read at a time while a coordinator loads its groups."),
    Setting::long("offsets.retention.check.interval.ms", "600000")
        .at_least(1)
        .doc("Time between two looks for expired offsets."),
    Setting::int("offsets.retention.minutes", "10080").at_least(1).doc("How long offsets of an empty group are kept."),
    Setting::int("offsets.topic.compression.codec", "0")
        .valid(Valid::Range(0, 4))
        .doc("Codec of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."),
    Setting::int("offsets.topic.num.partitions", "50").at_least(1).doc("Partitions of __consumer_offsets."),
    Setting::short("offsets.topic.replication.factor", "3").at_least(1).doc("Replicas of __consumer_offsets."),
    Setting::int("offsets.topic.segment.bytes", "104857600").at_least(1).doc("Segment size of __consumer_offsets."),
];
