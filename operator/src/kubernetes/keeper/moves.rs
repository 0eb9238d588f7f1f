//! Carrying out how nodes come and leave.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::ResourceExt;
use taffrail_core::control::{AlterConfigs, Command, ReassignPartitions, Reassignment, Reply};
use taffrail_core::event::BrokerDuty;
use taffrail_core::ids::BrokerId;
use taffrail_protocol::rpc::VoterChange;

use super::super::caches::cluster_key;
use super::super::claims::Claim;
use super::super::names::{CONTROLLERS_MAX, Node, Role};
use super::super::rebalance;
use super::super::rollout::{Health, Step};
use super::super::scale::{self, Leaving, Move, Voting};
use super::super::throttle;
use super::{Keeper, KeeperError, Scene};
use crate::crd::Topic;
use crate::crd::reasons::EventReason;
use crate::platform::PlatformError;

/// How long a new controller may take to copy the metadata before it gets its vote.
const COPY_TIMEOUT: Duration = Duration::from_secs(30);

impl Keeper {
    /// What nodes that come or leave do next.
    pub(super) fn next_move(&self, scene: &Scene, step: &Step) -> Option<Move> {
        // While a pod is being replaced or made, who votes and who is drained stays as it is.
        let waits_for_nobody = matches!(step, Step::Done | Step::Wait(_));
        let health: BTreeMap<Node, Health> =
            scene.view.pods.iter().map(|(node, pod)| (*node, pod.health.clone())).collect();
        let voting = scene.observed.quorum.as_ref().zip(scene.view.quorum.as_ref());
        let voting = voting.filter(|_| waits_for_nobody && scene.identity.founded).and_then(|(quorum, view)| {
            let disks = self.disks_to_go(scene, Role::Controller);
            scale::controllers(&Voting {
                ids: &scene.controllers,
                quorum,
                view,
                pods: &health,
                disks: &disks,
                timeout: COPY_TIMEOUT,
            })
        });
        let leaving = || {
            let pods: BTreeSet<Node> = scene.view.pods.keys().copied().collect();
            let disks = self.disks_to_go(scene, Role::Broker);
            scale::brokers(&Leaving {
                ids: &scene.brokers,
                image: &scene.observed.image,
                pods: &pods,
                disks: &disks,
                drains: scene.wanted.drains,
                moves_max: scene.wanted.moves_max,
            })
        };
        voting.or_else(leaving).or_else(|| {
            let is_due = scene.wanted.rebalances && *step == Step::Done;
            let pinned = is_due.then(|| self.pinned())?;
            rebalance::next(&scene.observed.image, &scene.brokers.stay, |name| pinned.contains(name))
        })
    }

    /// Topics whose resources say where their partitions are to be.
    fn pinned(&self) -> BTreeSet<String> {
        let says = |topic: &Topic| {
            let is_own = cluster_key(&topic.spec.cluster_ref, topic.namespace()) == self.key;
            is_own && !topic.spec.assignment.is_empty()
        };
        self.caches.topics.select(says).iter().map(|topic| topic.claimed()).collect()
    }

    /// Disks of nodes that are not to be, where disks are not kept.
    fn disks_to_go(&self, scene: &Scene, role: Role) -> BTreeSet<Node> {
        if scene.wanted.disk(role).retained {
            return BTreeSet::new();
        }
        let ids = if role == Role::Broker { &scene.brokers } else { &scene.controllers };
        let highest = ids.leave.iter().chain(&ids.stay).copied().max().unwrap_or(0).max(CONTROLLERS_MAX);
        let names = &scene.wanted.names;
        let is_there = |node: &Node| self.caches.claims.get(&names.namespace, &names.claim(*node)).is_some();
        let nodes = (0..=highest).filter(|id| !ids.stay.contains(id)).map(|id| Node { role, id });
        nodes.filter(is_there).collect()
    }

