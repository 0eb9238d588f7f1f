//! How many partitions are in which state. Each partition remembers what it was counted as, so that a change costs as much
//! as itself and not a look at all partitions.

use std::cmp::Ordering;

use prometheus::IntGauge;
use taffrail_core::event::PartitionState;

use crate::metrics::Metrics;

/// The gauges of a broker's replicas.
pub(super) struct Gauges {
    leaders: IntGauge,
    partitions: IntGauge,
    offline: IntGauge,
    under_replicated: IntGauge,
    under_min: IntGauge,
    at_min: IntGauge,
}

/// What a replica counts as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Standing {
    is_kept: bool,
    is_offline: bool,
    leads: bool,
    is_under_replicated: bool,
    is_under_min: bool,
    is_at_min: bool,
}

impl Standing {
    /// Not here.
    pub(super) const GONE: Self = Self {
        is_kept: false,
        is_offline: false,
        leads: false,
        is_under_replicated: false,
        is_under_min: false,
        is_at_min: false,
    };

    /// A replica whose log cannot be opened.
    pub(super) const OFFLINE: Self = Self { is_kept: true, is_offline: true, ..Self::GONE };

    /// A replica that follows.
    pub(super) const FOLLOWS: Self = Self { is_kept: true, ..Self::GONE };

    /// A replica that leads; `in_sync` is how many there are against the minimum.
    pub(super) fn leads(state: &PartitionState, in_sync: Ordering) -> Self {
        Self {
            leads: true,
            is_under_replicated: state.is_under_replicated(),
            is_under_min: in_sync.is_lt(),
            is_at_min: in_sync.is_eq() && state.replicas.len() > 1,
            ..Self::FOLLOWS
        }
    }
}

impl Standing {
    /// Whether it is led here with replicas out of sync.
    pub(super) fn is_under_replicated(self) -> bool {
        self.is_under_replicated
    }
}

impl Gauges {
    pub(super) fn of(metrics: &Metrics) -> Self {
        Self {
            leaders: metrics.leader_count.clone(),
            partitions: metrics.partition_count.clone(),
            offline: metrics.offline_replica_count.clone(),
            under_replicated: metrics.under_replicated.clone(),
            under_min: metrics.under_min_isr.clone(),
            at_min: metrics.at_min_isr.clone(),
        }
    }

    /// Whether followers of a partition that is led here are out of sync.
    pub(super) fn any_under_replicated(&self) -> bool {
        self.under_replicated.get() > 0
    }

    /// A replica that counted as `before` counts as `after` now.
    pub(super) fn change(&self, before: Standing, after: Standing) {
        let counted = [
            (&self.partitions, before.is_kept, after.is_kept),
            (&self.offline, before.is_offline, after.is_offline),
            (&self.leaders, before.leads, after.leads),
            (&self.under_replicated, before.is_under_replicated, after.is_under_replicated),
            (&self.under_min, before.is_under_min, after.is_under_min),
            (&self.at_min, before.is_at_min, after.is_at_min),
        ];
        for (gauge, was_counted, is_counted) in counted {
            match (was_counted, is_counted) {
                (false, true) => gauge.inc(),
                (true, false) => gauge.dec(),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use taffrail_core::ids::BrokerId;

    use super::*;

    fn state(replicas: &[i32], isr: &[i32]) -> PartitionState {
        let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
        PartitionState::new(ids(replicas), ids(isr))
    }

    #[test]
    fn gauges_are_the_sums_of_what_the_replicas_count_as() {
        let metrics = Metrics::new();
        let gauges = Gauges::of(&metrics);
        let read = || {
            [
                metrics.partition_count.get(),
                metrics.offline_replica_count.get(),
                metrics.leader_count.get(),
                metrics.under_replicated.get(),
                metrics.under_min_isr.get(),
                metrics.at_min_isr.get(),
            ]
        };
        let full = Standing::leads(&state(&[1, 2], &[1, 2]), Ordering::Greater);
        let short = Standing::leads(&state(&[1, 2], &[1]), Ordering::Equal);
        let below = Standing::leads(&state(&[1, 2], &[1]), Ordering::Less);
        let steps = [
            (Standing::GONE, Standing::OFFLINE, [1, 1, 0, 0, 0, 0]),
            (Standing::OFFLINE, Standing::FOLLOWS, [1, 0, 0, 0, 0, 0]),
            (Standing::FOLLOWS, full, [1, 0, 1, 0, 0, 0]),
            (full, short, [1, 0, 1, 1, 0, 1]),
            (short, below, [1, 0, 1, 1, 1, 0]),
            (below, below, [1, 0, 1, 1, 1, 0]),
            (below, Standing::GONE, [0; 6]),
        ];
        for (before, after, expected) in steps {
            gauges.change(before, after);
            assert_eq!(read(), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_partition_of_one_replica_is_not_at_its_minimum_and_replicas_on_their_way_are_not_missed() {
        let alone = Standing::leads(&state(&[1], &[1]), Ordering::Equal);
        assert_eq!(alone, Standing { leads: true, ..Standing::FOLLOWS });
        let moving = PartitionState { adding: vec![BrokerId(2)], ..state(&[1, 2], &[1]) };
        assert!(!Standing::leads(&moving, Ordering::Greater).is_under_replicated);
    }
}
