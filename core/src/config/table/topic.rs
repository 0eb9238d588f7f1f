//! The topic settings of Kafka 4.4.

use crate::config::setting::{Setting, Valid};

/// Said of the settings here that have no effect.
const LATER: &str = "Known to Kafka; no effect here: tiered storage, throttles and dead-letter queues come later.";

/// Rows in order of their names.
pub(super) const SETTINGS: &[Setting] = &[
    Setting::list("cleanup.policy", "delete").items(&["compact", "delete"], true).topic().doc(
        "What happens to old segments: delete drops them by time and size, compact keeps the last record of \
             each key; both may be given, an empty list keeps everything.",
    ),
    Setting::int("compression.gzip.level", "-1")
        .valid(Valid::RangeOr(1, 9, -1))
        .topic()
        .doc("Level when the broker compresses with gzip; -1 is gzip's own default."),
    Setting::int("compression.lz4.level", "9").between(1, 17).topic().doc("Level when the broker compresses with LZ4."),
    Setting::text("compression.type", "producer")
        .one_of(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"])
        .topic()
        .doc("Codec that records are kept in; producer keeps the one they were sent in."),
    Setting::int("compression.zstd.level", "3")
        .between(-131_072, 22)
        .topic()
        .doc("Level when the broker compresses with Zstandard."),
    Setting::long("delete.retention.ms", "86400000").at_least(0).topic().doc(
        "How long a compacted topic keeps tombstones and transaction markers, so that slow readers see \
             them.",
    ),
    Setting::boolean("errors.deadletterqueue.group.enable", "false").topic().inert(LATER),
    Setting::long("file.delete.delay.ms", "60000")
        .at_least(0)
        .topic()
        .doc("How long the file of a deleted segment stays on disk, for readers that are still in it."),
    Setting::long("flush.messages", "9223372036854775807")
        .at_least(1)
        .topic()
        .doc("Records after which a partition is forced to disk."),
    Setting::long("flush.ms", "9223372036854775807")
        .at_least(0)
        .topic()
        .doc("Time after which a partition is forced to disk."),
    Setting::list("follower.replication.throttled.replicas", "").valid(Valid::Replicas).topic().doc(
        "Replicas that fetch no faster than follower.replication.throttled.rate of their broker while they are out of \
             sync: * for all, or partition:broker pairs.",
    ),
    Setting::int("index.interval.bytes", "4096")
        .at_least(0)
        .topic()
        .doc("Bytes of log between two entries of the offset index."),
    Setting::list("leader.replication.throttled.replicas", "").valid(Valid::Replicas).topic().doc(
        "Replicas that, as leaders, send to followers out of sync no faster than leader.replication.throttled.rate of \
             their broker: * for all, or partition:broker pairs.",
    ),
    Setting::long("local.retention.bytes", "-2").at_least(-2).topic().inert(LATER),
    Setting::long("local.retention.ms", "-2").at_least(-2).topic().inert(LATER),
    Setting::long("max.compaction.lag.ms", "9223372036854775807")
        .at_least(1)
        .topic()
        .doc("Longest time that a record of a compacted topic stays out of reach of compaction."),
    Setting::int("max.decompressed.message.bytes", "2147483639")
        .between(1, 2_147_483_639)
        .topic()
        .doc("Largest size that a compressed batch may unpack to where the broker has to look inside."),
    Setting::int("max.message.bytes", "1048588")
        .at_least(0)
        .topic()
        .doc("Largest record batch that is accepted, after compression."),
    Setting::long("message.timestamp.after.max.ms", "3600000")
        .at_least(0)
        .topic()
        .doc("How far a record's timestamp may lie in the future."),
    Setting::long("message.timestamp.before.max.ms", "9223372036854775807")
        .at_least(0)
        .topic()
        .doc("How far a record's timestamp may lie in the past."),
    Setting::text("message.timestamp.type", "CreateTime")
        .one_of(&["CreateTime", "LogAppendTime"])
        .topic()
        .doc("Whose clock stamps the records: CreateTime keeps the producer's, LogAppendTime is the broker's."),
    Setting::double("min.cleanable.dirty.ratio", "0.5")
        .valid(Valid::Decimal(0.0, 1.0))
        .topic()
        .doc("Share of a compacted log that must be uncleaned before it is compacted."),
    Setting::long("min.compaction.lag.ms", "0")
        .at_least(0)
        .topic()
        .doc("Shortest time that a record of a compacted topic is safe from compaction."),
    Setting::int("min.insync.replicas", "1")
        .at_least(1)
        .topic()
        .doc("In-sync replicas without which a produce with acks=all is refused."),
    Setting::boolean("preallocate", "false")
        .topic()
        .inert("Known to Kafka; no effect here: files grow as they are written."),
    Setting::long("remote.copy.lag.bytes", "-1").at_least(-1).topic().inert(LATER),
    Setting::long("remote.copy.lag.ms", "0").at_least(-1).topic().inert(LATER),
    Setting::boolean("remote.log.copy.disable", "false").topic().inert(LATER),
    Setting::boolean("remote.log.delete.on.disable", "false").topic().inert(LATER),
    Setting::boolean("remote.storage.enable", "false").topic().inert(LATER),
    Setting::long("retention.bytes", "-1")
        .topic()
        .doc("Bytes of a partition above which old segments are deleted; -1 is no limit."),
    Setting::long("retention.ms", "604800000")
        .at_least(-1)
        .topic()
        .doc("Age above which old segments are deleted; -1 is no limit."),
    Setting::int("segment.bytes", "1073741824")
        .at_least(1_048_576)
        .topic()
        .doc("Size at which a new segment file is started."),
    Setting::int("segment.index.bytes", "10485760")
        .at_least(4)
        .topic()
        .doc("Largest size of a segment's index; a full one starts a new segment."),
    Setting::long("segment.jitter.ms", "0")
        .at_least(0)
        .topic()
        .doc("Up to this much is taken off segment.ms at random, so that partitions do not roll together."),
    Setting::long("segment.ms", "604800000")
        .at_least(1)
        .topic()
        .doc("Age at which a new segment file is started even if it is not full."),
    Setting::boolean("unclean.leader.election.enable", "false")
        .topic()
        .doc("Whether a replica that may lack committed records leads a partition rather than none."),
];
