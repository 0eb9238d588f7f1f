//! Settings of a log and of the storage as a whole.

use std::path::PathBuf;

/// Settings of one partition's log. Names and meanings are those of Kafka's topic settings.
#[derive(Clone, Debug, PartialEq)]
pub struct LogOptions {
    /// `segment.bytes`: a segment is closed before it would grow larger.
    pub segment_bytes: u32,
    /// `segment.ms`: a segment is closed when it spans more time.
    pub segment_ms: i64,
    /// `segment.jitter.ms`: up to so much earlier, so that not all partitions close theirs at once.
    pub segment_jitter_ms: i64,
    /// `segment.index.bytes`: a segment is closed when an index would grow larger.
    pub segment_index_bytes: u32,
    /// `index.interval.bytes`: bytes between two entries of the indexes.
    pub index_interval_bytes: u32,
    /// `retention.ms`: segments whose newest record is older go; -1 = never.
    pub retention_ms: i64,
    /// `retention.bytes`: the oldest segments go while more than so much would be left; -1 = never.
    pub retention_bytes: i64,
    /// `flush.messages`: records after which the log is made durable.
    pub flush_messages: i64,
    /// `flush.ms`: time after which the log is made durable.
    pub flush_ms: i64,
    /// `file.delete.delay.ms`: how long removed files are kept for readers that have begun.
    pub file_delete_delay_ms: i64,
    /// `cleanup.policy` contains `delete`.
    pub delete: bool,
    /// `cleanup.policy` contains `compact`.
    pub compact: bool,
    /// `delete.retention.ms`: how long a tombstone stays after it could have been compacted away.
    pub delete_retention_ms: i64,
    /// `min.compaction.lag.ms`: younger records are not compacted.
    pub min_compaction_lag_ms: i64,
    /// `max.compaction.lag.ms`: older records are compacted even if it is not worth it.
    pub max_compaction_lag_ms: i64,
    /// `min.cleanable.dirty.ratio`: part of the log that must be uncompacted before it is worth it.
    pub min_cleanable_dirty_ratio: f64,
    /// `max.message.bytes`; only compaction asks, for the size of batches it builds.
    pub max_message_bytes: u32,
}

impl Default for LogOptions {
    /// Kafka's defaults.
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 3_600_000,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            retention_ms: 7 * 24 * 3_600_000,
            retention_bytes: -1,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            file_delete_delay_ms: 60_000,
            delete: true,
            compact: false,
            delete_retention_ms: 24 * 3_600_000,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            min_cleanable_dirty_ratio: 0.5,
            max_message_bytes: 1_048_588,
        }
    }
}

/// Settings of the storage as a whole.
#[derive(Clone, Debug)]
pub struct StorageOptions {
    /// The data directory (one of Kafka's `log.dirs`).
    pub dir: PathBuf,
    /// Threads that open and recover partitions at the start (`num.recovery.threads.per.data.dir`).
    pub recovery_threads: usize,
    /// Threads that make logs durable; each waits for the device by itself. 0 = whoever waits does it, for simulations.
    pub flush_threads: usize,
    /// Files that are kept open at most.
    pub open_files_max: usize,
    /// Bytes that were appended last, over all partitions, and so are taken to be in the page cache.
    pub warm_bytes: u64,
    /// How often retention is looked at (`log.retention.check.interval.ms`).
    pub retention_check_ms: i64,
    /// How often recovery points are written down (`log.flush.offset.checkpoint.interval.ms`).
    pub checkpoint_ms: i64,
    /// After how long a silent producer is forgotten (`producer.id.expiration.ms`).
    pub producer_expiration_ms: i64,
    /// Least time between two looks for silent producers of a log (`producer.id.expiration.check.interval.ms`).
    pub producer_expiration_check_ms: i64,
    /// How often high watermarks are written down (`replica.high.watermark.checkpoint.interval.ms`).
    pub high_watermark_ms: i64,
    /// Memory for the keys of one compaction (`log.cleaner.dedupe.buffer.size`).
    pub compaction_map_bytes: usize,
    /// How often logs are looked at for compaction (`log.cleaner.backoff.ms`).
    pub compaction_check_ms: i64,
    /// Whether logs are compacted at all (`log.cleaner.enable`).
    pub compacts: bool,
}

impl StorageOptions {
    /// Defaults for a data directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            recovery_threads: 2,
            flush_threads: 4,
            open_files_max: 2048,
            warm_bytes: 256 << 20,
            retention_check_ms: 300_000,
            checkpoint_ms: 60_000,
            producer_expiration_ms: 86_400_000,
            producer_expiration_check_ms: 600_000,
            high_watermark_ms: 5_000,
            compaction_map_bytes: 128 << 20,
            compaction_check_ms: 15_000,
            compacts: true,
        }
    }
}
