//! A broker's settings as the broker uses them.

use super::layers::{BrokerLayers, Overrides, Source};
use super::setting::Scope;
use super::table;
use super::topic_config::TopicConfig;
use super::typed::typed_config;
use super::validate::{self, ConfigError};

typed_config! {
    /// The broker settings that we act on. Sizes are in bytes, times in milliseconds unless the name says otherwise.
    Broker BrokerConfig {
        /// Whether asking for an unknown topic creates it.
        auto_create_topics_enable: bool = "auto.create.topics.enable",
        /// Whether leadership is given back to preferred leaders.
        auto_leader_rebalance_enable: bool = "auto.leader.rebalance.enable",
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
        /// Bytes a second that the broker fetches for its throttled replicas.
        follower_replication_throttled_rate: i64 = "follower.replication.throttled.rate",
        /// First wait of a new group.
        group_initial_rebalance_delay_ms: i32 = "group.initial.rebalance.delay.ms",
        /// Longest session timeout of a member.
        group_max_session_timeout_ms: i32 = "group.max.session.timeout.ms",
        /// Members that a group may have.
        group_max_size: i32 = "group.max.size",
        /// Shortest session timeout of a member.
        group_min_session_timeout_ms: i32 = "group.min.session.timeout.ms",
        /// Listener by which brokers reach each other; their first one if unset.
        inter_broker_listener_name: Option<String> = "inter.broker.listener.name",
        /// Time between looks for leaders that are not the preferred ones.
        leader_imbalance_check_interval_seconds: i64 = "leader.imbalance.check.interval.seconds",
        /// Bytes a second that the broker sends to followers of its throttled replicas.
        leader_replication_throttled_rate: i64 = "leader.replication.throttled.rate",
        /// Pause of the idle cleaner.
        log_cleaner_backoff_ms: i64 = "log.cleaner.backoff.ms",
        /// Memory for keys under compaction.
        log_cleaner_dedupe_buffer_bytes: i64 = "log.cleaner.dedupe.buffer.size",
        /// Whether compaction runs.
        log_cleaner_enable: bool = "log.cleaner.enable",
        /// Time between writes of recovery points.
        log_flush_offset_checkpoint_interval_ms: i32 = "log.flush.offset.checkpoint.interval.ms",
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
        /// Partitions of a topic created without saying.
        num_partitions: i32 = "num.partitions",
        /// Threads that recover partitions.
        num_recovery_threads_per_data_dir: i32 = "num.recovery.threads.per.data.dir",
        /// Connections by which a follower fetches from each leader.
        num_replica_fetchers: i32 = "num.replica.fetchers",
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
        /// Longest pause before a follower asks again for a partition that its leader refused.
        replica_fetch_backoff_ms: i32 = "replica.fetch.backoff.ms",
        /// Bytes of one partition in an answer to a follower.
        replica_fetch_max_bytes: i32 = "replica.fetch.max.bytes",
        /// Bytes for which the answer to a follower waits.
        replica_fetch_min_bytes: i32 = "replica.fetch.min.bytes",
        /// Bytes of an answer to a follower.
        replica_fetch_response_max_bytes: i32 = "replica.fetch.response.max.bytes",
        /// How long the answer to a follower may wait.
        replica_fetch_wait_max_ms: i32 = "replica.fetch.wait.max.ms",
        /// Time between writes of high watermarks.
        replica_high_watermark_checkpoint_interval_ms: i64 = "replica.high.watermark.checkpoint.interval.ms",
        /// How long a follower in sync may lag.
        replica_lag_time_max_ms: i64 = "replica.lag.time.max.ms",
        /// Which replica consumers are sent to; unset = the leader.
        replica_selector_class: Option<String> = "replica.selector.class",
        /// How long a follower waits for a connection to a leader, or for its answer.
        replica_socket_timeout_ms: i32 = "replica.socket.timeout.ms",
        /// Memory for requests; -1 = our own limit.
        queued_max_request_bytes: i64 = "queued.max.request.bytes",
        /// Least replicas in sync of the share groups' topic.
        share_coordinator_state_topic_min_isr: i32 = "share.coordinator.state.topic.min.isr",
        /// Partitions of the share groups' topic.
        share_coordinator_state_topic_num_partitions: i32 = "share.coordinator.state.topic.num.partitions",
        /// Replicas of the share groups' topic.
        share_coordinator_state_topic_replication_factor: i16 = "share.coordinator.state.topic.replication.factor",
        /// Segment size of the share groups' topic.
        share_coordinator_state_topic_segment_bytes: i32 = "share.coordinator.state.topic.segment.bytes",
        /// Largest request frame.
        socket_request_max_bytes: i32 = "socket.request.max.bytes",
        /// Least replicas in sync of the transactions' topic.
        transaction_state_log_min_isr: i32 = "transaction.state.log.min.isr",
        /// Partitions of the transactions' topic.
        transaction_state_log_num_partitions: i32 = "transaction.state.log.num.partitions",
        /// Replicas of the transactions' topic.
        transaction_state_log_replication_factor: i16 = "transaction.state.log.replication.factor",
        /// Segment size of the transactions' topic.
        transaction_state_log_segment_bytes: i32 = "transaction.state.log.segment.bytes",
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
/// The first setting that is unknown, out of range, or at odds with another one, in words for a user. Names that are set at
/// run time may be anybody's (see [`BrokerLayers::custom`]).
pub fn validate_broker(layers: &BrokerLayers) -> Result<(), ConfigError> {
    for (source, layer) in layers.layers() {
        for (name, value) in layer {
            match table::find(Scope::Broker, name) {
                None if source != Source::Static => {}
                _ => validate::validate(Scope::Broker, name, value)?,
            }
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
    if broker.max_connections_per_ip == 0 && broker.max_connections_per_ip_overrides.is_empty() {
        return Err(ConfigError::Conflict(
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
                .to_owned(),
        ));
    }
    if topics.retention_ms == 0 {
        return Err(ConfigError::Conflict(
            "log.retention.ms must be unlimited (-1) or, equal or greater than 1".to_owned(),
        ));
    }
    Ok(())
}
