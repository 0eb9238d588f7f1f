//! Changes of ISRs on their way to the controllers (Kafka's `AlterPartitionManager`).
//!
//! Leaders propose, each one change at a time. What has been proposed meanwhile goes in one command; one command is under
//! way at a time. A leader hears the answer when this broker has followed the metadata from which it was decided, so that
//! an ISR never counts with settings of another moment.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::IntCounter;
use taffrail_core::control::{AlterPartition, Command, ControlError, IsrChange, Reply};
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::PartitionState;
use taffrail_core::partition::AfterProposal;
use taffrail_protocol::rpc::Committed;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time;
use tokio::sync::Notify;

use crate::broker::{Broker, refusal};
use crate::metrics::Metrics;
use crate::replica::Partition;

/// Changes in one command.
const CHANGES_MAX: usize = 1_000;

/// Pause before changes are sent again that the controllers could not decide on; it doubles up to [`RETRY_PAUSE_MAX`].
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(50);

/// Longest such pause.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Shortest time between two looks at how far followers lag.
const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Changes that leaders have proposed. A partition has no more than one under way, which bounds them.
pub(crate) struct IsrChanges {
    queued: Mutex<VecDeque<Proposal>>,
    news: Notify,
    shrinks: IntCounter,
    expands: IntCounter,
}

/// What a leader proposed.
struct Proposal {
    partition: Arc<Partition>,
    change: IsrChange,
    /// Whether it makes the ISR larger or smaller.
    direction: Ordering,
}

impl IsrChanges {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self {
            queued: Mutex::default(),
            news: Notify::new(),
            shrinks: metrics.isr_shrinks.clone(),
            expands: metrics.isr_expands.clone(),
        }
    }

    /// Sends a change on its way.
    pub(crate) fn push(&self, partition: Arc<Partition>, change: IsrChange) {
        let direction = change.isr.len().cmp(&partition.state().isr.len());
        self.queue([Proposal { partition, change, direction }]);
    }

    fn queue(&self, proposals: impl IntoIterator<Item = Proposal>) {
        self.queued.lock().extend(proposals);
        self.news.notify_one();
    }

    /// What is to be sent next; waits until there is something.
    async fn next(&self) -> Vec<Proposal> {
        loop {
            let next: Vec<Proposal> = {
                let mut queued = self.queued.lock();
                let count = queued.len().min(CHANGES_MAX);
                queued.drain(..count).filter(|proposal| !proposal.partition.is_gone()).collect()
            };
            if !next.is_empty() {
                return next;
            }
            self.news.notified().await;
        }
    }

    fn count(&self, direction: Ordering) {
        match direction {
            Ordering::Less => self.shrinks.inc(),
            Ordering::Greater => self.expands.inc(),
            Ordering::Equal => {}
        }
    }
}

/// Brings changes of ISRs to the controllers, and looks from time to time whether followers lag, until `shutdown`. One such
/// task runs for a broker.
pub async fn keep_in_sync(broker: &Broker, shutdown: &Shutdown) {
    tokio::select! {
        () = send_all(broker) => {}
        () = check_lags(broker) => {}
        () = shutdown.triggered() => {}
    }
}

async fn check_lags(broker: &Broker) {
    loop {
        let lag_max_ms = u64::try_from(broker.config.load().replica_lag_time_max_ms).unwrap_or(0);
        time::sleep((Duration::from_millis(lag_max_ms) / 2).max(CHECK_INTERVAL_MIN)).await;
        broker.replicas.check_lags();
    }
}

async fn send_all(broker: &Broker) {
    let changes = broker.replicas.isr_changes();
    let mut pause = RETRY_PAUSE_MIN;
    loop {
        let again = send(broker, changes, changes.next().await).await;
        if again.is_empty() {
            pause = RETRY_PAUSE_MIN;
        } else {
            time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
            changes.queue(again);
        }
    }
}

/// Sends changes and tells their partitions the answers. Gives those that are to be sent again.
async fn send(broker: &Broker, changes: &IsrChanges, proposals: Vec<Proposal>) -> Vec<Proposal> {
    let command = Command::AlterPartition(AlterPartition {
        broker: broker.identity(),
        partitions: proposals.iter().map(|proposal| proposal.change.clone()).collect(),
    });
    let answers = match broker.controller.propose(command).await {
        Ok(committed) => {
            broker.metadata.reached(committed.offset).await;
            answers(committed)
        }
        Err(error) => Err(error),
    };
    let answer = |at: usize| match &answers {
        Ok(answers) => {
            answers.get(at).map_or(Err(ErrorCode::UnknownServerError), |it| it.as_ref().map_err(|it| it.code))
        }
        Err(error) => Err(error.code),
    };
    let mut again = Vec::new();
    for (at, proposal) in proposals.into_iter().enumerate() {
        let Proposal { partition, change, direction } = &proposal;
        let answer = answer(at);
        match answer {
            Ok(state) => {
                let (topic, isr) = (&partition.topic.name, &state.isr);
                tracing::info!(%topic, partition = partition.index, ?isr, "the ISR has changed");
                changes.count(*direction);
            }
            Err(error) => {
                let topic = &partition.topic.name;
                tracing::info!(%topic, partition = partition.index, %error, "a change of the ISR was not made");
            }
        }
        if partition.isr_answered(change, answer) == AfterProposal::Retry {
            again.push(proposal);
        }
    }
    again
}

/// The answers in the order of the changes.
fn answers(committed: Committed) -> Result<Vec<Result<Arc<PartitionState>, ControlError>>, ControlError> {
    match committed.reply {
        Reply::PartitionsAltered(altered) => Ok(altered.into_iter().map(|partition| partition.outcome).collect()),
        other => Err(refusal(Ok(other))),
    }
}
