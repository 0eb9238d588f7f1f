//! Producers and transactions.

use crate::config::setting::Setting;

/// Said of the settings here that have no effect.
const LATER: &str = "Known to Kafka; no effect here: transactions come later.";

/// Rows in order of their names.
pub(super) const SETTINGS: &[Setting] = &[
    Setting::int("producer.id.expiration.check.interval.ms", "600000")
        .at_least(1)
        .unlisted()
        .doc("Least time between two looks for expired producers of a partition."),
    Setting::int("producer.id.expiration.ms", "86400000")
        .at_least(1)
        .cluster_wide()
        .doc("How long an idle producer's sequence numbers are remembered."),
    Setting::int("producer.purgatory.purge.interval.requests", "1000").inert(LATER),
    Setting::int("transaction.abort.timed.out.transaction.cleanup.interval.ms", "10000").at_least(1).inert(LATER),
    Setting::int("transaction.max.timeout.ms", "900000").at_least(1).inert(LATER),
    Setting::boolean("transaction.partition.verification.enable", "true").cluster_wide().inert(LATER),
    Setting::int("transaction.remove.expired.transaction.cleanup.interval.ms", "3600000").at_least(1).inert(LATER),
    Setting::int("transaction.state.log.load.buffer.size", "5242880").at_least(1).inert(LATER),
    Setting::int("transaction.state.log.min.isr", "2")
        .at_least(1)
        .doc("Replicas of __transaction_state that must be in sync for a write."),
    Setting::int("transaction.state.log.num.partitions", "50").at_least(1).doc("Partitions of __transaction_state."),
    Setting::short("transaction.state.log.replication.factor", "3").at_least(1).doc("Replicas of __transaction_state."),
    Setting::int("transaction.state.log.segment.bytes", "104857600")
        .at_least(1)
        .doc("Segment size of __transaction_state."),
    Setting::boolean("transaction.two.phase.commit.enable", "false").inert(LATER),
    Setting::int("transactional.id.expiration.ms", "604800000").at_least(1).inert(LATER),
];
