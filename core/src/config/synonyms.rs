//! Which broker settings stand behind a topic setting, and which stand for each other in another unit.

/// A broker setting that gives a value to another one when that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synonym {
    /// Name of the broker setting.
    pub name: &'static str,
    /// What its number is multiplied by (hours to milliseconds).
    pub factor: i64,
}

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;

const fn same(name: &'static str) -> Synonym {
    Synonym { name, factor: 1 }
}

/// Topic settings and the broker settings that are their defaults, first the one that wins
/// (`ServerTopicConfigSynonyms` of Kafka 4.4). Topic settings that are absent here have no broker setting.
pub const TOPIC_SYNONYMS: &[(&str, &[Synonym])] = &[
    ("cleanup.policy", &[same("log.cleanup.policy")]),
    ("compression.gzip.level", &[same("compression.gzip.level")]),
    ("compression.lz4.level", &[same("compression.lz4.level")]),
    ("compression.type", &[same("compression.type")]),
    ("compression.zstd.level", &[same("compression.zstd.level")]),
    ("delete.retention.ms", &[same("log.cleaner.delete.retention.ms")]),
    ("file.delete.delay.ms", &[same("log.segment.delete.delay.ms")]),
    ("flush.messages", &[same("log.flush.interval.messages")]),
    ("flush.ms", &[same("log.flush.interval.ms"), same("log.flush.scheduler.interval.ms")]),
    ("index.interval.bytes", &[same("log.index.interval.bytes")]),
    ("local.retention.bytes", &[same("log.local.retention.bytes")]),
    ("local.retention.ms", &[same("log.local.retention.ms")]),
    ("max.compaction.lag.ms", &[same("log.cleaner.max.compaction.lag.ms")]),
    ("max.decompressed.message.bytes", &[same("max.decompressed.message.bytes")]),
    ("max.message.bytes", &[same("message.max.bytes")]),
    ("message.timestamp.after.max.ms", &[same("log.message.timestamp.after.max.ms")]),
    ("message.timestamp.before.max.ms", &[same("log.message.timestamp.before.max.ms")]),
    ("message.timestamp.type", &[same("log.message.timestamp.type")]),
    ("min.cleanable.dirty.ratio", &[same("log.cleaner.min.cleanable.ratio")]),
    ("min.compaction.lag.ms", &[same("log.cleaner.min.compaction.lag.ms")]),
    ("min.insync.replicas", &[same("min.insync.replicas")]),
    ("preallocate", &[same("log.preallocate")]),
    ("remote.copy.lag.bytes", &[same("log.remote.copy.lag.bytes")]),
    ("remote.copy.lag.ms", &[same("log.remote.copy.lag.ms")]),
    ("retention.bytes", &[same("log.retention.bytes")]),
    (
        "retention.ms",
        &[
            same("log.retention.ms"),
            Synonym { name: "log.retention.minutes", factor: MINUTE_MS },
            Synonym { name: "log.retention.hours", factor: HOUR_MS },
        ],
    ),
    ("segment.bytes", &[same("log.segment.bytes")]),
    ("segment.index.bytes", &[same("log.index.size.max.bytes")]),
    ("segment.jitter.ms", &[same("log.roll.jitter.ms"), Synonym { name: "log.roll.jitter.hours", factor: HOUR_MS }]),
    ("segment.ms", &[same("log.roll.ms"), Synonym { name: "log.roll.hours", factor: HOUR_MS }]),
    ("unclean.leader.election.enable", &[same("unclean.leader.election.enable")]),
];

/// The broker settings behind topic setting `name`, first the one that wins.
pub fn of_topic(name: &str) -> &'static [Synonym] {
    TOPIC_SYNONYMS.binary_search_by_key(&name, |(topic, _)| topic).map_or(&[], |index| TOPIC_SYNONYMS[index].1)
}

/// `name` and the broker settings that stand in for it when it has no value, as DescribeConfigs lists them.
pub fn of_broker(name: &str) -> impl Iterator<Item = &'static str> + use<'_> {
    let group = TOPIC_SYNONYMS.iter().map(|(_, group)| *group).find(|group| group[0].name == name);
    group.unwrap_or_default().iter().map(|synonym| synonym.name)
}
