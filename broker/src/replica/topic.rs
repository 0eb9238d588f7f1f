//! A topic as this broker serves it: its settings, its counters, and the replicas that are kept here.

use std::sync::Arc;

use arc_swap::ArcSwap;
use taffrail_core::config::{BrokerLayers, CompressionType, Overrides, TopicConfig};
use taffrail_core::ids::TopicId;
use taffrail_core::record::{Compression, DecompressLimits, ProduceRules};
use taffrail_core::topic_name;
use taffrail_storage::LogOptions;

use crate::metrics::TopicCounters;

/// What all partitions of a topic share.
pub(crate) struct Topic {
    pub(crate) name: Arc<str>,
    pub(crate) id: TopicId,
    /// Whether clients may not write to it.
    pub(crate) is_internal: bool,
    pub(crate) settings: ArcSwap<TopicSettings>,
    pub(crate) counters: TopicCounters,
}

/// A topic's settings in effect, and what is made of them once rather than for each request.
#[derive(Debug, Clone)]
pub(crate) struct TopicSettings {
    pub(crate) config: TopicConfig,
    /// What a produced batch is judged by; the time and the request's version are filled in for each.
    pub(crate) rules: ProduceRules,
}

impl Topic {
    pub(super) fn new(name: Arc<str>, id: TopicId, settings: TopicSettings, counters: TopicCounters) -> Self {
        let is_internal = topic_name::is_internal(&name);
        Self { name, id, is_internal, settings: ArcSwap::from_pointee(settings), counters }
    }
}

impl TopicSettings {
    /// The settings of a topic with these of its own on a broker with these.
    pub(super) fn resolve(overrides: &Overrides, layers: &BrokerLayers) -> Self {
        match TopicConfig::resolve(overrides, layers) {
            Ok(config) => Self::new(config),
            // The controller checks before it commits; an older release may have let it through.
            Err(error) => {
                tracing::error!(%error, "settings of a topic in the metadata are ignored");
                Self::new(TopicConfig::resolve(&Overrides::new(), layers).unwrap_or_default())
            }
        }
    }

    fn new(config: TopicConfig) -> Self {
        let bytes = |value: i32| usize::try_from(value).unwrap_or(0);
        let rules = ProduceRules {
            max_message_bytes: bytes(config.max_message_bytes),
            max_segment_bytes: bytes(config.segment_bytes),
            timestamp_type: config.message_timestamp_type,
            timestamp_before_max_ms: config.message_timestamp_before_max_ms,
            timestamp_after_max_ms: config.message_timestamp_after_max_ms,
            compacted: config.cleanup_policy.compact,
            compression: match config.compression_type {
                CompressionType::Producer => None,
                CompressionType::Uncompressed => Some(Compression::None),
                CompressionType::Gzip => Some(Compression::Gzip),
                CompressionType::Snappy => Some(Compression::Snappy),
                CompressionType::Lz4 => Some(Compression::Lz4),
                CompressionType::Zstd => Some(Compression::Zstd),
            },
            // -1 is gzip's name for its default.
            compression_level: match config.compression_type {
                CompressionType::Gzip => Some(config.compression_gzip_level).filter(|level| *level > 0),
                CompressionType::Zstd => Some(config.compression_zstd_level),
                _ => None,
            },
            zstd_allowed: true,
            strict: false,
            now_ms: 0,
            limits: decompress_limits(bytes(config.max_decompressed_message_bytes)),
        };
        Self { rules, config }
    }

    /// What the log needs of them.
    pub(super) fn log_options(&self) -> LogOptions {
        let config = &self.config;
        let bytes = |value: i32| u32::try_from(value).unwrap_or(0);
        LogOptions {
            segment_bytes: bytes(config.segment_bytes),
            segment_ms: config.segment_ms,
            segment_jitter_ms: config.segment_jitter_ms,
            segment_index_bytes: bytes(config.segment_index_bytes),
            index_interval_bytes: bytes(config.index_interval_bytes),
            retention_ms: config.retention_ms,
            retention_bytes: config.retention_bytes,
            flush_messages: config.flush_messages,
            flush_ms: config.flush_ms,
            file_delete_delay_ms: config.file_delete_delay_ms,
            delete: config.cleanup_policy.delete,
            compact: config.cleanup_policy.compact,
            delete_retention_ms: config.delete_retention_ms,
            min_compaction_lag_ms: config.min_compaction_lag_ms,
            max_compaction_lag_ms: config.max_compaction_lag_ms,
            min_cleanable_dirty_ratio: config.min_cleanable_dirty_ratio,
            max_message_bytes: bytes(config.max_message_bytes),
        }
    }
}

/// Bounds for decompression: ours, or a lower one of the topic.
fn decompress_limits(max_bytes: usize) -> DecompressLimits {
    let ours = DecompressLimits::default();
    DecompressLimits { max_bytes: ours.max_bytes.min(max_bytes), ..ours }
}
