//! Committed records that are gone, as ranges of offsets. That happens only where more replicas lost their unwritten data at
//! once than a topic's `min.insync.replicas` protects from, or where somebody asked for an unclean election.
//!
//! Two see it: the new leader, whose log ends too early, and followers that have to cut what it does not have. The leader
//! knows the exact beginning; where the lost range ended is known as far as somebody has written down a high watermark.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{IntCounter, IntGaugeVec, Registry};
use taffrail_core::ids::{LeaderEpoch, Offset, TopicPartition};
use taffrail_core::metric::Metric;

use super::{made, register, table};

/// Partitions that are remembered; what is lost in others is counted and logged.
const PARTITIONS_MAX: usize = 1_000;

/// What of a partition is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Whose records.
    pub partition: TopicPartition,
    /// The leadership that goes on without them. All records of earlier ones are gone from `from` on.
    pub leader_epoch: LeaderEpoch,
    /// Offset of the first one.
    pub from: Offset,
    /// The first offset that is not known to have been committed; there may have been more. `from` = none is known.
    pub to: Offset,
}

/// The losses that this broker knows of. Clones share them.
#[derive(Clone)]
pub(crate) struct Losses {
    records: IntCounter,
    from: IntGaugeVec,
    to: IntGaugeVec,
    known: Arc<Mutex<BTreeMap<TopicPartition, Loss>>>,
}

impl Losses {
    pub(super) fn new(registry: &Registry) -> Self {
        let gauge = |metric: &Metric| register(registry, made(IntGaugeVec::new(table::opts(metric), metric.labels)));
        Self {
            records: register(registry, made(IntCounter::with_opts(table::opts(&table::LOST_RECORDS)))),
            from: gauge(&table::LOST_FROM),
            to: gauge(&table::LOST_TO),
            known: Arc::default(),
        }
    }

    /// Notes a loss. One that overlaps what was lost before in the same partition is the same one.
    pub(crate) fn note(&self, mut loss: Loss) {
        let mut known = self.known.lock();
        let before = known.get(&loss.partition).filter(|before| loss.from <= before.to && before.from <= loss.to);
        let counted = before.map_or(0, |before| before.to - before.from);
        if let Some(before) = before {
            (loss.from, loss.to) = (loss.from.min(before.from), loss.to.max(before.to));
        }
        self.records.inc_by(u64::try_from(loss.to - loss.from - counted).unwrap_or(0));
        if known.len() < PARTITIONS_MAX || known.contains_key(&loss.partition) {
            let labels = [&*loss.partition.topic, &loss.partition.partition.to_string()];
            self.from.with_label_values(&labels).set(loss.from);
            self.to.with_label_values(&labels).set(loss.to);
            known.insert(loss.partition.clone(), loss);
        }
    }

    /// The latest loss of each partition.
    pub(crate) fn known(&self) -> Vec<Loss> {
        self.known.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_counted_once_and_told_as_one_range() {
        let losses = Losses::new(&Registry::new());
        let partition = TopicPartition::new("t", 0);
        // Ranges that are noted, what the partition has lost then, and the records counted until then.
        let cases =
            [((10, 10), (10, 10), 0), ((10, 14), (10, 14), 4), ((12, 16), (10, 16), 6), ((30, 33), (30, 33), 9)];
        for ((from, to), expected, records) in cases {
            losses.note(Loss { partition: partition.clone(), leader_epoch: 3, from, to });
            let known: Vec<_> = losses.known().iter().map(|loss| (loss.from, loss.to)).collect();
            assert_eq!((known, losses.records.get()), (vec![expected], records), "{from} to {to}");
        }
    }
}
