//! The single-writer loop of the active controller: decide, propose, answer when committed and applied.
//!
//! Commands are decided one after the other, each on the image that the ones before it will make, without waiting for
//! their commit; so many proposals share one wait for the disks. An answer leaves only when all that it was decided from
//! is committed. If a proposal fails (another controller leads), what was decided from it fails too: its entries meet
//! another image than the one they were decided from, and the machine takes no notice of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openraft::error::{ClientWriteError, ForwardToLeader};
use taffrail_core::config::Overrides;
use taffrail_core::control::{self, Command, ControlError, Decision, Inputs, Reply};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_core::image::MetadataImage;
use taffrail_protocol::persisted::metadata::EventBatch;
use taffrail_protocol::rpc::Committed;
use taffrail_runtime::{random, task, time};
use tokio::sync::{mpsc, oneshot};

use crate::changes::{Cause, Changes, ChangesMade};
use crate::machine::feed::Feed;
use crate::quorum::liveness::Liveness;
use crate::quorum::view::{active, leads};
use crate::raft::{Applied, Events, Member, NodeId, Raft};
use crate::sessions::Sessions;
use crate::store::reserve::Reserve;

/// Proposals that may wait to be decided; more wait in their callers.
const PROPOSALS_MAX: usize = 1_024;

/// Largest entry of the metadata log. One command never needs as much, unless it is absurd.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// How long an answer that changes nothing waits for the commits that it was decided from.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A refusal, and who might accept.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub(crate) error: ControlError,
    pub(crate) active: Option<(NodeId, Member)>,
}

impl From<ControlError> for Refused {
    fn from(error: ControlError) -> Self {
        Self { error, active: None }
    }
}

pub(crate) type Outcome = Result<Committed, Refused>;

struct Proposal {
    command: Command,
    answer: oneshot::Sender<Outcome>,
}

/// The way to the loop. Clones share it.
#[derive(Clone)]
pub(crate) struct Proposer {
    sender: mpsc::Sender<Proposal>,
}

impl Proposer {
    /// Has `command` carried out; answers when it is committed and applied here.
    pub(crate) async fn propose(&self, command: Command) -> Outcome {
        let (answer, receiver) = oneshot::channel();
        let stopping = || Refused::from(ControlError::new(ErrorCode::NotController, "This controller is stopping."));
        self.sender.send(Proposal { command, answer }).await.map_err(|_| stopping())?;
        receiver.await.map_err(|_| stopping())?
    }
}

/// The image that the next command is decided on: what is applied, and what is on its way.
struct Pending {
    term: u64,
    failures: u64,
    image: MetadataImage,
}

/// What the loop decides with.
pub(crate) struct Decider {
    pub(crate) raft: Raft,
    pub(crate) feed: Arc<Feed>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) liveness: Arc<Liveness>,
    pub(crate) static_config: Overrides,
    /// Room for the metadata, unless they are in memory.
    pub(crate) reserve: Option<Arc<Reserve>>,
    pub(crate) changes: Arc<ChangesMade>,
}

/// The loop's state.
struct Deciding {
    parts: Decider,
    pending: Option<Pending>,
    /// How many proposals have failed; what was decided before the last failure is void.
    failures: Arc<AtomicU64>,
}

impl Decider {
    /// Starts the loop; it ends when all clones of the returned handle are gone.
    pub(crate) fn start(self) -> (Proposer, task::JoinHandle<()>) {
        let (sender, mut receiver) = mpsc::channel::<Proposal>(PROPOSALS_MAX);
        let mut decider = Deciding { parts: self, pending: None, failures: Arc::new(AtomicU64::new(0)) };
        let running = task::spawn(async move {
            while let Some(proposal) = receiver.recv().await {
                decider.carry_out(proposal).await;
            }
        });
        (Proposer { sender }, running)
    }
}

impl Deciding {
    async fn carry_out(&mut self, proposal: Proposal) {
        let Proposal { command, answer } = proposal;
        if let Some(refusal) = refuse_while_full(&command, self.parts.reserve.as_deref()) {
            return send(answer, Err(refusal.into()));
        }
        let image = match self.pending().await {
            Ok(image) => image,
            Err(refused) => return send(answer, Err(refused)),
        };
        match self.decide(&image, &command) {
            Err(error) => self.settle(image.offset(), Err(error), answer),
            Ok(decision) if decision.events.is_empty() => self.settle(image.offset(), Ok(decision.reply), answer),
            Ok(decision) => {
                let batch = EventBatch { base_offset: image.offset() + 1, events: decision.events };
                self.propose(batch, decision.reply, Cause::of(&command), answer).await;
            }
        }
    }

    fn decide(&self, image: &MetadataImage, command: &Command) -> Result<Decision, ControlError> {
        let fresh_ids: Vec<Uuid> = (0..command.ids_needed()).map(|_| random::uuid()).collect();
        let live_brokers: Vec<BrokerId> = self.parts.sessions.live(image);
        let inputs = Inputs {
            fresh_ids: &fresh_ids,
            live_brokers: &live_brokers,
            static_config: &self.parts.static_config,
            now_ms: time::unix_ms(),
            lags: &self.parts.sessions.lags(),
        };
        control::decide(image, command, &inputs)
    }

