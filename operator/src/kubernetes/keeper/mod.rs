//! Keeps one Cluster as its resource says: fetch, validate, build, apply, again and again.
//!
//! A pass sees what there is, decides, does what can be done now, and reports. It never waits for what takes long: that is
//! seen by a later pass, which the news of it wakes.

mod ground;
mod looks;
mod moves;
mod report;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use parking_lot::Mutex;
use taffrail_core::control::{Command, ControlError, Reply};
use taffrail_runtime::cluster_secret::ClusterSecret;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time;
use tokio::sync::Notify;

use super::api::{ApiError, Kube};
use super::cache::Key;
use super::caches::{Caches, cluster_key};
use super::events::Events;
use super::groups::GroupInbox;
use super::identity::{Identity, IdentityError};
use super::link::{Link, Member};
use super::listeners::{self, Told};
use super::losses;
use super::metrics::{self, Metrics, PassOf};
use super::names::{CONTROLLER_PORT, Node, Role};
use super::observed::{Observed, place, present, view};
use super::rollout::{Block, Step, View, plan, plan_stop};
use super::scale::{Ids, Move, broker_ids, controller_ids};
use super::throttle;
use super::topics::{self, TopicsError, TopicsPass};
use super::wanted::{Wanted, validate};
use crate::crd::reasons::Reason;
use crate::crd::{Cluster, Topic};
use crate::platform::{Platform, PlatformError};
use crate::reconcile::cluster;

/// Pause after something happened, so that what happens together is dealt with together.
const GATHER: Duration = Duration::from_millis(50);

/// How long nothing may happen until everything is looked at again.
const RESYNC: Duration = Duration::from_secs(60);

/// How soon it is looked again while something is under way.
const BUSY: Duration = Duration::from_secs(2);

/// Pause after a pass failed; it doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(250);

/// Longest pause after a pass failed.
const RETRY_MAX: Duration = Duration::from_secs(15);

/// Why a pass ended early. The next one begins anew.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// The Kubernetes API.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The controllers.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// It is not known which cluster this is.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The Secret is not what it should be.
    #[error("the Secret {0} holds no secret of a cluster: restore it, or delete it to get another one")]
    Trust(String),
    /// A pod's address is none.
    #[error("a controller's address cannot be used: {0}")]
    Address(#[from] std::io::Error),
}

impl From<TopicsError> for KeeperError {
    fn from(error: TopicsError) -> Self {
        match error {
            TopicsError::Api(error) => Self::Api(error),
            TopicsError::Platform(error) => Self::Platform(error),
        }
    }
}

/// What the operator was started with, as far as Clusters are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Image of Clusters that name none.
    pub image: Option<String>,
    /// Epoch of this operator: rises with every change of the one that leads.
    pub epoch: i64,
}

/// Hands over what a keeper is to deal with.
#[derive(Default)]
pub struct Inbox {
    /// Something changed.
    pub news: Arc<Notify>,
    /// Topics whose resources were deleted.
    pub removed: Mutex<Vec<Arc<Topic>>>,
    /// The same of ConsumerGroups.
    pub groups: GroupInbox,
}

/// Keeps one Cluster.
pub struct Keeper {
    key: Key,
    kube: Kube,
    caches: Arc<Caches>,
    events: Events,
    inbox: Arc<Inbox>,
    defaults: Defaults,
    metrics: Metrics,
    /// The resource that is kept: one that was created anew under its name is another one.
    uid: String,
    trust: Option<ClusterSecret>,
    link: Option<Link>,
    /// Whether moves were given a speed here.
    throttles: bool,
    /// Lost records that were told of, and when brokers were asked last.
    losses: (losses::Told, Option<time::Instant>),
    /// Since when each blocker stands in the way.
    since: BTreeMap<String, Time>,
}

/// One Cluster at one moment.
struct Scene {
    resource: Arc<Cluster>,
    wanted: Wanted,
    identity: Identity,
    /// Image that its pods are to have.
    image_name: String,
    observed: Observed,
    /// Brokers that are to be, and that leave.
    brokers: Ids,
    /// The same of controllers.
    controllers: Ids,
    view: View,
}

/// What came of a pass.
#[derive(Debug)]
struct Outcome {
    step: Step,
    /// Of a node that comes or leaves.
    moving: Option<Move>,
    /// What the controllers say against the settings.
    settings_refused: Option<ControlError>,
    topics: TopicsPass,
}

impl Keeper {
    /// A keeper of the Cluster of this key.
    pub fn new(
        key: Key,
        kube: Kube,
        caches: Arc<Caches>,
        events: Events,
        inbox: Arc<Inbox>,
        defaults: Defaults,
        metrics: Metrics,
    ) -> Self {
        let (uid, since) = (String::new(), BTreeMap::new());
        Self {
            key,
            kube,
            caches,
            events,
            inbox,
            defaults,
            metrics,
            uid,
            trust: None,
            link: None,
            throttles: false,
            losses: Default::default(),
            since,
        }
    }

