//! Names of tiered storage: known, not acted on.

use crate::config::setting::{Kind, Setting, Valid};

/// Said of the settings here that have no effect.
const LATER: &str = "Known to Kafka; no effect here: tiered storage is not part of Taffrail yet.";

/// Kafka's default of `remote.log.metadata.manager.class.name`.
const MANAGER: &str = "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager";

/// Rows in order of their names.
pub(super) const SETTINGS: &[Setting] = &[
    Setting::boolean("follower.fetch.last.tiered.offset.enable", "false").cluster_wide().inert(LATER),
    Setting::long("log.local.retention.bytes", "-2").at_least(-2).cluster_wide().inert(LATER),
    Setting::long("log.local.retention.ms", "-2").at_least(-2).cluster_wide().inert(LATER),
    Setting::long("log.remote.copy.lag.bytes", "-1").at_least(-1).cluster_wide().inert(LATER),
    Setting::long("log.remote.copy.lag.ms", "0").at_least(-1).cluster_wide().inert(LATER),
    Setting::int("remote.fetch.max.wait.ms", "500").at_least(1).cluster_wide().inert(LATER),
    Setting::long("remote.list.offsets.request.timeout.ms", "30000").at_least(1).cluster_wide().inert(LATER),
    Setting::long("remote.log.index.file.cache.total.size.bytes", "1073741824").at_least(1).cluster_wide().inert(LATER),
    Setting::long("remote.log.index.file.cache.ttl.ms", "900000").at_least(-1).unlisted().inert(LATER),
    Setting::int("remote.log.manager.copier.thread.pool.size", "10").at_least(1).cluster_wide().inert(LATER),
    Setting::long("remote.log.manager.copy.max.bytes.per.second", "9223372036854775807")
        .at_least(1)
        .cluster_wide()
        .inert(LATER),
    Setting::int("remote.log.manager.copy.quota.window.num", "11").at_least(1).inert(LATER),
    Setting::int("remote.log.manager.copy.quota.window.size.seconds", "1").at_least(1).inert(LATER),
    Setting::int("remote.log.manager.expiration.thread.pool.size", "10").at_least(1).cluster_wide().inert(LATER),
    Setting::long("remote.log.manager.fetch.max.bytes.per.second", "9223372036854775807")
        .at_least(1)
        .cluster_wide()
        .inert(LATER),
    Setting::int("remote.log.manager.fetch.quota.window.num", "11").at_least(1).inert(LATER),
    Setting::int("remote.log.manager.fetch.quota.window.size.seconds", "1").at_least(1).inert(LATER),
    Setting::int("remote.log.manager.follower.thread.pool.size", "2").at_least(1).cluster_wide().inert(LATER),
    Setting::long("remote.log.manager.task.interval.ms", "30000").at_least(1).inert(LATER),
    Setting::long("remote.log.manager.task.retry.backoff.max.ms", "30000").at_least(1).unlisted().inert(LATER),
    Setting::long("remote.log.manager.task.retry.backoff.ms", "500").at_least(1).unlisted().inert(LATER),
    Setting::double("remote.log.manager.task.retry.jitter", "0.2")
        .valid(Valid::Decimal(0.0, 0.5))
        .unlisted()
        .inert(LATER),
    Setting::int("remote.log.manager.thread.pool.size", "2").at_least(1).inert(LATER),
    Setting::int("remote.log.metadata.custom.metadata.max.bytes", "128").at_least(0).inert(LATER),
    Setting::text("remote.log.metadata.manager.class.name", MANAGER).valid(Valid::NonEmpty).inert(LATER),
    Setting::unset("remote.log.metadata.manager.class.path", Kind::Text).inert(LATER),
    Setting::text("remote.log.metadata.manager.impl.prefix", "rlmm.config.").valid(Valid::NonEmpty).inert(LATER),
    Setting::unset("remote.log.metadata.manager.listener.name", Kind::Text).valid(Valid::NonEmpty).inert(LATER),
    Setting::int("remote.log.reader.max.pending.tasks", "100").at_least(1).inert(LATER),
    Setting::int("remote.log.reader.threads", "10").at_least(1).cluster_wide().inert(LATER),
    Setting::unset("remote.log.storage.manager.class.name", Kind::Text).valid(Valid::NonEmpty).inert(LATER),
    Setting::unset("remote.log.storage.manager.class.path", Kind::Text).inert(LATER),
    Setting::text("remote.log.storage.manager.impl.prefix", "rsm.config.").valid(Valid::NonEmpty).inert(LATER),
    Setting::boolean("remote.log.storage.system.enable", "false").inert(LATER),
];