    /// The image to decide on. Fails if this controller is not the active one.
    async fn pending(&mut self) -> Result<MetadataImage, Refused> {
        let (term, is_active, leader) = {
            let metrics = self.parts.raft.metrics();
            let metrics = metrics.borrow();
            (metrics.current_term, leads(&metrics), active(&metrics))
        };
        if !is_active || self.parts.liveness.known().resigning {
            self.pending = None;
            return Err(not_active(leader));
        }
        let failures = self.failures.load(Ordering::Acquire);
        let current = self.pending.take().filter(|pending| pending.term == term && pending.failures == failures);
        let pending = match current {
            Some(pending) => pending,
            None => {
                // What earlier leaders left in the log must be applied before anything is decided.
                self.parts.raft.ensure_linearizable().await.map_err(|_| not_active(leader))?;
                Pending { term, failures, image: MetadataImage::clone(&self.parts.feed.image()) }
            }
        };
        Ok(self.pending.insert(pending).image.clone())
    }

    /// Proposes a batch, and answers when it is applied.
    async fn propose(&mut self, batch: EventBatch, reply: Reply, cause: Cause, answer: oneshot::Sender<Outcome>) {
        let bytes = batch.encode();
        if bytes.len() > BATCH_BYTES_MAX {
            let text = format!("The command makes {} bytes of metadata; {BATCH_BYTES_MAX} are allowed.", bytes.len());
            return send(answer, Err(ControlError::new(ErrorCode::PolicyViolation, text).into()));
        }
        let Ok(written) = self.parts.raft.client_write_ff(Events(bytes)).await else {
            return send(answer, Err(not_active(None)));
        };
        let mut changes = Changes::default();
        if let Some(pending) = &mut self.pending {
            for event in &batch.events {
                changes.note(&pending.image, event);
                let applied = pending.image.apply(event);
                assert!(applied.is_ok(), "a decision fits the image it was made from: {applied:?}");
            }
        }
        let (failures, made) = (Arc::clone(&self.failures), Arc::clone(&self.parts.changes));
        task::spawn(async move {
            let outcome = match written.await {
                Ok(Ok(response)) => match response.data {
                    Applied::Accepted { offset } => Ok(Committed { reply, offset }),
                    Applied::Stale => Err(not_active(None)),
                },
                Ok(Err(ClientWriteError::ForwardToLeader(ForwardToLeader { leader_id, leader_node }))) => {
                    Err(not_active(leader_id.zip(leader_node)))
                }
                Ok(Err(ClientWriteError::ChangeMembershipError(_))) | Err(_) => Err(not_active(None)),
            };
            match &outcome {
                Ok(_) => made.count(cause, changes),
                Err(_) => drop(failures.fetch_add(1, Ordering::Release)),
            }
            send(answer, outcome);
        });
    }

    /// Answers without a proposal, when all up to `offset`, from which the answer was decided, is applied.
    fn settle(&self, offset: i64, outcome: Result<Reply, ControlError>, answer: oneshot::Sender<Outcome>) {
        let outcome = match outcome {
            Ok(reply) => Ok(Committed { reply, offset }),
            Err(error) => Err(Refused::from(error)),
        };
        let mut applied = self.parts.feed.subscribe();
        if *applied.borrow() >= offset {
            return send(answer, outcome);
        }
        task::spawn(async move {
            let settled = time::timeout(SETTLE_TIMEOUT, applied.wait_for(|applied| *applied >= offset)).await;
            let outcome = if matches!(settled, Ok(Ok(_))) { outcome } else { Err(not_active(None)) };
            send(answer, outcome);
        });
    }
}

/// The refusal of a command that only adds, while the room that is kept for the metadata is used up.
fn refuse_while_full(command: &Command, reserve: Option<&Reserve>) -> Option<ControlError> {
    if !command.can_wait_for_room() || !reserve?.is_used_up() {
        return None;
    }
    let text = "The disk that holds the metadata is full: free some room, for instance by deleting topics.";
    Some(ControlError::new(ErrorCode::KafkaStorageError, text))
}

fn send(answer: oneshot::Sender<Outcome>, outcome: Outcome) {
    // The caller may have gone; the command stands all the same.
    let _ = answer.send(outcome);
}

/// The refusal of a call that only the active controller can answer, if this one is not it.
pub(crate) fn refuse_unless_active(raft: &Raft, liveness: &Liveness) -> Result<(), Refused> {
    let metrics = raft.metrics();
    let metrics = metrics.borrow();
    if leads(&metrics) && !liveness.known().resigning { Ok(()) } else { Err(not_active(active(&metrics))) }
}

pub(crate) fn not_active(active: Option<(NodeId, Member)>) -> Refused {
    let error = match &active {
        Some((leader, _)) => {
            let text = format!("The active controller appears to be node {}.", leader.controller);
            ControlError::new(ErrorCode::NotController, text)
        }
        None => ControlError::new(ErrorCode::NotController, "No controller appears to be active."),
    };
    Refused { error, active }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use taffrail_core::control::{CreateTopics, DeleteTopics};

    use super::*;

    #[test]
    fn what_only_adds_is_refused_while_the_kept_room_is_used_up_and_what_frees_room_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let tell = |bytes: u64| fs::write(folder.path().join("available"), bytes.to_string()).unwrap();
        tell(0);
        let reserve = Reserve::over(folder.path(), |folder| {
            fs::read_to_string(folder.join("available"))?.parse().map_err(std::io::Error::other)
        });
        let adds = Command::CreateTopics(CreateTopics::default());
        let frees = Command::DeleteTopics(DeleteTopics::default());
        let refusal = refuse_while_full(&adds, Some(&reserve)).unwrap();
        assert_eq!(refusal.code, ErrorCode::KafkaStorageError);
        assert!(refuse_while_full(&frees, Some(&reserve)).is_none());
        tell(1 << 30);
        assert!(refuse_while_full(&adds, Some(&reserve)).is_none(), "there is room again");
        assert!(refuse_while_full(&adds, None).is_none(), "memory is not full");
    }
}