    /// Works until the Cluster is gone, or the word to stop.
    pub async fn run(mut self, stop: Shutdown) {
        let mut pause = RETRY_MIN;
        while !stop.is_triggered() {
            let Some(resource) = self.caches.clusters.get(&self.key.namespace, &self.key.name) else { return };
            let began = time::monotonic();
            let passed = self.pass(&resource).await;
            let outcome = match &passed {
                Ok(again) if *again >= RESYNC => metrics::Outcome::Done,
                Ok(_) => metrics::Outcome::Waiting,
                Err(_) => metrics::Outcome::Failed,
            };
            self.metrics.note(PassOf::Cluster, outcome, began.elapsed());
            let again = match passed {
                Ok(again) => {
                    pause = RETRY_MIN;
                    again
                }
                Err(error) => {
                    let (namespace, cluster) = (&self.key.namespace, &self.key.name);
                    tracing::warn!(namespace, cluster, %error, "not everything could be done; trying again");
                    let again = pause;
                    pause = (pause * 2).min(RETRY_MAX);
                    again
                }
            };
            tokio::select! {
                () = self.inbox.news.notified() => {}
                () = time::sleep(again) => {}
                () = stop.triggered() => return,
            }
            time::sleep(GATHER).await;
        }
    }

    /// One pass; gives how long nothing has to be done.
    ///
    /// # Errors
    /// What could not be done; the pass ended there, and the next one begins anew.
    pub async fn pass(&mut self, resource: &Arc<Cluster>) -> Result<Duration, KeeperError> {
        let wanted = match validate(resource) {
            Ok(wanted) => wanted,
            Err(problems) => {
                self.report_refused(resource, Reason::InvalidSpec, &problems.join("; ")).await?;
                return Ok(RESYNC);
            }
        };
        if self.uid != wanted.uid {
            (self.uid, self.trust, self.link) = (wanted.uid.clone(), None, None);
        }
        let Some(identity) = self.identity(&wanted).await? else {
            let message = "neither the Cluster nor the operator names an image: set spec.template.image";
            self.report_refused(resource, Reason::NoImage, message).await?;
            return Ok(RESYNC);
        };
        self.read_trust(&wanted).await?;
        let scene = self.look(resource, wanted, identity).await?;
        self.racks(&scene).await?;
        let outcome = self.act(&scene).await?;
        self.tell_losses(&scene).await;
        self.report(&scene, &outcome).await?;
        // What waits for people needs no looks in quick succession.
        let waits_for_people = match &outcome.step {
            Step::Wait(blocks) => blocks.iter().all(|block| block.rule.is_consent()),
            step => *step == Step::Done,
        };
        let is_at_rest = waits_for_people && outcome.moving.is_none() && self.is_current(&scene);
        Ok(if is_at_rest { RESYNC } else { BUSY })
    }

    /// Whether what is known is what is so now, or nothing can be known because nothing is to run.
    fn is_current(&self, scene: &Scene) -> bool {
        scene.wanted.stopped || scene.observed.is_current
    }

    /// What there is, beside what is wanted.
    async fn look(
        &mut self,
        resource: &Arc<Cluster>,
        wanted: Wanted,
        identity: Identity,
    ) -> Result<Scene, KeeperError> {
        let observed = self.observe(&wanted).await?;
        let image_name = wanted.image_of(&identity.image);
        let brokers = broker_ids(&present(&observed, Role::Broker), wanted.brokers, &wanted.remove);
        let controllers = if identity.founded {
            controller_ids(&present(&observed, Role::Controller), wanted.controllers)
        } else {
            // Those who found the cluster have to be the ones that were told of each other.
            Ids { stay: identity.founders.iter().copied().collect(), leave: Vec::new() }
        };
        let nodes = nodes(&wanted, &brokers, &controllers, &observed);
        let view = view(&wanted, &nodes, &image_name, &observed, |node| self.told(&wanted, node));
        Ok(Scene { resource: Arc::clone(resource), wanted, identity, image_name, observed, brokers, controllers, view })
    }

    /// What a node's broker is to be told of its further listeners.
    fn told(&self, wanted: &Wanted, node: Node) -> Told {
        match node.role {
            Role::Controller => Told::default(),
            Role::Broker => {
                listeners::told(wanted, node.id, |name| self.caches.services.get(&wanted.names.namespace, name))
            }
        }
    }

