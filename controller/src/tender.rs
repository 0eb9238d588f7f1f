//! The active controller's own work: leaders, drains, internal topics. When it is due is decided by core's [`Tending`].

use std::sync::Arc;
use std::time::Duration;

use taffrail_core::config::{BrokerConfig, Overrides};
use taffrail_core::control::{Command, Reply, Tend, Tended, Tending};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::task;
use taffrail_runtime::time::{self, Instant};

use crate::decider::Proposer;
use crate::machine::feed::{Feed, Step};
use crate::quorum::view::{leads, until_replaced};
use crate::raft::Raft;

/// Batches taken from the feed in one go.
const BATCHES_MAX: usize = 64;

/// Does what is due, while this controller is the active one.
pub(crate) struct Tender {
    pub(crate) raft: Raft,
    pub(crate) feed: Arc<Feed>,
    pub(crate) proposer: Proposer,
    pub(crate) static_config: Overrides,
    pub(crate) shutdown: Shutdown,
}

/// One time as the active controller.
struct Term {
    started: Instant,
    tending: Tending,
    /// Offset of the next event.
    next: i64,
}

impl Tender {
    /// Starts the task.
    pub(crate) fn start(self) -> task::JoinHandle<()> {
        task::spawn_until(self.shutdown.clone(), async move { self.run().await })
    }

    async fn run(&self) {
        let mut metrics = self.raft.metrics();
        loop {
            let Ok(term) = metrics.wait_for(leads).await.map(|metrics| metrics.current_term) else { return };
            tokio::select! {
                () = self.tend() => {}
                () = until_replaced(metrics.clone(), term) => {}
            }
        }
    }

    /// Does what is due, for ever.
    async fn tend(&self) {
        let mut applied = self.feed.subscribe();
        let mut term = self.term();
        loop {
            // Marked as seen before it is asked for, so that nothing falls between.
            applied.borrow_and_update();
            while term.look(&self.feed) {}
            while let Some(work) = term.tending.due(term.now_ms()) {
                let tended = self.carry_out(work).await;
                term.tending.ran(work, tended, term.now_ms());
            }
            tokio::select! {
                () = time::sleep_until(term.next_due()) => {}
                changed = applied.changed() => if changed.is_err() { return },
            }
        }
    }

    fn term(&self) -> Term {
        let image = self.feed.image();
        let layers = image.broker_layers(None, &self.static_config);
        // The controller checks before it commits; an older release may have let something through.
        let config = BrokerConfig::resolve(&layers).unwrap_or_default();
        let interval_ms = config.leader_imbalance_check_interval_seconds.saturating_mul(1_000);
        let tending = Tending::begin(config.auto_leader_rebalance_enable, interval_ms, 0);
        Term { started: time::monotonic(), tending, next: image.offset() + 1 }
    }

    async fn carry_out(&self, work: Tend) -> Option<Tended> {
        match self.proposer.propose(Command::Tend(work)).await {
            Ok(committed) => match committed.reply {
                Reply::Tended(tended) => {
                    tell(tended);
                    Some(tended)
                }
                _ => None,
            },
            Err(refused) => {
                tracing::debug!(error = %refused.error, "leaders and replicas could not be looked after");
                None
            }
        }
    }
}

impl Term {
    fn now_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn next_due(&self) -> Instant {
        self.started + Duration::from_millis(u64::try_from(self.tending.next_due_ms()).unwrap_or_default())
    }

    /// Takes note of what has happened; gives whether there may be more.
    fn look(&mut self, feed: &Feed) -> bool {
        let now_ms = self.now_ms();
        match feed.next(self.next, BATCHES_MAX) {
            Step::Wait => false,
            Step::Snapshot(image) => {
                self.next = image.offset() + 1;
                self.tending.saw_everything(now_ms);
                true
            }
            Step::Batches(batches) => {
                let image = feed.image();
                for event in batches.iter().flat_map(|batch| &batch.events) {
                    self.tending.saw(event, &image, now_ms);
                }
                self.next = batches.last().map_or(self.next, |batch| batch.next_offset());
                true
            }
        }
    }
}

fn tell(tended: Tended) {
    if tended.elections > 0 || tended.moves > 0 {
        tracing::info!(elections = tended.elections, moves = tended.moves, "looked after leaders and replicas");
    }
    if tended.stuck > 0 {
        tracing::warn!(partitions = tended.stuck, "no broker can take partitions from one that is to be drained");
    }
}
