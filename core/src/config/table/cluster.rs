//! The node and its part in the cluster: quorum, registration, replication.

use crate::config::setting::{Kind, Setting, Valid};

/// Said of the settings here that have no effect.
const LATER: &str =
    "Known to Kafka; no effect here: an inner matter of Kafka's quorum, or replication, which comes later.";

/// Said of moves within a broker.
const ONE_DIRECTORY: &str =
    "Known to Kafka; no effect here: a broker has one log directory, so nothing moves between them.";

/// Said of how Kafka measures throttles.
const NO_WINDOWS: &str = "Known to Kafka; no effect here: a throttle lets go at once what its rate gives in a second, and no more on average.";

/// Rows in order of their names.
pub(super) const SETTINGS: &[Setting] = &[
    Setting::int("add.partitions.to.txn.retry.backoff.max.ms", "100").at_least(0).inert(LATER),
    Setting::int("add.partitions.to.txn.retry.backoff.ms", "20").at_least(1).inert(LATER),
    Setting::boolean("auto.leader.rebalance.enable", "true")
        .doc("Whether leadership goes back to the first replica of a partition, soon after that is in sync again."),
    Setting::int("broker.heartbeat.interval.ms", "2000")
        .doc("Time between two reports of a broker to the controller; that it lives it says four times as often."),
    Setting::int("broker.id", "-1").doc("Older name of node.id."),
    Setting::unset("broker.rack", Kind::Text)
        .doc("Place of the broker, for spreading replicas and reading from the nearest."),
    Setting::int("broker.session.timeout.ms", "9000")
        .doc(
            "Silence after which the controller takes a broker for dead; a sixth of it while the broker has a connection to \
             the active controller and no other broker is missing.",
        ),
    Setting::list("config.providers", "").items(&[], true).cluster_wide().inert(LATER),
    Setting::boolean("controlled.shutdown.enable", "true").inert(LATER),
    Setting::unset("controller.listener.names", Kind::List).items(&[], false).inert(LATER),
    Setting::long("controller.performance.always.log.threshold.ms", "2000").at_least(0).unlisted().inert(LATER),
    Setting::long("controller.performance.sample.period.ms", "60000").at_least(100).unlisted().inert(LATER),
    Setting::int("controller.quorum.append.linger.ms", "25").at_least(0).inert(LATER),
    Setting::boolean("controller.quorum.auto.join.enable", "false").inert(LATER),
    Setting::list("controller.quorum.bootstrap.servers", "").items(&[], true).inert(LATER),
    Setting::int("controller.quorum.election.backoff.max.ms", "1000").at_least(0).inert(LATER),
    Setting::int("controller.quorum.election.timeout.ms", "1000").at_least(0).inert(LATER),
    Setting::int("controller.quorum.fetch.max.bytes", "1048576").at_least(1).inert(LATER),
    Setting::int("controller.quorum.fetch.snapshot.max.bytes", "1048576").at_least(1).inert(LATER),
    Setting::int("controller.quorum.fetch.timeout.ms", "2000").at_least(0).inert(LATER),
    Setting::int("controller.quorum.request.timeout.ms", "2000").at_least(0).inert(LATER),
    Setting::int("controller.quorum.retry.backoff.ms", "20").at_least(0).inert(LATER),
    Setting::list("controller.quorum.voters", "").valid(Valid::Voters).inert(LATER),
    Setting::int("controller.quota.window.num", "11").at_least(1).inert(LATER),
    Setting::int("controller.quota.window.size.seconds", "1").at_least(1).inert(LATER),
    Setting::int("controller.socket.timeout.ms", "30000").inert(LATER),
    Setting::long("follower.replication.throttled.rate", "9223372036854775807")
        .at_least(0)
        .cluster_wide()
        .unlisted()
        .doc("Bytes a second that a broker fetches for its throttled replicas, all together."),
    Setting::int("initial.broker.registration.timeout.ms", "60000").inert(LATER),
    Setting::unset("inter.broker.listener.name", Kind::Text)
        .doc("Listener by which brokers reach each other; their first one if unset."),
    Setting::long("internal.metadata.delete.delay.millis", "60000").unlisted().inert(LATER),
    Setting::unset("internal.metadata.log.segment.bytes", Kind::Int).unlisted().inert(LATER),
    Setting::int("internal.metadata.max.batch.size.in.bytes", "8388608").unlisted().inert(LATER),
    Setting::long("leader.imbalance.check.interval.seconds", "300")
        .at_least(1)
        .doc("Time between looks for leaders to give back, beside those after events that may call for it."),
    Setting::long("leader.replication.throttled.rate", "9223372036854775807")
        .at_least(0)
        .cluster_wide()
        .unlisted()
        .doc("Bytes a second that a broker sends to followers of its throttled replicas, all together."),
    Setting::unset("metadata.log.dir", Kind::Text).inert(LATER),
    Setting::long("metadata.log.max.record.bytes.between.snapshots", "20971520").at_least(1).inert(LATER),
    Setting::long("metadata.log.max.snapshot.interval.ms", "3600000").at_least(0).inert(LATER),
    Setting::int("metadata.log.segment.bytes", "1073741824").at_least(8_388_608).inert(LATER),
    Setting::long("metadata.log.segment.ms", "604800000").inert(LATER),
    Setting::int("metadata.max.idle.interval.ms", "500").at_least(0).inert(LATER),
    Setting::long("metadata.max.retention.bytes", "104857600").inert(LATER),
    Setting::long("metadata.max.retention.ms", "604800000").inert(LATER),
    Setting::unset("node.id", Kind::Int).at_least(0).doc("Number of this node in the cluster."),
    Setting::int("num.replica.fetchers", "1")
        .at_least(1)
        .cluster_wide()
        .doc("Connections by which a follower fetches from each leader."),
    Setting::unset("process.roles", Kind::List).items(&["broker", "controller"], false).doc("Roles of this node."),
    Setting::long("replica.alter.log.dirs.io.max.bytes.per.second", "9223372036854775807")
        .at_least(0)
        .cluster_wide()
        .unlisted()
        .inert(ONE_DIRECTORY),
    Setting::int("replica.fetch.backoff.ms", "1000").at_least(0).doc(
        "Longest pause before a follower asks again for a partition that its leader refused; the first are shorter.",
    ),
    Setting::int("replica.fetch.max.bytes", "1048576")
        .at_least(0)
        .doc("Bytes of one partition in an answer to a follower; the first batch may be larger."),
    Setting::int("replica.fetch.min.bytes", "1")
        .doc("Bytes for which the answer to a follower waits, at most replica.fetch.wait.max.ms."),
    Setting::int("replica.fetch.response.max.bytes", "10485760")
        .at_least(0)
        .doc("Bytes of an answer to a follower; the first batch may be larger."),
    Setting::int("replica.fetch.wait.max.ms", "500").doc("How long the answer to a follower may wait for records."),
    Setting::long("replica.high.watermark.checkpoint.interval.ms", "5000")
        .doc("Time between two writes of the high watermarks."),
    Setting::long("replica.lag.time.max.ms", "30000").doc("How long a follower may lag before it is out of sync."),
    Setting::unset("replica.selector.class", Kind::Text).doc(
        "org.apache.kafka.common.replica.RackAwareReplicaSelector = consumers read from a replica in their rack; \
         anything else, or nothing: from the leader.",
    ),
    Setting::int("replica.socket.receive.buffer.bytes", "65536").inert(LATER),
    Setting::int("replica.socket.timeout.ms", "30000").doc(
        "How long a follower waits for a connection to a leader, or for its answer on top of the wait it asked for.",
    ),
    Setting::int("replication.quota.window.num", "11").at_least(1).inert(NO_WINDOWS),
    Setting::int("replication.quota.window.size.seconds", "1").at_least(1).inert(NO_WINDOWS),
    Setting::long("server.max.startup.time.ms", "9223372036854775807").at_least(0).unlisted().inert(LATER),
    Setting::boolean("unclean.leader.election.enable", "false")
        .cluster_wide()
        .doc("Default of the topic setting of this name."),
    Setting::long("unclean.leader.election.interval.ms", "300000").at_least(1).unlisted().inert(LATER),
    Setting::boolean("unstable.api.versions.enable", "false").unlisted().inert(LATER),
    Setting::boolean("unstable.feature.versions.enable", "false").unlisted().inert(LATER),
];