    /// Does what can be done now.
    async fn act(&mut self, scene: &Scene) -> Result<Outcome, KeeperError> {
        let mut outcome =
            Outcome { step: Step::Done, moving: None, settings_refused: None, topics: TopicsPass::default() };
        if scene.wanted.paused {
            return Ok(outcome);
        }
        self.apply_ground(scene).await?;
        self.apply_claims(scene).await?;
        let step = if scene.wanted.stopped { plan_stop(&scene.view) } else { plan(&scene.view) };
        outcome.step = self.carry_out(scene, step).await?;
        if scene.wanted.stopped || !scene.observed.is_current || scene.observed.image.cluster_id().is_none() {
            return Ok(outcome);
        }
        self.apply_throttle(scene).await?;
        outcome.moving = self.next_move(scene, &outcome.step);
        if let Some(moving) = &outcome.moving {
            self.carry_out_move(scene, moving).await?;
        }
        outcome.settings_refused = self.apply_settings(scene).await?;
        outcome.topics = self.topics(scene).await?;
        Ok(outcome)
    }

    /// What there is now.
    async fn observe(&mut self, wanted: &Wanted) -> Result<Observed, KeeperError> {
        let pods = self.caches.pods_of(&wanted.names);
        self.connect(wanted, &pods)?;
        let mut observed = Observed { pods, now_ms: time::unix_ms(), ..Observed::default() };
        if let Some(link) = &self.link {
            observed.image = link.metadata();
            observed.is_current = link.is_current();
            observed.quorum = link.quorum().await.ok().filter(|quorum| quorum.active.is_some());
        }
        Ok(observed)
    }

    /// Connects to the controllers where their pods are now.
    fn connect(&mut self, wanted: &Wanted, pods: &BTreeMap<Node, Arc<Pod>>) -> Result<(), KeeperError> {
        let Some(secret) = &self.trust else { return Ok(()) };
        let member = |(node, pod): (&Node, &Arc<Pod>)| {
            let place = place(pod, CONTROLLER_PORT)?;
            Some(Member { address: wanted.names.controller_address(node.id), place })
        };
        let controllers = pods.iter().filter(|(node, _)| node.role == Role::Controller);
        let members: Vec<Member> = controllers.filter_map(member).collect();
        if members.is_empty() {
            self.link = None;
        } else if self.link.as_ref().is_none_or(|link| link.members() != members) {
            let known = self.link.as_ref().map(Link::metadata).unwrap_or_default();
            let news = Arc::clone(&self.inbox.news);
            self.link = Some(Link::connect(members, secret, known, news)?);
        }
        Ok(())
    }

    async fn propose(&self, command: Command) -> Result<Reply, PlatformError> {
        match &self.link {
            Some(link) => link.propose(command).await,
            None => Err(PlatformError::Unreachable("there are no controllers yet".to_owned())),
        }
    }

    /// Sets what running brokers take; gives what the controllers say against it.
    async fn apply_settings(&self, scene: &Scene) -> Result<Option<ControlError>, KeeperError> {
        let Some(link) = &self.link else { return Ok(None) };
        let valid = scene.wanted.for_topics();
        // Settings that are read at the start are the pods' revision's affair.
        let mut observed = cluster::fetch(&link.metadata());
        if scene.wanted.throttle.is_any() {
            // They come and go with the moves.
            observed.dynamic.retain(|name, _| !throttle::RATES.contains(&name.as_str()));
        }
        let plan = cluster::build(&valid, &observed, &valid);
        match cluster::apply(&plan, link).await {
            Ok(()) => Ok(None),
            Err(PlatformError::Refused(error)) => Ok(Some(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Deals with the cluster's Topics.
    async fn topics(&self, scene: &Scene) -> Result<TopicsPass, KeeperError> {
        let Some(link) = self.link.as_ref().filter(|link| !link.metadata().brokers().is_empty()) else {
            return Ok(TopicsPass::default());
        };
        let is_own = |topic: &Topic| cluster_key(&topic.spec.cluster_ref, topic.namespace()) == self.key;
        let topics = self.caches.topics.select(is_own);
        let removed = std::mem::take(&mut *self.inbox.removed.lock());
        let outcome = topics::pass(&self.kube, &scene.wanted, link, &topics, removed.clone()).await;
        if outcome.is_err() {
            // They are not forgotten before they are dealt with.
            self.inbox.removed.lock().extend(removed);
        }
        Ok(outcome?)
    }
}

/// The nodes that pods are kept for: those that are to be, and brokers that leave while something is left on them.
fn nodes(wanted: &Wanted, brokers: &Ids, controllers: &Ids, observed: &Observed) -> BTreeSet<Node> {
    if wanted.stopped {
        return BTreeSet::new();
    }
    let holds = |id: &&i32| {
        let broker = taffrail_core::ids::BrokerId(**id);
        observed.image.replica_index().hosted_by(broker).next().is_some()
    };
    let leaving = brokers.leave.iter().filter(holds);
    let brokers = brokers.stay.iter().chain(leaving).map(|id| Node::broker(*id));
    controllers.stay.iter().map(|id| Node::controller(*id)).chain(brokers).collect()
}

/// The first words of all blocks that a step waits for.
fn waits_for(step: &Step) -> &[Block] {
    match step {
        Step::Wait(blocks) => blocks,
        _ => &[],
    }
}
