//! Which brokers have been heard of, and which have been silent for too long.
//!
//! Known to the active controller alone, in memory. A controller that has just become active gives every broker a whole
//! session timeout, so that a change of controllers fences nobody.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use taffrail_core::control::{BrokerIdentity, Command};
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time::{self, Instant};

use crate::decider::Proposer;
use crate::machine::feed::Feed;
use crate::quorum::view::leads;
use crate::raft::Raft;

/// How often silent brokers are looked for.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// Heartbeats by broker.
#[derive(Debug)]
pub(crate) struct Sessions {
    timeout: Duration,
    heard: Mutex<BTreeMap<BrokerId, Heard>>,
}

#[derive(Debug, Clone, Copy)]
struct Heard {
    epoch: i64,
    at: Instant,
}

impl Sessions {
    /// Sessions that end after `timeout` of silence.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout, heard: Mutex::default() }
    }

    /// The broker has been heard of.
    pub(crate) fn touch(&self, broker: BrokerIdentity) {
        self.heard.lock().insert(broker.id, Heard { epoch: broker.epoch, at: time::monotonic() });
    }

    /// Brokers whose registered process has been heard of within the timeout.
    pub(crate) fn live(&self, image: &MetadataImage) -> Vec<BrokerId> {
        let now = time::monotonic();
        let heard = self.heard.lock();
        let is_live = |id: &BrokerId, epoch: i64| {
            heard.get(id).is_some_and(|heard| heard.epoch == epoch && now - heard.at < self.timeout)
        };
        image.brokers().values().filter(|broker| is_live(&broker.id, broker.epoch)).map(|broker| broker.id).collect()
    }

    /// Unfenced brokers that have been silent for the whole timeout, counted from `since` at the earliest.
    fn silent(&self, image: &MetadataImage, since: Instant) -> Vec<BrokerIdentity> {
        let now = time::monotonic();
        let mut heard = self.heard.lock();
        heard.retain(|id, _| image.broker(*id).is_some());
        let last = |id: &BrokerId, epoch: i64| {
            heard.get(id).filter(|heard| heard.epoch == epoch).map_or(since, |heard| heard.at.max(since))
        };
        let unfenced = image.brokers().values().filter(|broker| !broker.fenced);
        unfenced
            .filter(|broker| now - last(&broker.id, broker.epoch) >= self.timeout)
            .map(|broker| BrokerIdentity { id: broker.id, epoch: broker.epoch })
            .collect()
    }

    /// Fences silent brokers while this controller is the active one, until `shutdown`.
    pub(crate) async fn watch(&self, raft: Raft, feed: &Feed, proposer: Proposer, shutdown: Shutdown) {
        let mut active_since: Option<(u64, Instant)> = None;
        let mut ticks = time::interval(WATCH_INTERVAL);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = shutdown.triggered() => return,
            }
            let (term, is_active) = {
                let metrics = raft.metrics();
                let metrics = metrics.borrow();
                (metrics.current_term, leads(&metrics))
            };
            if !is_active {
                active_since = None;
                continue;
            }
            let since = match active_since {
                Some((known, since)) if known == term => since,
                _ => time::monotonic(),
            };
            active_since = Some((term, since));
            for broker in self.silent(&feed.image(), since) {
                tracing::warn!(broker = %broker.id, "fencing a broker that has been silent for {:?}", self.timeout);
                if let Err(refused) = proposer.propose(Command::FenceBroker(broker)).await {
                    tracing::warn!(broker = %broker.id, error = %refused.error, "the broker could not be fenced");
                }
            }
        }
    }
}
