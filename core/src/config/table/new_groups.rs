//! Names of the new group protocols (KIP-848, KIP-932, KIP-1071): known, not acted on yet.

use crate::config::setting::{Kind, Setting, Valid};

/// Said of the settings here that have no effect.
const LATER: &str =
    "Known to Kafka; no effect here: the consumer protocol of KIP-848, share groups and streams groups come later.";

/// Rows in order of their names.
pub(super) const SETTINGS: &[Setting] = &[
    Setting::boolean("errors.deadletterqueue.auto.create.topics.enable", "false").cluster_wide().inert(LATER),
    Setting::text("errors.deadletterqueue.topic.name.prefix", "dlq.").cluster_wide().inert(LATER),
    Setting::int("group.consumer.assignment.interval.ms", "1000").at_least(0).cluster_wide().inert(LATER),
    Setting::boolean("group.consumer.assignor.offload.enable", "true").cluster_wide().unlisted().inert(LATER),
    Setting::list("group.consumer.assignors", "uniform,range").items(&[], false).inert(LATER),
    Setting::int("group.consumer.heartbeat.interval.ms", "5000").at_least(1).inert(LATER),
    Setting::int("group.consumer.max.assignment.interval.ms", "15000").at_least(0).inert(LATER),
    Setting::int("group.consumer.max.heartbeat.interval.ms", "15000").at_least(1).inert(LATER),
    Setting::int("group.consumer.max.session.timeout.ms", "60000").at_least(1).inert(LATER),
    Setting::int("group.consumer.max.size", "2147483647").at_least(1).inert(LATER),
    Setting::text("group.consumer.migration.policy", "bidirectional")
        .valid(Valid::OneOfIgnoringCase(&["DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"]))
        .inert(LATER),
    Setting::int("group.consumer.min.assignment.interval.ms", "0").at_least(0).inert(LATER),
    Setting::int("group.consumer.min.heartbeat.interval.ms", "5000").at_least(1).inert(LATER),
    Setting::int("group.consumer.min.session.timeout.ms", "45000").at_least(1).inert(LATER),
    Setting::int("group.consumer.regex.refresh.interval.ms", "600000").at_least(10_000).unlisted().inert(LATER),
    Setting::int("group.consumer.session.timeout.ms", "45000").at_least(1).inert(LATER),
    Setting::int("group.share.assignment.interval.ms", "1000").at_least(0).cluster_wide().inert(LATER),
    Setting::boolean("group.share.assignor.offload.enable", "true").cluster_wide().unlisted().inert(LATER),
    Setting::list("group.share.assignors", "simple").items(&[], true).inert(LATER),
    Setting::int("group.share.delivery.count.limit", "5").between(2, 10).inert(LATER),
    Setting::text(
        "group.share.dlq.manager.class.name",
        "org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager",
    )
    .unlisted()
    .inert(LATER),
    Setting::int("group.share.heartbeat.interval.ms", "5000").at_least(1).inert(LATER),
    Setting::int("group.share.initialize.retry.interval.ms", "30000").at_least(1).unlisted().inert(LATER),
    Setting::int("group.share.max.assignment.interval.ms", "15000").at_least(0).inert(LATER),
    Setting::int("group.share.max.delivery.count.limit", "10").between(5, 25).inert(LATER),
    Setting::int("group.share.max.heartbeat.interval.ms", "15000").at_least(1).inert(LATER),
    Setting::int("group.share.max.partition.max.record.locks", "4000").between(2000, 10_000).inert(LATER),
    Setting::int("group.share.max.record.lock.duration.ms", "60000").between(30_000, 3_600_000).inert(LATER),
    Setting::int("group.share.max.session.timeout.ms", "60000").at_least(1).inert(LATER),
    Setting::int("group.share.max.share.sessions", "2000").at_least(1).inert(LATER),
    Setting::int("group.share.max.size", "200").between(1, 1000).inert(LATER),
    Setting::int("group.share.min.assignment.interval.ms", "0").at_least(0).inert(LATER),
    Setting::int("group.share.min.delivery.count.limit", "2").between(2, 5).inert(LATER),
    Setting::int("group.share.min.heartbeat.interval.ms", "5000").at_least(1).inert(LATER),
    Setting::int("group.share.min.partition.max.record.locks", "100").between(100, 2000).inert(LATER),
    Setting::int("group.share.min.record.lock.duration.ms", "15000").between(1000, 30_000).inert(LATER),
    Setting::int("group.share.min.session.timeout.ms", "45000").at_least(1).inert(LATER),
    Setting::int("group.share.partition.max.record.locks", "2000").between(100, 10_000).inert(LATER),
    Setting::text("group.share.persister.class.name", "org.apache.kafka.server.share.persister.DefaultStatePersister")
        .unlisted()
        .inert(LATER),
    Setting::int("group.share.record.lock.duration.ms", "30000").between(1000, 3_600_000).inert(LATER),
    Setting::int("group.share.session.timeout.ms", "45000").at_least(1).inert(LATER),
    Setting::long("group.streams.acceptable.recovery.lag", "10000").at_least(0).unlisted().inert(LATER),
    Setting::int("group.streams.assignment.interval.ms", "1000").at_least(0).cluster_wide().inert(LATER),
    Setting::boolean("group.streams.assignor.offload.enable", "true").cluster_wide().unlisted().inert(LATER),
    Setting::list("group.streams.assignors", "sticky").items(&[], true).inert(LATER),
    Setting::int("group.streams.heartbeat.interval.ms", "5000").at_least(1).inert(LATER),
    Setting::int("group.streams.initial.rebalance.delay.ms", "3000").at_least(0).inert(LATER),
    Setting::int("group.streams.max.assignment.interval.ms", "15000").at_least(0).inert(LATER),
    Setting::int("group.streams.max.heartbeat.interval.ms", "15000").at_least(1).inert(LATER),
    Setting::int("group.streams.max.session.timeout.ms", "60000").at_least(1).inert(LATER),
    Setting::int("group.streams.max.size", "2147483647").at_least(1).inert(LATER),
    Setting::int("group.streams.max.standby.replicas", "2").at_least(0).inert(LATER),
    Setting::int("group.streams.max.warmup.replicas", "20").at_least(0).unlisted().inert(LATER),
    Setting::int("group.streams.min.assignment.interval.ms", "0").at_least(0).inert(LATER),
    Setting::int("group.streams.min.heartbeat.interval.ms", "5000").at_least(1).inert(LATER),
    Setting::int("group.streams.min.session.timeout.ms", "45000").at_least(1).inert(LATER),
    Setting::int("group.streams.min.task.offset.interval.ms", "15000").at_least(1).unlisted().inert(LATER),
    Setting::int("group.streams.num.standby.replicas", "0").at_least(0).inert(LATER),
    Setting::int("group.streams.num.warmup.replicas", "2").at_least(0).unlisted().inert(LATER),
    Setting::list("group.streams.rack.aware.assignment.tags", "").items(&[], true).inert(LATER),
    Setting::int("group.streams.session.timeout.ms", "45000").at_least(1).inert(LATER),
    Setting::int("group.streams.task.offset.interval.ms", "60000").at_least(1).unlisted().inert(LATER),
    Setting::unset("group.streams.topology.description.plugin.class", Kind::Class).inert(LATER),
    Setting::int("share.coordinator.append.linger.ms", "-1").at_least(-1).inert(LATER),
    Setting::int("share.coordinator.cached.buffer.max.bytes", "1048588").at_least(524_288).cluster_wide().inert(LATER),
    Setting::int("share.coordinator.cold.partition.snapshot.interval.ms", "300000").at_least(1).unlisted().inert(LATER),
    Setting::int("share.coordinator.load.buffer.size", "5242880").at_least(1).inert(LATER),
    Setting::int("share.coordinator.snapshot.update.records.per.snapshot", "500").between(0, 500).inert(LATER),
    Setting::int("share.coordinator.state.topic.compression.codec", "0").inert(LATER),
    Setting::short("share.coordinator.state.topic.min.isr", "2")
        .at_least(1)
        .doc("Replicas of __share_group_state that must be in sync for a write."),
    Setting::int("share.coordinator.state.topic.num.partitions", "50")
        .at_least(1)
        .doc("Partitions of __share_group_state."),
    Setting::int("share.coordinator.state.topic.prune.interval.ms", "300000").at_least(1).unlisted().inert(LATER),
    Setting::short("share.coordinator.state.topic.replication.factor", "3")
        .at_least(1)
        .doc("Replicas of __share_group_state."),
    Setting::int("share.coordinator.state.topic.segment.bytes", "104857600")
        .at_least(1)
        .doc("Segment size of __share_group_state."),
    Setting::int("share.coordinator.threads", "1").at_least(1).inert(LATER),
    Setting::int("share.coordinator.write.timeout.ms", "5000").at_least(1).inert(LATER),
    Setting::int("share.fetch.purgatory.purge.interval.requests", "1000").inert(LATER),
];
