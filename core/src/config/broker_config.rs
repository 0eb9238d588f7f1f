//! A broker's settings as the broker uses them.

use super::layers::{BrokerLayers, Overrides};
use super::setting::Scope;
use super::topic_config::TopicConfig;
use super::typed::typed_config;
use super::validate::{self, ConfigError};

typed_config! {
    /// The broker settings that we act on. Sizes are in bytes, times in milliseconds unless the name says otherwise.
    Broker BrokerConfig {
        /// Whether asking for an unknown topic creates it.
        auto_create_topics_enable: bool = "auto.create.topics.enable",
        /// Threads for housekeeping of files.
        background_threads: i32 = "background.threads",
        /// Time between heartbeats to the controller.
        broker_heartbeat_interval_ms: i32 = "broker.heartbeat.interval.ms",
        /// Place of the broker.
        broker_rack: Option<String> = "broker.rack",
        /// Silence after which a broker is taken for dead.
        broker_session_timeout_ms: i32 = "broker.session.timeout.ms",
        /// Idle time after which a connection is closed; negative = never.
        connections_max_idle_ms: i64 = "connections.max.idle.ms",
        /// Replicas of a topic created without saying.
        default_replication_factor: i32 = "default.replication.factor",
        /// Whether topics can be deleted.
        delete_topic_enable: bool = "delete.topic.enable",
        /// Largest answer to one Fetch.
        fetch_max_bytes: i32 = "fetch.max.bytes",
        /// First wait of a new group.
        group_initial_rebalance_delay_ms: i32 = "group.initial.rebalance.delay.ms",
        /// Longest session timeout of a member.
        group_max_session_timeout_ms: i32 = "group.max.session.timeout.ms",
        /// Members that a group may have.
        group_max_size: i32 = "group.max.size",
        /// Shortest session timeout of a member.
        group_min_session_timeout_ms: i32 = "group.min.session.timeout.ms",
        /// Pause of the idle cleaner.
        log_cleaner_backoff_ms: i64 = "log.cleaner.backoff.ms",
        /// Memory for keys under compaction.
        log_cleaner_dedupe_buffer_bytes: i64 = "log.cleaner.dedupe.buffer.size",
        /// Whether compaction runs.
        log_cleaner_enable: bool = "log.cleaner.enable",
        /// How full the table of keys may get.
        log_cleaner_io_buffer_load_factor: f64 = "log.cleaner.io.buffer.load.factor",
        /// Memory for reads and writes of compactions.
        log_cleaner_io_buffer_bytes: i32 = "log.cleaner.io.buffer.size",
        /// Bytes a second that compaction reads and writes.
        log_cleaner_io_max_bytes_per_second: f64 = "log.cleaner.io.max.bytes.per.second",
        /// Compactions at the same time.
        log_cleaner_threads: i32 = "log.cleaner.threads",
        /// Time between writes of recovery points.
        log_flush_offset_checkpoint_interval_ms: i32 = "log.flush.offset.checkpoint.interval.ms",
        /// Time between looks for due flushes.
        log_flush_scheduler_interval_ms: i64 = "log.flush.scheduler.interval.ms",
        /// Time between writes of log start offsets.
        log_flush_start_offset_checkpoint_interval_ms: i32 = "log.flush.start.offset.checkpoint.interval.ms",
        /// Pause before the first housekeeping.
        log_initial_task_delay_ms: i64 = "log.initial.task.delay.ms",
        /// Time between looks for old segments.
        log_retention_check_interval_ms: i64 = "log.retention.check.interval.ms",
        /// Connections of the broker.
        max_connections: i32 = "max.connections",
        /// Connections from one address.
        max_connections_per_ip: i32 = "max.connections.per.ip",
        /// Other limits for single addresses: `host:count` entries, separated by commas.
        max_connections_per_ip_overrides: String = "max.connections.per.ip.overrides",
        /// Incremental fetch sessions.
        max_incremental_fetch_session_cache_slots: i32 = "max.incremental.fetch.session.cache.slots",
        /// Partitions in one request.
        max_request_partition_size_limit: i32 = "max.request.partition.size.limit",
        /// Number of this node; unset until it is given.
        node_id: Option<i32> = "node.id",
        /// Shards that serve connections.
        num_network_threads: i32 = "num.network.threads",
        /// Partitions of a topic created without saying.
        num_partitions: i32 = "num.partitions",
        /// Threads that recover partitions.
        num_recovery_threads_per_data_dir: i32 = "num.recovery.threads.per.data.dir",
        /// Longest text with an offset.
        offset_metadata_max_bytes: i32 = "offset.metadata.max.bytes",
        /// Wait for a commit to be replicated.
        offsets_commit_timeout_ms: i32 = "offsets.commit.timeout.ms",
        /// Bytes read at a time while loading groups.
        offsets_load_buffer_bytes: i32 = "offsets.load.buffer.size",
        /// Time between looks for expired offsets.
        offsets_retention_check_interval_ms: i64 = "offsets.retention.check.interval.ms",
        /// How long offsets of an empty group are kept, in minutes.
        offsets_retention_minutes: i32 = "offsets.retention.minutes",
        /// Codec of `__consumer_offsets`, by its id.
        offsets_topic_compression_codec: i32 = "offsets.topic.compression.codec",
        /// Partitions of `__consumer_offsets`.
        offsets_topic_num_partitions: i32 = "offsets.topic.num.partitions",
        /// Replicas of `__consumer_offsets`.
        offsets_topic_replication_factor: i16 = "offsets.topic.replication.factor",
        /// Segment size of `__consumer_offsets`.
        offsets_topic_segment_bytes: i32 = "offsets.topic.segment.bytes",
        /// Time between looks for expired producers.
        producer_id_expiration_check_interval_ms: i32 = "producer.id.expiration.check.interval.ms",
        /// How long an idle producer is remembered.
        producer_id_expiration_ms: i32 = "producer.id.expiration.ms",
        /// Requests of one connection under way.
        queued_max_requests: i32 = "queued.max.requests",
        /// Time between writes of high watermarks.
        replica_high_watermark_checkpoint_interval_ms: i64 = "replica.high.watermark.checkpoint.interval.ms",
        /// How long a request to another node may take.
        request_timeout_ms: i32 = "request.timeout.ms",
        /// Connections waiting to be accepted.
        socket_listen_backlog_size: i32 = "socket.listen.backlog.size",
        /// Receive buffer of a connection; -1 = the kernel's.
        socket_receive_buffer_bytes: i32 = "socket.receive.buffer.bytes",
        /// Largest request frame.
        socket_request_max_bytes: i32 = "socket.request.max.bytes",
        /// Send buffer of a connection; -1 = the kernel's.
        socket_send_buffer_bytes: i32 = "socket.send.buffer.bytes",
    }
}

