//! Connections, requests and limits of the network.

use crate::config::setting::{Kind, Setting, Valid};

/// Said of the settings here that have no effect.
const LATER: &str =
    "Known to Kafka; no effect here: an inner matter of Kafka's network layer, or quotas, which come later.";

/// Said of the sizes of sockets' buffers.
const KERNEL: &str = "Known to Kafka; no effect here: the kernel sizes the buffers of sockets as each needs it.";

/// Kafka's default of `listener.security.protocol.map`.
const PROTOCOLS: &str = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT";

/// Rows in order of their names.
pub(super) const SETTINGS: &[Setting] = &[
    Setting::unset("advertised.listeners", Kind::List)
        .items(&[], false)
        .doc("Addresses that clients are told, when they differ from listeners."),
    Setting::unset("client.quota.callback.class", Kind::Class).inert(LATER),
    Setting::long("connections.max.idle.ms", "600000").doc("Idle time after which a client's connection is closed."),
    Setting::int("delete.records.purgatory.purge.interval.requests", "1").inert(LATER),
    Setting::int("fetch.max.bytes", "57671680")
        .at_least(1024)
        .doc("Largest answer to one Fetch, unless its first batch alone is larger."),
    Setting::int("fetch.purgatory.purge.interval.requests", "1000").inert(LATER),
    Setting::int("kafka.metrics.polling.interval.secs", "10").at_least(1).inert(LATER),
    Setting::list("kafka.metrics.reporters", "").items(&[], true).inert(LATER),
    Setting::text("listener.security.protocol.map", PROTOCOLS).per_broker().inert(LATER),
    Setting::list("listeners", "PLAINTEXT://:9092")
        .items(&[], false)
        .per_broker()
        .doc("Addresses that clients connect to."),
    Setting::int("max.connection.creation.rate", "2147483647").at_least(0).cluster_wide().inert(LATER),
    Setting::int("max.connections", "2147483647")
        .at_least(1)
        .cluster_wide()
        .doc("Connections that one broker accepts; at most half of the files that its process may open."),
    Setting::int("max.connections.per.ip", "2147483647")
        .at_least(0)
        .cluster_wide()
        .doc("Connections that one broker accepts from one address."),
    Setting::text("max.connections.per.ip.overrides", "")
        .cluster_wide()
        .valid(Valid::HostLimits)
        .doc("Other limits for single addresses: host:count entries. Names are looked up when the setting is made, and at the start."),
    Setting::int("max.incremental.fetch.session.cache.slots", "1000")
        .at_least(0)
        .doc("Incremental fetch sessions that a broker keeps."),
    Setting::int("max.request.partition.size.limit", "2000")
        .at_least(1)
        .doc("Partitions that one request may ask for."),
    Setting::list("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter")
        .items(&[], true)
        .cluster_wide()
        .inert(LATER),
    Setting::int("metrics.num.samples", "2").at_least(1).inert(LATER),
    Setting::text("metrics.recording.level", "INFO").inert(LATER),
    Setting::long("metrics.sample.window.ms", "30000").at_least(1).inert(LATER),
    Setting::int("num.io.threads", "8").at_least(1).cluster_wide().inert(LATER),
    Setting::int("num.network.threads", "3")
        .at_least(1)
        .cluster_wide()
        .inert("Known to Kafka; no effect here: the process setting shards says it."),
    Setting::long("queued.max.request.bytes", "-1").doc(
        "Memory for requests that are received or handled: further ones wait. Never less than the largest request; -1 \
         stands for 256 MiB, or two of the largest requests.",
    ),
    Setting::int("queued.max.requests", "500").at_least(1).inert(LATER),
    Setting::int("quota.window.num", "11").at_least(1).inert(LATER),
    Setting::int("quota.window.size.seconds", "1").at_least(1).inert(LATER),
    Setting::int("request.timeout.ms", "30000").inert(LATER),
    Setting::long("socket.connection.setup.timeout.max.ms", "30000").inert(LATER),
    Setting::long("socket.connection.setup.timeout.ms", "10000").inert(LATER),
    Setting::int("socket.listen.backlog.size", "50").at_least(1).inert(LATER),
    Setting::int("socket.receive.buffer.bytes", "102400").inert(KERNEL),
    Setting::int("socket.request.max.bytes", "104857600").at_least(1).doc("Largest request frame."),
    Setting::int("socket.send.buffer.bytes", "102400").inert(KERNEL),
    Setting::int("telemetry.max.bytes", "1048576").at_least(1).inert(LATER),
];
