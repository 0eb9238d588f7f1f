//! How partitions are kept: the broker settings that stand behind the topic settings, and housekeeping.

use crate::config::setting::{Kind, Setting, Valid};

/// Said of the settings here that have no effect.
const LATER: &str = "Known to Kafka; no effect here: an inner matter of Kafka's log layer.";

/// Rows in order of their names.
pub(super) const SETTINGS: &[Setting] = &[
    Setting::unset("alter.config.policy.class.name", Kind::Class).inert(LATER),
    Setting::int("alter.log.dirs.replication.quota.window.num", "11").at_least(1).inert(LATER),
    Setting::int("alter.log.dirs.replication.quota.window.size.seconds", "1").at_least(1).inert(LATER),
    Setting::boolean("auto.create.topics.enable", "true")
        .doc("Whether a client that asks for an unknown topic creates it."),
    Setting::int("background.threads", "10").at_least(1).cluster_wide().inert(LATER),
    Setting::int("compression.gzip.level", "-1")
        .valid(Valid::RangeOr(1, 9, -1))
        .cluster_wide()
        .doc("Default of the topic setting of this name."),
    Setting::int("compression.lz4.level", "9")
        .between(1, 17)
        .cluster_wide()
        .doc("Default of the topic setting of this name."),
    Setting::text("compression.type", "producer")
        .one_of(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"])
        .cluster_wide()
        .doc("Default of the topic setting of this name."),
    Setting::int("compression.zstd.level", "3")
        .between(-131_072, 22)
        .cluster_wide()
        .doc("Default of the topic setting of this name."),
    Setting::list("cordoned.log.dirs", "").items(&[], true).per_broker().inert(LATER),
    Setting::unset("create.topic.policy.class.name", Kind::Class).inert(LATER),
    Setting::int("default.replication.factor", "1").doc("Replicas of a topic that is created without saying how many."),
    Setting::boolean("delete.topic.enable", "true").doc("Whether topics can be deleted."),
    Setting::long("log.cleaner.backoff.ms", "15000")
        .at_least(0)
        .cluster_wide()
        .doc("Pause of the cleaner when there is nothing to compact."),
    Setting::long("log.cleaner.dedupe.buffer.size", "134217728")
        .cluster_wide()
        .doc("Memory for the keys of all running compactions."),
    Setting::long("log.cleaner.delete.retention.ms", "86400000")
        .at_least(0)
        .cluster_wide()
        .doc("Default of the topic setting delete.retention.ms."),
    Setting::boolean("log.cleaner.enable", "true").doc("Whether compacted topics are compacted."),
    Setting::double("log.cleaner.io.buffer.load.factor", "0.9").cluster_wide().inert(LATER),
    Setting::int("log.cleaner.io.buffer.size", "524288").at_least(0).cluster_wide().inert(LATER),
    Setting::double("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308").cluster_wide().inert(LATER),
    Setting::long("log.cleaner.max.compaction.lag.ms", "9223372036854775807")
        .at_least(1)
        .cluster_wide()
        .doc("Default of the topic setting max.compaction.lag.ms."),
    Setting::double("log.cleaner.min.cleanable.ratio", "0.5")
        .valid(Valid::Decimal(0.0, 1.0))
        .cluster_wide()
        .doc("Default of the topic setting min.cleanable.dirty.ratio."),
    Setting::long("log.cleaner.min.compaction.lag.ms", "0")
        .at_least(0)
        .cluster_wide()
        .doc("Default of the topic setting min.compaction.lag.ms."),
    Setting::int("log.cleaner.threads", "1").at_least(0).cluster_wide().inert(LATER),
    Setting::list("log.cleanup.policy", "delete")
        .items(&["compact", "delete"], true)
        .cluster_wide()
        .doc("Default of the topic setting cleanup.policy."),
    Setting::list("log.dir", "/tmp/kafka-logs").items(&[], false).doc("Older name of log.dirs."),
    Setting::long("log.dir.failure.timeout.ms", "30000").at_least(1).inert(LATER),
    Setting::unset("log.dirs", Kind::List).items(&[], false).doc("Directories that hold the partitions."),
    Setting::long("log.flush.interval.messages", "9223372036854775807")
        .at_least(1)
        .cluster_wide()
        .doc("Default of the topic setting flush.messages."),
    Setting::unset("log.flush.interval.ms", Kind::Long)
        .cluster_wide()
        .doc("Default of the topic setting flush.ms; unset, log.flush.scheduler.interval.ms stands in."),
    Setting::int("log.flush.offset.checkpoint.interval.ms", "60000")
        .at_least(0)
        .doc("Time between two writes of the recovery points."),
    Setting::long("log.flush.scheduler.interval.ms", "9223372036854775807")
        .doc("Stands in for log.flush.interval.ms where that is not given; no partition is looked for in intervals."),
    Setting::int("log.flush.start.offset.checkpoint.interval.ms", "60000").at_least(0).inert(LATER),
    Setting::int("log.index.interval.bytes", "4096")
        .at_least(0)
        .cluster_wide()
        .doc("Default of the topic setting index.interval.bytes."),
    Setting::int("log.index.size.max.bytes", "10485760")
        .at_least(4)
        .cluster_wide()
        .doc("Default of the topic setting segment.index.bytes."),
    Setting::long("log.initial.task.delay.ms", "30000").at_least(0).unlisted().inert(LATER),
    Setting::long("log.message.timestamp.after.max.ms", "3600000")
        .at_least(0)
        .cluster_wide()
        .doc("Default of the topic setting message.timestamp.after.max.ms."),
    Setting::long("log.message.timestamp.before.max.ms", "9223372036854775807")
        .at_least(0)
        .cluster_wide()
        .doc("Default of the topic setting message.timestamp.before.max.ms."),
    Setting::text("log.message.timestamp.type", "CreateTime")
        .one_of(&["CreateTime", "LogAppendTime"])
        .cluster_wide()
        .doc("Default of the topic setting message.timestamp.type."),
    Setting::boolean("log.preallocate", "false").cluster_wide().inert(LATER),
    Setting::long("log.retention.bytes", "-1").cluster_wide().doc("Default of the topic setting retention.bytes."),
    Setting::long("log.retention.check.interval.ms", "300000")
        .at_least(1)
        .doc("Time between two looks for segments to delete."),
    Setting::int("log.retention.hours", "168").doc("log.retention.ms in hours; the finer unit wins."),
    Setting::unset("log.retention.minutes", Kind::Int).doc("log.retention.ms in minutes; the finer unit wins."),
    Setting::unset("log.retention.ms", Kind::Long).cluster_wide().doc("Default of the topic setting retention.ms."),
    Setting::int("log.roll.hours", "168").at_least(1).doc("log.roll.ms in hours; the finer unit wins."),
    Setting::int("log.roll.jitter.hours", "0").at_least(0).doc("log.roll.jitter.ms in hours; the finer unit wins."),
    Setting::unset("log.roll.jitter.ms", Kind::Long)
        .cluster_wide()
        .doc("Default of the topic setting segment.jitter.ms."),
    Setting::unset("log.roll.ms", Kind::Long).cluster_wide().doc("Default of the topic setting segment.ms."),
    Setting::int("log.segment.bytes", "1073741824")
        .at_least(1_048_576)
        .cluster_wide()
        .doc("Default of the topic setting segment.bytes."),
    Setting::long("log.segment.delete.delay.ms", "60000")
        .at_least(0)
        .cluster_wide()
        .doc("Default of the topic setting file.delete.delay.ms."),
    Setting::int("max.decompressed.message.bytes", "2147483639")
        .between(1, 2_147_483_639)
        .cluster_wide()
        .doc("Default of the topic setting of this name."),
    Setting::int("message.max.bytes", "1048588")
        .at_least(0)
        .cluster_wide()
        .doc("Default of the topic setting max.message.bytes."),
    Setting::int("min.insync.replicas", "1")
        .at_least(1)
        .cluster_wide()
        .doc("Default of the topic setting of this name."),
    Setting::int("num.partitions", "1")
        .at_least(1)
        .doc("Partitions of a topic that is created without saying how many."),
    Setting::int("num.recovery.threads.per.data.dir", "2")
        .at_least(1)
        .cluster_wide()
        .doc("Threads that recover partitions at start."),
    Setting::unset("num.replica.alter.log.dirs.threads", Kind::Int).inert(LATER),
];