impl BrokerConfig {
    /// The settings of a broker with these layers.
    ///
    /// # Errors
    /// When a value that somebody gave is out of range; what went through [`validate_broker`] is not.
    pub fn resolve(layers: &BrokerLayers) -> Result<Self, ConfigError> {
        Self::read(&|setting| layers.value(setting.name).map(str::to_owned))
    }
}

impl Default for BrokerConfig {
    fn default() -> Self {
        match Self::resolve(&BrokerLayers::default()) {
            Ok(config) => config,
            Err(error) => unreachable!("the table's own defaults are valid: {error}"),
        }
    }
}

/// Whether a broker may have these layers.
///
/// # Errors
/// The first setting that is unknown, out of range, or at odds with another one, in words for a user.
pub fn validate_broker(layers: &BrokerLayers) -> Result<(), ConfigError> {
    for (_, layer) in layers.layers() {
        for (name, value) in layer {
            validate::validate(Scope::Broker, name, value)?;
        }
    }
    let broker = BrokerConfig::resolve(layers)?;
    let topics = TopicConfig::resolve(&Overrides::new(), layers)?;
    let (min, max) = (broker.group_min_session_timeout_ms, broker.group_max_session_timeout_ms);
    if min > max {
        return Err(ConfigError::Conflict(format!(
            "group.min.session.timeout.ms ({min}) must not be greater than group.max.session.timeout.ms ({max})"
        )));
    }
    let (min, max) = (topics.min_compaction_lag_ms, topics.max_compaction_lag_ms);
    if min > max {
        return Err(ConfigError::Conflict(format!(
            "log.cleaner.min.compaction.lag.ms ({min}) must not be greater than \
             log.cleaner.max.compaction.lag.ms ({max})"
        )));
    }
    if topics.retention_ms == 0 {
        return Err(ConfigError::Conflict(
            "log.retention.ms must be unlimited (-1) or, equal or greater than 1".to_owned(),
        ));
    }
    Ok(())
}