    /// Does it.
    pub(super) async fn carry_out_move(&self, scene: &Scene, next: &Move) -> Result<(), KeeperError> {
        let resource = &*scene.resource;
        match next {
            Move::Draining(..) | Move::Rebalancing(_) | Move::Refused(..) => return Ok(()),
            Move::Rebalance(moves) => {
                self.reassign(moves).await?;
                let note = format!("{} partitions move to brokers that have less than their share", moves.len());
                self.events.tell(resource, EventReason::RebalanceStarted, note).await;
            }
            Move::Relocate(_, _, moves) => self.reassign(moves).await?,
            Move::SetDuty(id, duty) => {
                self.propose(Command::SetBrokerDuty { broker: BrokerId(*id), duty: *duty }).await?;
                let (reason, note) = match duty {
                    BrokerDuty::Draining => (EventReason::DrainStarted, format!("broker {id} gives its replicas away")),
                    BrokerDuty::Cordoned => (EventReason::BrokerCordoned, format!("broker {id} gets no new replicas")),
                    BrokerDuty::Serving => (EventReason::DrainEnded, format!("broker {id} stays after all")),
                };
                self.events.tell(resource, reason, note).await;
            }
            Move::DeletePod(node) => {
                if let Some(pod) = scene.observed.pods.get(node) {
                    if pod.metadata.deletion_timestamp.is_some() {
                        return Ok(());
                    }
                    self.kube.delete(&**pod).await?;
                    tracing::info!(pod = pod.name_any(), "pod deleted: its node is not to be any more");
                    self.events
                        .tell(resource, EventReason::NodeRemoved, format!("nothing is left on {node}: it goes"))
                        .await;
                }
            }
            Move::Unregister(id) => {
                self.propose(Command::UnregisterBroker { broker: BrokerId(*id) }).await?;
            }
            Move::DeleteClaim(node) => {
                let names = &scene.wanted.names;
                if let Some(claim) = self.caches.claims.get(&names.namespace, &names.claim(*node)) {
                    self.kube.delete(&*claim).await?;
                }
            }
            Move::ChangeVoters(change) => self.change_voters(scene, change).await?,
        }
        self.inbox.news.notify_one();
        Ok(())
    }

    async fn reassign(&self, moves: &[Reassignment]) -> Result<(), KeeperError> {
        let request = ReassignPartitions { partitions: moves.to_vec(), allow_replication_factor_change: false };
        let Reply::PartitionsReassigned(outcomes) = self.propose(Command::ReassignPartitions(request)).await? else {
            return Err(PlatformError::UnexpectedReply("ReassignPartitions").into());
        };
        let refused = outcomes.into_iter().find_map(|moved| moved.outcome.err());
        if let Some(error) = refused {
            return Err(PlatformError::Refused(error).into());
        }
        Ok(())
    }

    /// Has moves go as fast as the Cluster says, and takes away what was set for moves that are over.
    pub(super) async fn apply_throttle(&mut self, scene: &Scene) -> Result<(), KeeperError> {
        let Scene { wanted, observed, brokers, .. } = scene;
        // Where a Cluster says nothing, throttles are somebody else's, unless they were set here before.
        if !(wanted.throttle.is_any() || self.throttles) {
            return Ok(());
        }
        self.throttles = wanted.throttle.is_any();
        let is_draining = !brokers.leave.is_empty();
        let resources = throttle::changes(&observed.image, wanted.throttle.rate(is_draining));
        if resources.is_empty() {
            return Ok(());
        }
        let request = AlterConfigs { resources, validate_only: false };
        let Reply::ConfigsAltered(altered) = self.propose(Command::AlterConfigs(request)).await? else {
            return Err(PlatformError::UnexpectedReply("AlterConfigs").into());
        };
        let refused = altered.into_iter().find_map(|altered| altered.outcome.err());
        refused.map_or(Ok(()), |error| Err(PlatformError::Refused(error).into()))
    }

    async fn change_voters(&self, scene: &Scene, change: &VoterChange) -> Result<(), KeeperError> {
        let Some(link) = &self.link else { return Ok(()) };
        link.change_voters(change).await.map_err(PlatformError::Refused)?;
        let (reason, note) = match change {
            VoterChange::Add { voter, .. } => {
                (EventReason::ControllerAdded, format!("controller {} has a vote now", voter.id))
            }
            VoterChange::Remove(voter) => {
                (EventReason::ControllerRemoved, format!("controller {} has no vote any more", voter.id))
            }
        };
        tracing::info!(cluster = scene.wanted.names.cluster, "{note}");
        self.events.tell(&*scene.resource, reason, note).await;
        Ok(())
    }
}
