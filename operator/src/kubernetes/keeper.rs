//! Keeps one Cluster as its resource says: fetch, validate, build, apply, again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use parking_lot::Mutex;
use taffrail_core::control::{CloseGrant, Command, ControlError, OpenGrant, Reply, RestartVerdict, SmallPartitions};
use taffrail_core::ids::BrokerId;
use taffrail_runtime::cluster_secret::ClusterSecret;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{random, time};
use tokio::sync::Notify;

use super::api::{ApiError, Kube, Namespaced, covers};
use super::build;
use super::cache::{Cache, Key};
use super::caches::Caches;
use super::conditions::{carried_over, now};
use super::identity::{Identity, IdentityError};
use super::link::{Link, Member};
use super::names::{CLUSTER_LABEL, CONTROLLER_PORT, Node, Role, node_of};
use super::observed::{Observed, view};
use super::rollout::{Block, Lagging, Rule, Step, View, plan};
use super::status::{Facts, status};
use super::topics::{self, TopicsError, TopicsPass};
use super::wanted::{Wanted, validate};
use crate::crd::cluster::SmallRfPolicy;
use crate::crd::parts::{ConditionStatus, condition};
use crate::crd::{Cluster, ClusterStatus, Topic};
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

/// How long a grant is taken for; it is prolonged while it is needed.
const GRANT_MS: i64 = 300_000;

/// Bytes of a cluster's secret.
const SECRET_BYTES: usize = 32;

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
}

/// Keeps one Cluster.
pub struct Keeper {
    key: Key,
    kube: Kube,
    caches: Arc<Caches>,
    inbox: Arc<Inbox>,
    defaults: Defaults,
    trust: Option<(Vec<u8>, ClusterSecret)>,
    link: Option<Link>,
    /// Since when each blocker stands in the way.
    since: BTreeMap<String, Time>,
    /// Why the cluster did not give the grant that was asked for last.
    refused: Vec<Block>,
}

impl Keeper {
    /// A keeper of the Cluster of this key.
    pub fn new(key: Key, kube: Kube, caches: Arc<Caches>, inbox: Arc<Inbox>, defaults: Defaults) -> Self {
        Self {
            key,
            kube,
            caches,
            inbox,
            defaults,
            trust: None,
            link: None,
            since: BTreeMap::new(),
            refused: Vec::new(),
        }
    }

