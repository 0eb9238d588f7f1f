//! What all partitions of a broker share: who it is, what it knows of the cluster, and where changes of ISRs go.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use taffrail_core::control::BrokerIdentity;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_runtime::time;

use super::gauges::Gauges;
use super::throttled::Throttles;
use crate::metadata::MetadataCache;
use crate::metrics::{Losses, Metrics};
use crate::replication::IsrChanges;

/// `replica.lag.time.max.ms` until the settings are known.
const LAG_MAX_MS: i64 = 30_000;

/// See the module.
pub(crate) struct Env {
    pub(super) own_id: BrokerId,
    /// The metadata that the broker acts on. While it follows a newer image, partitions are given that one.
    pub(super) metadata: Arc<MetadataCache>,
    pub(super) isr_changes: IsrChanges,
    pub(super) gauges: Gauges,
    pub(super) throttles: Throttles,
    pub(super) losses: Losses,
    lag_max_ms: AtomicI64,
    origin: time::Instant,
}

impl Env {
    pub(super) fn new(own_id: BrokerId, metadata: Arc<MetadataCache>, metrics: &Metrics) -> Arc<Self> {
        Arc::new(Self {
            own_id,
            metadata,
            isr_changes: IsrChanges::new(metrics),
            gauges: Gauges::of(metrics),
            throttles: Throttles::default(),
            losses: metrics.losses.clone(),
            lag_max_ms: AtomicI64::new(LAG_MAX_MS),
            origin: time::monotonic(),
        })
    }

    /// Milliseconds on a clock that never goes back, by which followers are judged.
    pub(super) fn now_ms(&self) -> i64 {
        i64::try_from(time::monotonic().duration_since(self.origin).as_millis()).unwrap_or(i64::MAX)
    }

    /// How long a follower in sync may lag (`replica.lag.time.max.ms`).
    pub(super) fn lag_max_ms(&self) -> i64 {
        self.lag_max_ms.load(Ordering::Relaxed)
    }

    pub(super) fn set_lag_max_ms(&self, lag_max_ms: i64) {
        self.lag_max_ms.store(lag_max_ms.max(1), Ordering::Relaxed);
    }

    /// This broker, as it is registered in `image`; with epoch -1 if it is not.
    pub(super) fn identity(&self, image: &MetadataImage) -> BrokerIdentity {
        BrokerIdentity { id: self.own_id, epoch: image.broker(self.own_id).map_or(-1, |broker| broker.epoch) }
    }
}
