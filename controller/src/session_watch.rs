//! Fences brokers that have been silent for too long, while this controller is the active one.

use std::sync::Arc;
use std::time::Duration;

use taffrail_core::control::{BrokerIdentity, Command};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time::Instant;
use taffrail_runtime::{task, time};

use crate::decider::Proposer;
use crate::heartbeats::Heartbeats;
use crate::machine::feed::Feed;
use crate::quorum::view::{leads, until_replaced};
use crate::raft::Raft;
use crate::sessions::Sessions;

/// How long a broker that has been silent for too long is given beyond that, so that what it has sent is read if this
/// process itself was held up; longer if it was held up longer.
const GRACE: Duration = Duration::from_millis(50);

/// Longest such grace.
const GRACE_MAX: Duration = Duration::from_secs(2);

/// Longest time between two looks at the sessions.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Pause before a fencing that failed is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// Keeps the watch over the sessions.
pub(crate) struct SessionWatch {
    pub(crate) sessions: Arc<Sessions>,
    /// What dials the brokers that are in doubt.
    pub(crate) heartbeats: Arc<Heartbeats>,
    pub(crate) raft: Raft,
    pub(crate) feed: Arc<Feed>,
    pub(crate) proposer: Proposer,
    pub(crate) shutdown: Shutdown,
}

impl SessionWatch {
    /// Starts the task.
    pub(crate) fn start(self) -> task::JoinHandle<()> {
        task::spawn_until(self.shutdown.clone(), async move { self.run().await })
    }

    async fn run(&self) {
        let mut metrics = self.raft.metrics();
        loop {
            let Ok(term) = metrics.wait_for(leads).await.map(|metrics| metrics.current_term) else { return };
            self.sessions.begin();
            tokio::select! {
                () = self.fence_silent() => {}
                () = until_replaced(metrics.clone(), term) => {}
            }
            self.sessions.end();
        }
    }

    /// Fences whoever falls silent, for ever.
    async fn fence_silent(&self) {
        let mut applied = self.feed.subscribe();
        loop {
            applied.borrow_and_update();
            let Some(end) = self.sessions.next_end(&self.feed.image()) else {
                // Nobody serves.
                if applied.changed().await.is_err() {
                    return;
                }
                continue;
            };
            // Sooner, because whoever attends from now on is missed sooner.
            let end = end.min(time::monotonic() + LOOK_INTERVAL);
            time::sleep_until(end).await;
            self.sessions.tidy(&self.feed.image());
            for broker in self.sessions.doubtful(&self.feed.image()) {
                let heartbeats = Arc::clone(&self.heartbeats);
                task::spawn_until(self.shutdown.clone(), async move { heartbeats.suspect(broker).await });
            }
            if self.silent_for_sure(end).await.is_empty() {
                continue;
            }
            for broker in self.sessions.silent(&self.feed.image()) {
                self.fence(broker).await;
            }
        }
    }

    /// Brokers that have been silent past `end`, and still are when all that has arrived is read.
    async fn silent_for_sure(&self, end: Instant) -> Vec<BrokerIdentity> {
        let silent = self.sessions.silent(&self.feed.image());
        if silent.is_empty() {
            return silent;
        }
        let late = time::monotonic().saturating_duration_since(end);
        time::sleep((GRACE + late).min(GRACE_MAX)).await;
        self.sessions.silent(&self.feed.image())
    }

    async fn fence(&self, broker: BrokerIdentity) {
        tracing::warn!(broker = %broker.id, "fencing a broker that has been silent for too long");
        if let Err(refused) = self.proposer.propose(Command::FenceBroker(broker)).await {
            tracing::warn!(broker = %broker.id, error = %refused.error, "the broker could not be fenced");
            time::sleep(RETRY).await;
        }
    }
}
