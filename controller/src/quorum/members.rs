//! Who has a vote: changed by the active controller, one at a time, and never so that a majority is out of reach.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use openraft::{ChangeMembers, RaftMetrics};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::Uuid;
use taffrail_protocol::rpc::{FormatError, id_from_bytes, required, v1};
use taffrail_runtime::time;
use tokio::sync::{Mutex, MutexGuard};

use super::formation::identify;
use super::liveness::Liveness;
use super::view::{active, leads};
use crate::raft::links::{Contact, Links};
use crate::raft::messages::{RAFT_VERSION, node_from_message};
use crate::raft::route::Route;
use crate::raft::{Member, NodeId, Raft};

/// How long a newcomer whose place is free may take to copy the metadata.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(45);

/// Entries that a newcomer may be behind when it gets its vote.
const CATCH_UP_ENTRIES: u64 = 16;

/// A voter that has answered within this time may be handed leadership.
const REACHABLE: Duration = Duration::from_secs(3);

/// How long a change waits for the one before it.
const TURN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a change of the voters may take to be committed.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a successor may take to have all that the leader has.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(1);

/// Time between looks whether the successor is still there.
const GONE_INTERVAL: Duration = Duration::from_millis(50);

/// How long a successor may take to be elected.
const SUCCESSION_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Why the voters stay as they are.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MemberError {
    /// Another controller is to be asked.
    #[error("this controller is not the active one")]
    NotActive {
        /// The one, if it is known.
        active: Option<(NodeId, Member)>,
    },
    /// One at a time.
    #[error("another change of the controllers is under way")]
    Busy,
    /// The request cannot be understood.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// It is of another cluster.
    #[error("the cluster is {ours}, not {theirs}")]
    ForeignCluster {
        /// This one.
        ours: Uuid,
        /// The one in the request.
        theirs: Uuid,
    },
    /// It is there, as itself or with another disk.
    #[error("controller {known} is a voter already")]
    Duplicate {
        /// The voter.
        known: NodeId,
    },
    /// It lives: it cannot be replaced by another one of the same number.
    #[error("controller {known} lives; two processes with the same number cannot both take part")]
    Alive {
        /// The voter.
        known: NodeId,
    },
    /// There is no such voter.
    #[error("controller {node} is not a voter")]
    NotFound {
        /// Who was to be removed.
        node: NodeId,
    },
    /// Somebody else answers at the address, or nobody.
    #[error("'{address}' is not the address of controller {node}: {found}")]
    Elsewhere {
        /// The address.
        address: String,
        /// Who was expected.
        node: NodeId,
        /// Who answers.
        found: String,
    },
    /// The last voter cannot go.
    #[error("controller {node} is the only voter")]
    LastVoter {
        /// The voter.
        node: NodeId,
    },
    /// The change would put a majority out of reach.
    #[error("of the voters {voters} only {reachable} answer, which is no majority")]
    NoMajority {
        /// The voters as they would be.
        voters: String,
        /// Those that can be reached.
        reachable: String,
    },
    /// It is too far behind.
    #[error("controller {node} has not caught up in time")]
    Behind {
        /// The newcomer.
        node: NodeId,
    },
    /// Raft refuses.
    #[error("the controllers do not agree on the change: {0}")]
    Raft(String),
}

impl MemberError {
    /// Address of the controller to ask instead.
    pub(crate) fn active(&self) -> Option<String> {
        match self {
            Self::NotActive { active } => active.as_ref().map(|(_, member)| member.address.clone()),
            _ => None,
        }
    }

    /// Kafka's code for it.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::NotActive { .. } => ErrorCode::NotController,
            Self::Duplicate { .. } | Self::Alive { .. } => ErrorCode::DuplicateVoter,
            Self::NotFound { .. } => ErrorCode::VoterNotFound,
            Self::ForeignCluster { .. } => ErrorCode::InconsistentClusterId,
            Self::Elsewhere { .. } => ErrorCode::InvalidVoterKey,
            Self::Behind { .. } | Self::Busy | Self::NoMajority { .. } | Self::Raft(_) => ErrorCode::RequestTimedOut,
            Self::Format(_) | Self::LastVoter { .. } => ErrorCode::InvalidRequest,
        }
    }
}

