//! A topic's settings as the log uses them.

use super::layers::{BrokerLayers, Overrides};
use super::setting::Scope;
use super::throttled_replicas::ThrottledReplicas;
use super::typed::{FromSetting, typed_config};
use super::validate::{self, ConfigError, list_items};
use crate::record::TimestampType;

/// What happens to a topic's old segments. Neither: nothing, they are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// Old segments are deleted by time and size.
    pub delete: bool,
    /// Only the last record of each key is kept.
    pub compact: bool,
}

impl FromSetting for CleanupPolicy {
    fn from_setting(text: Option<&str>) -> Option<Self> {
        let mut policy = Self::default();
        for item in list_items(text?) {
            match item {
                "delete" => policy.delete = true,
                "compact" => policy.compact = true,
                _ => return None,
            }
        }
        Some(policy)
    }
}

impl FromSetting for TimestampType {
    fn from_setting(text: Option<&str>) -> Option<Self> {
        match text?.trim() {
            "CreateTime" => Some(Self::CreateTime),
            "LogAppendTime" => Some(Self::LogAppendTime),
            _ => None,
        }
    }
}

/// Codec that a topic's records are kept in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompressionType {
    /// The one that the producer chose.
    #[default]
    Producer,
    /// None.
    Uncompressed,
    /// gzip, at [`TopicConfig::compression_gzip_level`].
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4, at [`TopicConfig::compression_lz4_level`].
    Lz4,
    /// Zstandard, at [`TopicConfig::compression_zstd_level`].
    Zstd,
}

impl FromSetting for CompressionType {
    fn from_setting(text: Option<&str>) -> Option<Self> {
        match text?.trim() {
            "producer" => Some(Self::Producer),
            "uncompressed" => Some(Self::Uncompressed),
            "gzip" => Some(Self::Gzip),
            "snappy" => Some(Self::Snappy),
            "lz4" => Some(Self::Lz4),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }
}

typed_config! {
    /// The settings of one topic that we act on, with the broker's values where the topic has none of its own.
    /// Sizes are in bytes, times in milliseconds; -1 stands for "no limit" where Kafka has it so.
    Topic TopicConfig {
        /// What happens to old segments.
        cleanup_policy: CleanupPolicy = "cleanup.policy",
        /// Codec that records are kept in.
        compression_type: CompressionType = "compression.type",
        /// Level of gzip; -1 = gzip's default.
        compression_gzip_level: i32 = "compression.gzip.level",
        /// Level of LZ4.
        compression_lz4_level: i32 = "compression.lz4.level",
        /// Level of Zstandard.
        compression_zstd_level: i32 = "compression.zstd.level",
        /// How long tombstones of a compacted topic are kept.
        delete_retention_ms: i64 = "delete.retention.ms",
        /// How long a deleted segment's file stays.
        file_delete_delay_ms: i64 = "file.delete.delay.ms",
        /// Replicas that are held back as followers.
        follower_replication_throttled_replicas: ThrottledReplicas = "follower.replication.throttled.replicas",
        /// Records between two flushes.
        flush_messages: i64 = "flush.messages",
        /// Time between two flushes.
        flush_ms: i64 = "flush.ms",
        /// Log bytes between two index entries.
        index_interval_bytes: i32 = "index.interval.bytes",
        /// Replicas that hold back their followers as leaders.
        leader_replication_throttled_replicas: ThrottledReplicas = "leader.replication.throttled.replicas",
        /// Longest time out of reach of compaction.
        max_compaction_lag_ms: i64 = "max.compaction.lag.ms",
        /// Largest size that a batch may unpack to.
        max_decompressed_message_bytes: i32 = "max.decompressed.message.bytes",
        /// Largest batch that is accepted.
        max_message_bytes: i32 = "max.message.bytes",
        /// How far timestamps may lie ahead.
        message_timestamp_after_max_ms: i64 = "message.timestamp.after.max.ms",
        /// How far timestamps may lie back.
        message_timestamp_before_max_ms: i64 = "message.timestamp.before.max.ms",
        /// Whose clock stamps records.
        message_timestamp_type: TimestampType = "message.timestamp.type",
        /// Uncleaned share that calls for compaction.
        min_cleanable_dirty_ratio: f64 = "min.cleanable.dirty.ratio",
        /// Shortest time out of reach of compaction.
        min_compaction_lag_ms: i64 = "min.compaction.lag.ms",
        /// In-sync replicas that acks=all needs.
        min_insync_replicas: i32 = "min.insync.replicas",
        /// Whether segment files are allocated at once. Known, without effect.
        preallocate: bool = "preallocate",
        /// Whether old segments go to remote storage, which no topic may ask for yet.
        remote_storage_enable: bool = "remote.storage.enable",
        /// Size above which segments are deleted.
        retention_bytes: i64 = "retention.bytes",
        /// Age above which segments are deleted.
        retention_ms: i64 = "retention.ms",
        /// Size of a segment.
        segment_bytes: i32 = "segment.bytes",
        /// Size of a segment's index.
        segment_index_bytes: i32 = "segment.index.bytes",
        /// Random part taken off `segment_ms`.
        segment_jitter_ms: i64 = "segment.jitter.ms",
        /// Age at which a segment is closed.
        segment_ms: i64 = "segment.ms",
        /// Whether a replica out of sync may lead.
        unclean_leader_election_enable: bool = "unclean.leader.election.enable",
    }
}

impl TopicConfig {
    /// The settings of a topic with these of its own, on a broker with these.
    ///
    /// # Errors
    /// When a value that somebody gave is out of range; what went through [`validate_topic`] is not.
    pub fn resolve(topic: &Overrides, broker: &BrokerLayers) -> Result<Self, ConfigError> {
        Self::read(&|setting| topic.get(setting.name).cloned().or_else(|| broker.topic_default(setting)))
    }
}

impl Default for TopicConfig {
    fn default() -> Self {
        match Self::resolve(&Overrides::new(), &BrokerLayers::default()) {
            Ok(config) => config,
            Err(error) => unreachable!("the table's own defaults are valid: {error}"),
        }
    }
}

/// Whether a topic may have these settings on a broker with these.
///
/// # Errors
/// The first setting that is unknown, out of range, or at odds with another one, in words for a user.
pub fn validate_topic(topic: &Overrides, broker: &BrokerLayers) -> Result<(), ConfigError> {
    for (name, value) in topic {
        validate::validate(Scope::Topic, name, value)?;
    }
    let config = TopicConfig::resolve(topic, broker)?;
    if config.remote_storage_enable {
        // What Kafka answers where tiered storage is off (KIP-405).
        return Err(ConfigError::Conflict(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
                .to_owned(),
        ));
    }
    let (min, max) = (config.min_compaction_lag_ms, config.max_compaction_lag_ms);
    if min > max {
        return Err(ConfigError::Conflict(format!(
            "conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})"
        )));
    }
    Ok(())
}