    /// Works until the Cluster is gone, or the word to stop.
    pub async fn run(mut self, stop: Shutdown) {
        let mut pause = RETRY_MIN;
        while !stop.is_triggered() {
            let Some(resource) = self.caches.clusters.get(&self.key.namespace, &self.key.name) else { return };
            let again = match self.pass(&resource).await {
                Ok(again) => {
                    pause = RETRY_MIN;
                    again
                }
                Err(error) => {
                    let (namespace, cluster) = (&self.key.namespace, &self.key.name);
                    tracing::warn!(namespace, cluster, %error, "not everything could be done; trying again");
                    let wait = pause;
                    pause = (pause * 2).min(RETRY_MAX);
                    time::sleep(wait).await;
                    Duration::ZERO
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
    async fn pass(&mut self, resource: &Arc<Cluster>) -> Result<Duration, KeeperError> {
        let wanted = match validate(resource) {
            Ok(wanted) => wanted,
            Err(problems) => {
                self.report_refused(resource, "InvalidSpec", &problems.join("; ")).await?;
                return Ok(RESYNC);
            }
        };
        let Some(mut identity) = self.identity(&wanted).await? else {
            let message = "neither the Cluster nor the operator names an image: set spec.template.image";
            self.report_refused(resource, "NoImage", message).await?;
            return Ok(RESYNC);
        };
        let image_name = wanted.image.clone().unwrap_or_else(|| identity.image.clone());
        if wanted.paused {
            let observed = self.observe(&wanted, &identity).await?;
            let view = view(&wanted, &nodes(&wanted), &image_name, &observed);
            self.report(resource, &wanted, &identity, &image_name, &observed, &view, &Step::Done, None, &[]).await?;
            return Ok(RESYNC);
        }
        self.trust(&wanted).await?;
        self.apply_support(&wanted).await?;
        let observed = self.observe(&wanted, &identity).await?;
        if observed.image.cluster_id().is_some() && !identity.founded {
            // From here on the disks know their cluster, and nobody may found it again.
            identity.founded = true;
            let metadata = build::beside_disks(&wanted, wanted.names.identity());
            let applied = self.kube.apply(&identity.to_config_map(&wanted.names, metadata)).await?;
            self.caches.maps.put(applied);
        }
        let nodes = nodes(&wanted);
        self.apply_claims(&wanted, &nodes).await?;
        let view = view(&wanted, &nodes, &image_name, &observed);
        let mut step = plan(&view);
        step = self.carry_out(&wanted, &identity, &image_name, &observed, step).await?;
        let settings_refused = self.apply_settings(&wanted).await?;
        let topics = self.topics(&wanted).await?;
        let refused = settings_refused.as_ref().map(ToString::to_string);
        self.report(
            resource,
            &wanted,
            &identity,
            &image_name,
            &observed,
            &view,
            &step,
            refused.as_deref(),
            &topics.orphans,
        )
        .await?;
        Ok(match step {
            Step::Done if self.link.as_ref().is_some_and(Link::is_current) => RESYNC,
            _ => BUSY,
        })
    }

    /// Which cluster this is: read back, or written down now if it is new. `None` = there is no image to run.
    async fn identity(&mut self, wanted: &Wanted) -> Result<Option<Identity>, KeeperError> {
        let (namespace, name) = (&wanted.names.namespace, wanted.names.identity());
        let known = match self.caches.maps.get(namespace, &name) {
            Some(map) => Some(map),
            // Not just what the watch has brought: a second identity would be a second cluster.
            None => self.kube.get::<ConfigMap>(namespace, &name).await?.map(Arc::new),
        };
        if let Some(map) = known {
            let identity = Identity::read(&map)?;
            let has_disks = self.caches.claims.get(namespace, &wanted.names.claim(Node::controller(0))).is_some();
            if identity.resource_uid == wanted.uid || has_disks || !self.caches.claims.is_synced() {
                return Ok(Some(identity));
            }
            // Of a Cluster that is gone, with all its controllers' disks: nothing of it is left to be lost.
            self.kube.delete(&*map).await?;
        }
        let Some(image) = wanted.image.as_ref().or(self.defaults.image.as_ref()) else { return Ok(None) };
        let identity = Identity::new(random::uuid(), image, wanted.controllers, &wanted.uid);
        let metadata = build::beside_disks(wanted, name.clone());
        let created = self.kube.create(&identity.to_config_map(&wanted.names, metadata)).await?;
        let map = match created {
            Some(map) => map,
            None => self.kube.get::<ConfigMap>(namespace, &name).await?.unwrap_or_default(),
        };
        let identity = Identity::read(&map)?;
        self.caches.maps.put(map);
        Ok(Some(identity))
    }

    /// The secret that all processes of the cluster share: read back, or made now.
    async fn trust(&mut self, wanted: &Wanted) -> Result<(), KeeperError> {
        if self.trust.is_some() {
            return Ok(());
        }
        let (namespace, name) = (&wanted.names.namespace, wanted.names.trust());
        let secret = match self.kube.get::<Secret>(namespace, &name).await? {
            Some(secret) => Some(secret),
            None => {
                let mut bytes = [0; SECRET_BYTES];
                random::fill(&mut bytes);
                let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                self.kube.create(&build::trust(wanted, &text)).await?
            }
        };
        let content = secret.and_then(|secret| secret.data?.remove(build::TRUST_KEY)).unwrap_or_default().0;
        let secret = ClusterSecret::new(&content).map_err(|_| KeeperError::Trust(name))?;
        self.trust = Some((content, secret));
        Ok(())
    }

    /// Makes what pods need, and what clients begin with.
    async fn apply_support(&self, wanted: &Wanted) -> Result<(), KeeperError> {
        let caches = &self.caches;
        self.ensure(&caches.accounts, &build::account(wanted)).await?;
        for role in Role::ALL {
            self.ensure(&caches.services, &build::headless(wanted, role)).await?;
        }
        self.ensure(&caches.services, &build::bootstrap(wanted)).await?;
        let spare = |role| match role {
            Role::Broker => wanted.brokers - 1,
            Role::Controller => wanted.controllers / 2 + 1,
        };
        for role in Role::ALL.into_iter().filter(|_| wanted.has_budget) {
            self.ensure(&caches.budgets, &build::budget(wanted, role, spare(role))).await?;
        }
        Ok(())
    }

    /// Writes an object unless it is as it should be.
    async fn ensure<K: Namespaced>(&self, cache: &Cache<K>, object: &K) -> Result<(), KeeperError> {
        let present = cache.get(&object.namespace().unwrap_or_default(), &object.name_any());
        let json = |object: &K| serde_json::to_value(object).unwrap_or_default();
        if !present.is_some_and(|present| covers(&json(&present), &json(object))) {
            cache.put(self.kube.apply(object).await?);
        }
        Ok(())
    }

    /// Makes the nodes' disks, and makes those larger that are too small.
    async fn apply_claims(&self, wanted: &Wanted, nodes: &BTreeSet<Node>) -> Result<(), KeeperError> {
        for node in nodes {
            let claim = build::claim(wanted, *node);
            let present = self.caches.claims.get(&wanted.names.namespace, &wanted.names.claim(*node));
            if present.is_none_or(|present| build::is_grown(&present, &claim)) {
                self.caches.claims.put(self.kube.apply(&claim).await?);
            }
        }
        Ok(())
    }

    /// What there is now.
    async fn observe(&mut self, wanted: &Wanted, identity: &Identity) -> Result<Observed, KeeperError> {
        let pods = self.caches.pods.select(|pod| {
            let labels = pod.metadata.labels.as_ref();
            pod.metadata.namespace.as_ref() == Some(&wanted.names.namespace)
                && labels.and_then(|labels| labels.get(CLUSTER_LABEL)) == Some(&wanted.names.cluster)
        });
        let pods: BTreeMap<Node, Arc<Pod>> =
            pods.into_iter().filter_map(|pod| Some((node_of(pod.metadata.labels.as_ref()?)?, pod))).collect();
        self.connect(wanted, identity, &pods)?;
        let mut observed = Observed { pods, now_ms: time::unix_ms(), ..Observed::default() };
        if let Some(link) = &self.link {
            observed.image = link.metadata();
            observed.is_current = link.is_current();
            observed.quorum = link.quorum().await.ok().filter(|quorum| quorum.active.is_some());
        }
        Ok(observed)
    }

    /// Connects to the controllers where their pods are now.
    fn connect(
        &mut self,
        wanted: &Wanted,
        identity: &Identity,
        pods: &BTreeMap<Node, Arc<Pod>>,
    ) -> Result<(), KeeperError> {
        let Some((_, secret)) = &self.trust else { return Ok(()) };
        let member = |(node, pod): (&Node, &Arc<Pod>)| {
            let place = pod.status.as_ref()?.pod_ip.as_ref().filter(|_| node.role == Role::Controller)?;
            let place = if place.contains(':') { format!("[{place}]") } else { place.clone() };
            let place = format!("{place}:{CONTROLLER_PORT}");
            Some(Member { address: wanted.names.controller_address(node.id), place })
        };
        let members: Vec<Member> = pods.iter().filter_map(member).collect();
        if members.is_empty() || self.link.as_ref().is_some_and(|link| link.members() == members) {
            return Ok(());
        }
        let news = Arc::clone(&self.inbox.news);
        self.link = Some(Link::connect(members, secret, identity.cluster_id, news)?);
        Ok(())
    }

    /// Does what the planner says; gives the step as it came out.
    async fn carry_out(
        &mut self,
        wanted: &Wanted,
        identity: &Identity,
        image_name: &str,
        observed: &Observed,
        step: Step,
    ) -> Result<Step, KeeperError> {
        let name = &self.key.name;
        match &step {
            Step::Done => self.refused.clear(),
            Step::Create(nodes) => {
                for node in nodes {
                    let pod = build::pod(wanted, identity, *node, image_name);
                    if let Some(created) = self.kube.create(&pod).await? {
                        tracing::info!(cluster = name, pod = created.name_any(), "pod created");
                        self.caches.pods.put(created);
                    }
                }
            }
            Step::Delete(node, causes) => {
                if let Some(pod) = observed.pods.get(node) {
                    let causes: Vec<&str> = causes.iter().map(|cause| cause.name()).collect();
                    tracing::info!(cluster = name, pod = pod.name_any(), causes = causes.join(","), "pod deleted");
                    self.kube.delete(&**pod).await?;
                }
            }
            Step::AskGrant(id) => {
                self.refused = self.ask_grant(wanted, *id).await?;
                if !self.refused.is_empty() {
                    return Ok(Step::Wait(self.refused.clone()));
                }
                self.inbox.news.notify_one();
            }
            Step::ReturnGrant(id) => {
                let request = CloseGrant { id: *id, operator_epoch: self.defaults.epoch };
                self.propose(Command::CloseGrant(request)).await?;
                self.inbox.news.notify_one();
            }
            Step::Wait(_) => self.prolong_grant(wanted, observed).await?,
        }
        Ok(step)
    }

    async fn propose(&self, command: Command) -> Result<Reply, PlatformError> {
        match &self.link {
            Some(link) => link.propose(command).await,
            None => Err(PlatformError::Unreachable("there are no controllers yet".to_owned())),
        }
    }

    /// Asks whether a broker may go; gives what stands in the way.
    async fn ask_grant(&self, wanted: &Wanted, id: i32) -> Result<Vec<Block>, KeeperError> {
        let reply = self.propose(Command::OpenGrant(self.grant(wanted, [BrokerId(id)].into()))).await;
        let held = |error: &ControlError| vec![Block::node(Rule::GrantRefused, Node::broker(id), error.to_string())];
        match reply {
            Ok(Reply::GrantOpened(_)) => Ok(Vec::new()),
            Ok(Reply::RestartJudged(verdict)) => Ok(blocks(id, &verdict)),
            Ok(_) => Err(PlatformError::UnexpectedReply("OpenGrant").into()),
            Err(PlatformError::Refused(error)) => Ok(held(&error)),
            Err(error) => Err(error.into()),
        }
    }

    fn grant(&self, wanted: &Wanted, brokers: BTreeSet<BrokerId>) -> OpenGrant {
        let policy = match wanted.rollout.small_rf_policy {
            SmallRfPolicy::Refuse => SmallPartitions::Block,
            SmallRfPolicy::Allow | SmallRfPolicy::Warn => SmallPartitions::Warn,
        };
        OpenGrant { brokers, operator_epoch: self.defaults.epoch, duration_ms: GRANT_MS, policy }
    }

    /// A grant must not end while the broker that it is for is away.
    async fn prolong_grant(&self, wanted: &Wanted, observed: &Observed) -> Result<(), KeeperError> {
        let Some(grant) = observed.image.grant().filter(|grant| grant.is_open(observed.now_ms)) else { return Ok(()) };
        if grant.expires_ms - observed.now_ms < GRANT_MS / 2 {
            self.propose(Command::OpenGrant(self.grant(wanted, grant.brokers.clone()))).await?;
        }
        Ok(())
    }

    /// Sets what running brokers take; gives what the controllers say against it.
    async fn apply_settings(&self, wanted: &Wanted) -> Result<Option<ControlError>, KeeperError> {
        let Some(link) = self.link.as_ref().filter(|link| link.is_current()) else { return Ok(None) };
        let image = link.metadata();
        if image.cluster_id().is_none() {
            return Ok(None);
        }
        let valid = wanted.for_topics();
        let plan = cluster::build(&valid, &cluster::fetch(&image), &valid);
        match cluster::apply(&plan, link).await {
            Ok(()) => Ok(None),
            Err(PlatformError::Refused(error)) => Ok(Some(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Deals with the cluster's Topics.
    async fn topics(&self, wanted: &Wanted) -> Result<TopicsPass, KeeperError> {
        let Some(link) = self.link.as_ref().filter(|link| link.is_current()) else { return Ok(TopicsPass::default()) };
        if link.metadata().brokers().is_empty() {
            return Ok(TopicsPass::default());
        }
        let topics = self.caches.topics.select(|topic| names_cluster(topic, &self.key));
        let removed = std::mem::take(&mut *self.inbox.removed.lock());
        let outcome = topics::pass(&self.kube, wanted, link, &topics, removed.clone()).await;
        if outcome.is_err() {
            // They are not forgotten before they are dealt with.
            self.inbox.removed.lock().extend(removed);
        }
        Ok(outcome?)
    }

    async fn report_refused(&self, resource: &Arc<Cluster>, reason: &str, message: &str) -> Result<(), KeeperError> {
        let generation = resource.metadata.generation;
        let state = |type_, status: ConditionStatus| condition(type_, status, reason, message, generation, now());
        let before = resource.status.clone().unwrap_or_default();
        let after = ClusterStatus {
            observed_generation: generation,
            conditions: vec![
                state(condition::READY, ConditionStatus::False),
                state(condition::STALLED, ConditionStatus::True),
            ],
            ..before.clone()
        };
        self.write_status(resource, &before, after).await
    }

    #[allow(clippy::too_many_arguments, reason = "all that a report is made from")]
    async fn report(
        &mut self,
        resource: &Arc<Cluster>,
        wanted: &Wanted,
        identity: &Identity,
        image_name: &str,
        observed: &Observed,
        view: &View,
        step: &Step,
        settings_refused: Option<&str>,
        orphans: &[String],
    ) -> Result<(), KeeperError> {
        let now = now();
        let blocks: Vec<String> = match step {
            Step::Wait(blocks) => blocks.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        self.since.retain(|block, _| blocks.contains(block));
        for block in blocks {
            self.since.entry(block).or_insert_with(|| now.clone());
        }
        let before = resource.status.clone().unwrap_or_default();
        let facts = Facts {
            wanted,
            identity,
            image_name,
            observed,
            view,
            step,
            settings_refused,
            orphans,
            since: &self.since,
            now: &now,
        };
        let mut after = status(&facts);
        // Only what is done counts as observed.
        let is_done = *step == Step::Done && settings_refused.is_none();
        after.observed_generation = if is_done { wanted.generation } else { before.observed_generation };
        self.write_status(resource, &before, after).await
    }

    async fn write_status(
        &self,
        resource: &Arc<Cluster>,
        before: &ClusterStatus,
        mut after: ClusterStatus,
    ) -> Result<(), KeeperError> {
        after.conditions = carried_over(&before.conditions, after.conditions);
        if after != *before {
            self.kube.report(&**resource, &after).await?;
            let mut known = Cluster::clone(resource);
            known.status = Some(after);
            self.caches.clusters.put(known);
        }
        Ok(())
    }
}

/// Whether a Topic is about the Cluster of this key.
pub fn names_cluster(topic: &Topic, key: &Key) -> bool {
    let reference = &topic.spec.cluster_ref;
    let namespace = reference.namespace.clone().or_else(|| topic.namespace()).unwrap_or_default();
    reference.name == key.name && namespace == key.namespace
}

/// The nodes that there are to be.
fn nodes(wanted: &Wanted) -> BTreeSet<Node> {
    let brokers = (0..wanted.brokers).map(Node::broker);
    (0..wanted.controllers).map(Node::controller).chain(brokers).collect()
}

/// What stands in the way of taking broker `id` down, in the cluster's own words.
fn blocks(id: i32, verdict: &RestartVerdict) -> Vec<Block> {
    let partition = |partition: &taffrail_core::control::AffectedPartition| {
        let behind = partition.behind.first().map(|behind| behind.broker.0);
        Block::partition(
            Rule::UnderMinIsr,
            Lagging {
                topic: partition.topic.to_string(),
                partition: partition.partition,
                isr: partition.isr.iter().map(|id| id.0).collect(),
                minimum: i32::try_from(partition.min_in_sync).ok(),
                broker: behind.or(Some(id)),
            },
        )
    };
    let mut blocks: Vec<Block> = verdict.blocking.iter().map(partition).collect();
    if let Some(grant) = &verdict.grant {
        let brokers: Vec<String> = grant.brokers.iter().map(ToString::to_string).collect();
        let detail = format!("grant {} is open for broker {}", grant.id, brokers.join(", "));
        blocks.push(Block::node(Rule::GrantHeld, Node::broker(id), detail));
    }
    if blocks.is_empty() {
        blocks.push(Block::node(Rule::GrantRefused, Node::broker(id), "the broker is not known"));
    }
    blocks
}