fn names<'a>(nodes: impl IntoIterator<Item = &'a NodeId>) -> String {
    let names: Vec<String> = nodes.into_iter().map(|node| node.controller.to_string()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Changes them.
pub(crate) struct Members {
    raft: Raft,
    route: Arc<Route>,
    links: Arc<Links>,
    liveness: Arc<Liveness>,
    changing: Mutex<()>,
}

type Metrics = RaftMetrics<NodeId, Member>;

impl Members {
    pub(crate) fn new(raft: Raft, route: Arc<Route>, links: Arc<Links>, liveness: Arc<Liveness>) -> Self {
        Self { raft, route, links, liveness, changing: Mutex::new(()) }
    }

    fn metrics(&self) -> Metrics {
        self.raft.metrics().borrow().clone()
    }

    /// When `node` answered this controller last.
    pub(crate) fn contact(&self, node: NodeId) -> Option<Contact> {
        self.links.contact(node)
    }

    /// Begins a change, when no other one is under way any more: this controller is the active one.
    async fn begin(&self) -> Result<(MutexGuard<'_, ()>, Metrics), MemberError> {
        let guard = time::timeout(TURN_TIMEOUT, self.changing.lock()).await.map_err(|_| MemberError::Busy)?;
        let metrics = self.metrics();
        if !leads(&metrics) {
            return Err(MemberError::NotActive { active: active(&metrics) });
        }
        Ok((guard, metrics))
    }

    /// Takes in a controller whose disk is new or whose address has changed. Where a voter of the same number is gone, it
    /// gets that one's vote; otherwise it follows without a vote.
    pub(crate) async fn join(&self, request: v1::JoinRequest) -> Result<(), MemberError> {
        let what = "a request to join";
        let theirs = id_from_bytes(what, "cluster_id", &request.cluster_id)?;
        let node = node_from_message(&required(what, "node", request.node)?)?;
        let member = Member { address: request.address };
        let (_guard, metrics) = self.begin().await?;
        match self.route.cluster() {
            Some(ours) if ours == theirs => {}
            ours => return Err(MemberError::ForeignCluster { ours: ours.unwrap_or(Uuid::ZERO), theirs }),
        }
        let membership = metrics.membership_config.membership();
        if membership.get_node(&node).is_some_and(|known| *known != member) {
            tracing::info!(%node, address = member.address, "a controller has another address");
            self.change(ChangeMembers::SetNodes(BTreeMap::from([(node, member.clone())]))).await?;
        }
        let voters: BTreeSet<NodeId> = membership.voter_ids().collect();
        if voters.contains(&node) {
            return Ok(());
        }
        let before: Vec<(NodeId, Member)> = membership
            .nodes()
            .filter(|(id, _)| id.controller == node.controller && **id != node)
            .map(|(id, member)| (*id, member.clone()))
            .collect();
        for (known, member) in &before {
            if identify(&self.links, &member.address).await.is_ok_and(|answer| answer.node == *known) {
                return Err(MemberError::Alive { known: *known });
            }
        }
        self.teach(node, member, &metrics).await?;
        let before: BTreeSet<NodeId> = before.into_iter().map(|(id, _)| id).collect();
        if voters.is_disjoint(&before) {
            tracing::info!(%node, "a controller follows without a vote; add it as a voter to give it one");
        } else {
            self.caught_up(node, CATCH_UP_TIMEOUT).await?;
            let after: BTreeSet<NodeId> = voters.difference(&before).copied().chain([node]).collect();
            self.replace_voters(&after).await?;
            tracing::warn!(%node, "a controller whose disk was new has got the vote of the one before");
        }
        let forgotten = before.difference(&voters).copied().collect::<BTreeSet<_>>();
        if !forgotten.is_empty() {
            self.change(ChangeMembers::RemoveNodes(forgotten)).await?;
        }
        Ok(())
    }

    /// Gives `node` at `address` a vote, once it has copied the metadata.
    pub(crate) async fn add_voter(&self, node: NodeId, address: String, patience: Duration) -> Result<(), MemberError> {
        let (_guard, metrics) = self.begin().await?;
        let mut voters: BTreeSet<NodeId> = metrics.membership_config.membership().voter_ids().collect();
        if let Some(known) = voters.iter().find(|known| known.controller == node.controller) {
            return Err(MemberError::Duplicate { known: *known });
        }
        match identify(&self.links, &address).await {
            Ok(answer) if answer.node == node => {}
            Ok(answer) => return Err(MemberError::Elsewhere { address, node, found: answer.node.to_string() }),
            Err(found) => return Err(MemberError::Elsewhere { address, node, found }),
        }
        self.teach(node, Member { address }, &metrics).await?;
        self.caught_up(node, patience).await?;
        voters.insert(node);
        self.replace_voters(&voters).await?;
        tracing::info!(%node, "a controller has a vote now");
        Ok(())
    }

    /// Takes the vote of `node`, and no longer tells it anything.
    pub(crate) async fn remove_voter(&self, node: NodeId) -> Result<(), MemberError> {
        let (_guard, metrics) = self.begin().await?;
        let mut voters: BTreeSet<NodeId> = metrics.membership_config.membership().voter_ids().collect();
        if !voters.remove(&node) {
            return Err(MemberError::NotFound { node });
        }
        if voters.is_empty() {
            return Err(MemberError::LastVoter { node });
        }
        self.check_reachable(&voters).await?;
        if node == self.route.node() {
            // Whoever leads afterwards can remove this one without a gap.
            self.hand_over().await;
            return Err(MemberError::NotActive { active: active(&self.metrics()) });
        }
        self.replace_voters(&voters).await?;
        tracing::info!(%node, "a controller has no vote any more");
        Ok(())
    }

    /// Has `node` follow, without a vote.
    async fn teach(&self, node: NodeId, member: Member, metrics: &Metrics) -> Result<(), MemberError> {
        if metrics.membership_config.membership().get_node(&node).is_some() {
            return Ok(());
        }
        let added = time::timeout(CHANGE_TIMEOUT, self.raft.add_learner(node, member, false)).await;
        let added = added.map_err(|_| MemberError::Raft("no majority has answered in time".to_owned()))?;
        added.map(drop).map_err(|error| MemberError::Raft(error.to_string()))
    }

    async fn caught_up(&self, node: NodeId, patience: Duration) -> Result<(), MemberError> {
        let mut metrics = self.raft.metrics();
        let near = |metrics: &Metrics| {
            let last = metrics.last_log_index.unwrap_or_default();
            matched(metrics, node).is_some_and(|index| index + CATCH_UP_ENTRIES >= last)
        };
        let waited = time::timeout(patience, metrics.wait_for(near)).await;
        if matches!(waited, Ok(Ok(_))) { Ok(()) } else { Err(MemberError::Behind { node }) }
    }

    /// Whether a majority of `voters` can be reached: they are asked now, because a change that is begun without one keeps
    /// the others from deciding anything.
    async fn check_reachable(&self, voters: &BTreeSet<NodeId>) -> Result<(), MemberError> {
        let metrics = self.metrics();
        let membership = metrics.membership_config.membership();
        let asked = voters.iter().map(|node| async {
            let address = membership.get_node(node).map(|member| member.address.as_str()).unwrap_or_default();
            let is_there = *node == self.route.node()
                || identify(&self.links, address).await.is_ok_and(|answer| answer.node == *node);
            is_there.then_some(*node)
        });
        let reachable: BTreeSet<NodeId> = join_all(asked).await.into_iter().flatten().collect();
        if 2 * reachable.len() > voters.len() {
            return Ok(());
        }
        Err(MemberError::NoMajority { voters: names(voters), reachable: names(&reachable) })
    }

    async fn replace_voters(&self, voters: &BTreeSet<NodeId>) -> Result<(), MemberError> {
        self.check_reachable(voters).await?;
        self.change(ChangeMembers::ReplaceAllVoters(voters.clone())).await
    }

    async fn change(&self, change: ChangeMembers<NodeId, Member>) -> Result<(), MemberError> {
        let changed = time::timeout(CHANGE_TIMEOUT, self.raft.change_membership(change, false)).await;
        let changed = changed.map_err(|_| MemberError::Raft("no majority has answered in time".to_owned()))?;
        changed.map(drop).map_err(|error| MemberError::Raft(error.to_string()))
    }

    /// Hands leadership over to the voter that has most, if this controller leads and there is another voter; says whether
    /// somebody else leads now.
    pub(crate) async fn hand_over(&self) -> bool {
        let metrics = self.metrics();
        if !leads(&metrics) {
            return false;
        }
        let now = time::monotonic();
        let near = |node: &NodeId| self.links.contact(*node).is_some_and(|contact| now - contact.at < REACHABLE);
        let membership = metrics.membership_config.membership();
        let others = membership.voter_ids().filter(|node| *node != self.route.node() && near(node));
        let Some(successor) = others.max_by_key(|node| matched(&metrics, *node)) else { return false };
        let Some(member) = membership.get_node(&successor) else { return false };
        self.liveness.set_resigning(true);
        let handed = tokio::select! {
            handed = self.hand_over_to(successor, &member.address) => handed,
            // It is stopping as well.
            () = self.gone(&member.address) => false,
        };
        self.raft.runtime_config().heartbeat(true);
        self.liveness.set_resigning(false);
        if handed {
            tracing::info!(%successor, "another controller has taken over");
        }
        handed
    }

    /// Waits until nobody listens at `address`.
    async fn gone(&self, address: &str) {
        loop {
            time::sleep(GONE_INTERVAL).await;
            if self.links.probe(address).await.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
                return;
            }
        }
    }

    async fn hand_over_to(&self, successor: NodeId, address: &str) -> bool {
        let mut metrics = self.raft.metrics();
        let complete = |metrics: &Metrics| matched(metrics, successor) >= metrics.last_log_index;
        if !matches!(time::timeout(HANDOVER_TIMEOUT, metrics.wait_for(complete)).await, Ok(Ok(_))) {
            return false;
        }
        // From now on nobody hears of this leader, so that the voters' leases end.
        self.raft.runtime_config().heartbeat(false);
        let Ok(mut client) = self.links.raft(address) else { return false };
        let request = v1::TakeOverRequest { format_version: RAFT_VERSION, route: Some(self.route.to(successor)) };
        let asked = time::timeout(HANDOVER_TIMEOUT, client.take_over(request)).await;
        if !matches!(asked, Ok(Ok(_))) {
            return false;
        }
        let node = self.route.node();
        let succeeded = metrics.wait_for(|now| now.current_leader.is_some_and(|leader| leader != node));
        matches!(time::timeout(SUCCESSION_TIMEOUT, succeeded).await, Ok(Ok(_)))
    }
}

/// Index of the last entry that `node` is known to have.
pub(crate) fn matched(metrics: &Metrics, node: NodeId) -> Option<u64> {
    metrics.replication.as_ref()?.get(&node)?.map(|log_id| log_id.index)
}
