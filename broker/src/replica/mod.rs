//! Replicas of partitions that this broker keeps.
//!
//! The manager follows the metadata: what an image says about topics is made true here before the image is published, so
//! a leader that clients are shown has its log open.

mod following;
mod partition;
mod retry;
mod topic;
pub(crate) mod waiters;

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use futures::StreamExt;
use taffrail_core::collections::{HashMap, HashSet};
use taffrail_core::config::{BrokerLayers, Overrides};
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::{ConfigResource, MetadataEvent, PartitionState, ResourceKind};
use taffrail_core::ids::{BrokerId, PartitionIndex, TopicId, TopicPartition};
use taffrail_core::image::{MetadataImage, TopicImage};
use taffrail_protocol::data::TopicRef;
use taffrail_storage::{Log, LogOptions, Storage, StorageError};

use crate::metrics::{Metrics, TopicMetrics};
pub(crate) use following::FollowError;
pub(crate) use partition::{Offsets, Partition, Refused, read_refusal};
use retry::Retry;
pub(crate) use topic::{Topic, TopicSettings};

/// Partitions that one job on the storage's threads opens, and such jobs at the same time, when many come at once.
const OPENING_BATCH: usize = 64;
const OPENING_MAX: usize = 32;

/// The replicas of this broker. Reading the set costs an atomic load; changing it copies the table of topics.
pub(crate) struct ReplicaManager {
    own_id: BrokerId,
    storage: Arc<Storage>,
    topic_metrics: TopicMetrics,
    gauges: Gauges,
    hosted: ArcSwap<Hosted>,
    retry: Retry,
}

struct Gauges {
    leaders: prometheus::IntGauge,
    partitions: prometheus::IntGauge,
    offline: prometheus::IntGauge,
    under_replicated: prometheus::IntGauge,
    under_min: prometheus::IntGauge,
    at_min: prometheus::IntGauge,
}

/// The topics of which this broker keeps a partition.
#[derive(Clone, Default)]
pub(crate) struct Hosted {
    by_name: HashMap<Arc<str>, Arc<HostedTopic>>,
    by_id: HashMap<TopicId, Arc<HostedTopic>>,
}

/// One of these topics.
#[derive(Clone)]
struct HostedTopic {
    topic: Arc<Topic>,
    overrides: Arc<Overrides>,
    partitions: Vec<Replica>,
}

impl HostedTopic {
    /// Its partitions that are served here.
    fn served(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.partitions.iter().filter_map(|replica| match replica {
            Replica::Served(partition) => Some(partition),
            _ => None,
        })
    }
}

/// What is here of a partition.
#[derive(Clone)]
enum Replica {
    /// Other brokers keep it.
    Elsewhere,
    /// It is served.
    Served(Arc<Partition>),
    /// Its log could not be opened; that is tried again.
    Failed,
}

/// A partition that should be here and is not open.
#[derive(Clone)]
struct Missing {
    index: PartitionIndex,
    state: Arc<PartitionState>,
    /// Whether its log could not be opened before.
    failed_before: bool,
}

impl Hosted {
    fn topic(&self, topic: &TopicRef) -> Option<&Arc<HostedTopic>> {
        match topic {
            TopicRef::Name(name) => self.by_name.get(&**name),
            TopicRef::Id(id) => self.by_id.get(id),
        }
    }

    /// A partition that is kept here.
    ///
    /// # Errors
    /// What a client is told, by what `image` says about the partition.
    pub(crate) fn partition(
        &self,
        topic: &TopicRef,
        index: PartitionIndex,
        image: &MetadataImage,
    ) -> Result<&Arc<Partition>, Refused> {
        let replica = usize::try_from(index)
            .ok()
            .and_then(|index| self.topic(topic)?.partitions.get(index))
            .unwrap_or(&Replica::Elsewhere);
        match replica {
            Replica::Served(partition) => Ok(partition),
            Replica::Failed => Err(ErrorCode::KafkaStorageError.into()),
            Replica::Elsewhere => Err(elsewhere(topic, index, image)),
        }
    }

    /// All partitions that are served.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.by_id.values().flat_map(|topic| topic.served())
    }

    /// All partitions whose logs could not be opened.
    fn failed(&self) -> impl Iterator<Item = (&Topic, PartitionIndex)> {
        self.by_id.values().flat_map(|hosted| {
            let numbered = (0..).zip(&hosted.partitions);
            numbered.filter(|(_, replica)| matches!(replica, Replica::Failed)).map(|(index, _)| (&*hosted.topic, index))
        })
    }

    fn insert(&mut self, topic: HostedTopic) {
        let (topic, name, id) = (Arc::new(topic.clone()), Arc::clone(&topic.topic.name), topic.topic.id);
        self.by_name.insert(name, Arc::clone(&topic));
        self.by_id.insert(id, topic);
    }

    fn remove(&mut self, id: TopicId) -> Option<Arc<HostedTopic>> {
        let topic = self.by_id.remove(&id)?;
        // A topic of the same name may have been made meanwhile.
        if self.by_name.get(&topic.topic.name).is_some_and(|named| named.topic.id == id) {
            self.by_name.remove(&topic.topic.name);
        }
        Some(topic)
    }
}

/// Why a partition that is not kept here is not served.
fn elsewhere(topic: &TopicRef, index: PartitionIndex, image: &MetadataImage) -> Refused {
    let (known, unknown) = match topic {
        TopicRef::Name(name) => (image.topic(name), ErrorCode::UnknownTopicOrPartition),
        TopicRef::Id(id) => (image.topic_by_id(*id), ErrorCode::UnknownTopicId),
    };
    let Some(known) = known else { return unknown.into() };
    match known.partition(index) {
        None => ErrorCode::UnknownTopicOrPartition.into(),
        Some(state) => {
            Refused { error: ErrorCode::NotLeaderOrFollower, leader: Some((state.leader, state.leader_epoch)) }
        }
    }
}

impl ReplicaManager {
    pub(crate) fn new(own_id: BrokerId, storage: Arc<Storage>, metrics: &Metrics) -> Self {
        let gauges = Gauges {
            leaders: metrics.leader_count.clone(),
            partitions: metrics.partition_count.clone(),
            offline: metrics.offline_replica_count.clone(),
            under_replicated: metrics.under_replicated.clone(),
            under_min: metrics.under_min_isr.clone(),
            at_min: metrics.at_min_isr.clone(),
        };
        let topic_metrics = metrics.topics.clone();
        Self { own_id, storage, topic_metrics, gauges, hosted: ArcSwap::default(), retry: Retry::default() }
    }

    /// The replicas at this moment. Take it once for an answer.
    pub(crate) fn hosted(&self) -> Arc<Hosted> {
        self.hosted.load_full()
    }

    /// The same for answers that are made in one go: it writes to nothing that other shards read.
    pub(crate) fn glance(&self) -> Guard<Arc<Hosted>> {
        self.hosted.load()
    }

    /// Where the logs are.
    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// Makes the replicas what `image` says. `events` made it from the image before; `None` = anything may have changed.
    /// Gives the partitions whose state is another one now, those that are gone too; all of them for `None`.
    pub(crate) async fn follow(
        &self,
        image: &MetadataImage,
        events: Option<&[MetadataEvent]>,
        layers: &BrokerLayers,
    ) -> Vec<Arc<Partition>> {
        let changed = match events {
            Some(events) => changed_topics(image, events),
            None => {
                let hosted = self.hosted.load();
                image.topics().iter().map(|topic| topic.id).chain(hosted.by_id.keys().copied()).collect()
            }
        };
        if changed.is_empty() && events.is_some() {
            return Vec::new();
        }
        let mut moved = Vec::new();
        let mut hosted = Hosted::clone(&self.hosted.load());
        // First what goes, then what comes: a topic that was deleted and made again uses the same folders.
        for id in &changed {
            if image.topic_by_id(*id).is_none()
                && let Some(gone) = hosted.remove(*id)
            {
                self.hosted.store(Arc::new(hosted.clone()));
                self.let_go(&gone).await;
                moved.extend(gone.served().cloned());
            }
        }
        for id in &changed {
            if let Some(topic) = image.topic_by_id(*id) {
                moved.extend(self.follow_topic(image, topic, layers, &mut hosted).await);
            }
        }
        if events.is_none() {
            moved.extend(hosted.partitions().cloned());
        }
        self.hosted.store(Arc::new(hosted));
        // An image of no cluster says nothing about what should be here.
        if events.is_none() && image.cluster_id().is_some() {
            self.set_aside_unknown().await;
            self.forget_gone().await;
        }
        self.count();
        moved
    }

    /// Waits until logs that could not be opened are due to be tried again; for ever while there are none.
    pub(crate) async fn retry_due(&self) {
        self.retry.due().await;
    }

    /// Tries again to open logs that could not be opened, for instance because the disk was full. `image` is the one that
    /// was followed last. Tells whether any is open now. The calls of this and of `follow` must not overlap.
    pub(crate) async fn retry(&self, image: &MetadataImage, layers: &BrokerLayers) -> bool {
        self.retry.begin();
        let mut hosted = Hosted::clone(&self.hosted.load());
        let before = hosted.failed().count();
        let topics: BTreeSet<TopicId> = hosted.failed().map(|(topic, _)| topic.id).collect();
        for topic in topics.into_iter().filter_map(|id| image.topic_by_id(id)) {
            self.follow_topic(image, topic, layers, &mut hosted).await;
        }
        let after = hosted.failed().count();
        self.hosted.store(Arc::new(hosted));
        self.count();
        if after < before {
            tracing::info!(opened = before - after, left = after, "partitions that could not be opened are served now");
        }
        after < before
    }

    /// A topic is gone: so are its partitions, whoever waits for them, and its numbers.
    async fn let_go(&self, gone: &HostedTopic) {
        self.topic_metrics.forget(&gone.topic.name);
        for (index, replica) in (0..).zip(&gone.partitions) {
            let is_open = match replica {
                Replica::Elsewhere => continue,
                Replica::Served(partition) => {
                    partition.end();
                    true
                }
                Replica::Failed => false,
            };
            let name = TopicPartition::new(Arc::clone(&gone.topic.name), index);
            let (storage, deleted, topic_id) = (Arc::clone(&self.storage), name.clone(), gone.topic.id);
            let delete = move || match is_open {
                true => storage.delete(&deleted),
                false => storage.delete_unopened(&deleted, topic_id),
            };
            match self.storage.pool().run(delete).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(partition = %name, %error, "a deleted partition's log remains"),
                Err(error) => tracing::warn!(partition = %name, %error, "a deleted partition's log remains"),
            }
        }
    }

    /// Makes the replicas of a topic what `image` says; gives those whose state is another one now.
    async fn follow_topic(
        &self,
        image: &MetadataImage,
        topic: &TopicImage,
        layers: &BrokerLayers,
        hosted: &mut Hosted,
    ) -> Vec<Arc<Partition>> {
        let overrides = image.overrides(&ConfigResource::topic(Arc::clone(&topic.name))).cloned().unwrap_or_default();
        let settings = TopicSettings::resolve(&overrides, layers);
        let mut entry = match hosted.by_id.get(&topic.id) {
            Some(known) => HostedTopic::clone(known),
            None if topic.replicas_of(self.own_id).next().is_none() => return Vec::new(),
            None => {
                let counters = self.topic_metrics.counters(&topic.name);
                let shared = Topic::new(Arc::clone(&topic.name), topic.id, settings.clone(), counters);
                HostedTopic { topic: Arc::new(shared), overrides: Arc::clone(&overrides), partitions: Vec::new() }
            }
        };
        if settings.config != entry.topic.settings.load().config {
            self.reconfigure(&entry, &settings);
            entry.topic.settings.store(Arc::new(settings));
        }
        entry.overrides = overrides;
        entry.partitions.resize(topic.partitions.len(), Replica::Elsewhere);
        let missing: Vec<Missing> = topic
            .replicas_of(self.own_id)
            .filter(|(index, _)| !matches!(entry.partitions[*index as usize], Replica::Served(_)))
            .map(|(index, state)| Missing {
                index,
                state: Arc::clone(state),
                failed_before: matches!(entry.partitions[index as usize], Replica::Failed),
            })
            .collect();
        let options = Arc::new(entry.topic.settings.load().log_options());
        let open = |batch: &[Missing]| self.open(Arc::clone(&entry.topic), batch.to_vec(), Arc::clone(&options));
        let jobs: Vec<_> = missing.chunks(OPENING_BATCH).map(open).collect();
        let opened: Vec<Vec<(PartitionIndex, Replica)>> =
            futures::stream::iter(jobs).buffer_unordered(OPENING_MAX).collect().await;
        let mut moved = Vec::new();
        for (index, replica) in opened.into_iter().flatten() {
            if let Replica::Served(partition) = &replica {
                moved.push(Arc::clone(partition));
            }
            entry.partitions[index as usize] = replica;
        }
        for (replica, state) in entry.partitions.iter().zip(&topic.partitions) {
            if let Replica::Served(partition) = replica
                && !Arc::ptr_eq(&partition.state(), state)
            {
                partition.follow(state);
                moved.push(Arc::clone(partition));
            }
        }
        hosted.insert(entry);
        moved
    }

    /// Opens the logs of some partitions of a topic, or makes new ones. A failure is told once, not again for those that
    /// failed before.
    async fn open(
        &self,
        topic: Arc<Topic>,
        partitions: Vec<Missing>,
        options: Arc<LogOptions>,
    ) -> Vec<(PartitionIndex, Replica)> {
        let name = |missing: &Missing| TopicPartition::new(Arc::clone(&topic.name), missing.index);
        let names: Vec<_> = partitions.iter().map(name).collect();
        let (storage, topic_id) = (Arc::clone(&self.storage), topic.id);
        let open_all = move || -> Vec<_> {
            names.iter().map(|name| open_log(&storage, name, topic_id, Arc::clone(&options))).collect()
        };
        let opened = self.storage.pool().run(open_all).await;
        let opened = opened.unwrap_or_else(|_| partitions.iter().map(|_| Err(StorageError::Busy)).collect());
        let replica = |(missing, log): (Missing, _)| (missing.index, self.replica(&topic, missing, log));
        partitions.into_iter().zip(opened).map(replica).collect()
    }

    fn replica(&self, topic: &Arc<Topic>, missing: Missing, log: Result<Arc<Log>, StorageError>) -> Replica {
        let (name, partition) = (&topic.name, missing.index);
        match log {
            Ok(log) => {
                let partition = Partition::new(Arc::clone(topic), partition, self.own_id, log);
                partition.follow(&missing.state);
                return Replica::Served(Arc::new(partition));
            }
            Err(error) if missing.failed_before => {
                tracing::debug!(topic = %name, partition, %error, "a partition's log still cannot be opened");
            }
            Err(error) => {
                tracing::error!(
                    topic = %name, partition, %error,
                    "a partition's log cannot be opened; it is tried again"
                );
            }
        }
        Replica::Failed
    }

    /// The logs of partitions that no metadata know.
    fn unknown_logs(&self) -> Vec<Arc<Log>> {
        let hosted = self.hosted();
        let mut known: HashSet<*const Log> =
            hosted.partitions().map(|partition| Arc::as_ptr(partition.log())).collect();
        // What cannot be opened for now has its log there all the same.
        known.extend(hosted.failed().filter_map(|(topic, index)| {
            let log = self.storage.log(&TopicPartition::new(Arc::clone(&topic.name), index))?;
            (log.topic_id() == topic.id).then_some(Arc::as_ptr(&log))
        }));
        self.storage.logs().into_iter().filter(|log| !known.contains(&Arc::as_ptr(log))).collect()
    }

    /// Sets such logs aside: their topics were deleted while this broker was away, or they came from elsewhere. Nothing of
    /// them is deleted.
    async fn set_aside_unknown(&self) {
        for log in self.unknown_logs() {
            let (storage, name) = (Arc::clone(&self.storage), log.partition().clone());
            let aside = self.storage.pool().run(move || storage.set_aside(&name)).await;
            if let Ok(Err(error)) = aside {
                tracing::warn!(partition = %log.partition(), %error, "an unknown partition stays where it is");
            }
        }
    }

    /// Forgets partitions whose topics were deleted, and their folders removed, while this broker was away.
    async fn forget_gone(&self) {
        let (storage, hosted) = (Arc::clone(&self.storage), self.hosted());
        let forget = move || {
            storage.forget_gone(|partition| {
                let topic = hosted.by_name.get(&partition.topic);
                let replica = usize::try_from(partition.partition).ok().and_then(|index| topic?.partitions.get(index));
                replica.is_some_and(|replica| !matches!(replica, Replica::Elsewhere))
            })
        };
        if let Ok(Err(error)) = self.storage.pool().run(forget).await {
            tracing::warn!(%error, "what is gone cannot be forgotten");
        }
    }

    fn reconfigure(&self, entry: &HostedTopic, settings: &TopicSettings) {
        let options = Arc::new(settings.log_options());
        for replica in &entry.partitions {
            if let Replica::Served(partition) = replica {
                partition.log().set_options(Arc::clone(&options));
            }
        }
    }

    /// Brings the gauges up to date.
    fn count(&self) {
        let hosted = self.hosted.load();
        let (mut leaders, mut partitions, mut under_replicated, mut under_min, mut at_min) = (0, 0, 0, 0, 0);
        for partition in hosted.partitions() {
            partitions += 1;
            if !partition.leads() {
                continue;
            }
            leaders += 1;
            let state = partition.state();
            under_replicated += i64::from(state.isr.len() < state.replicas.len());
            match partition.in_sync_against_minimum() {
                std::cmp::Ordering::Less => under_min += 1,
                std::cmp::Ordering::Equal if state.replicas.len() > 1 => at_min += 1,
                _ => {}
            }
        }
        let offline = hosted.failed().count() as i64;
        self.retry.arm(offline > 0);
        self.gauges.leaders.set(leaders);
        self.gauges.partitions.set(partitions + offline);
        self.gauges.offline.set(offline);
        self.gauges.under_replicated.set(under_replicated);
        self.gauges.under_min.set(under_min);
        self.gauges.at_min.set(at_min);
    }
}

/// The log of a partition, made if there is none. A folder that belongs to another life of the topic is set aside.
fn open_log(
    storage: &Storage,
    name: &TopicPartition,
    topic_id: TopicId,
    options: Arc<LogOptions>,
) -> Result<Arc<Log>, StorageError> {
    match storage.create(name, topic_id, Arc::clone(&options)) {
        Err(StorageError::TopicIdMismatch { .. }) => {
            storage.set_aside(name)?;
            storage.create(name, topic_id, options)
        }
        opened => opened,
    }
}

/// The topics that these events are about.
fn changed_topics(image: &MetadataImage, events: &[MetadataEvent]) -> BTreeSet<TopicId> {
    let topic = |event: &MetadataEvent| match event {
        MetadataEvent::TopicCreated { topic_id, .. }
        | MetadataEvent::PartitionCreated { topic_id, .. }
        | MetadataEvent::PartitionChanged { topic_id, .. }
        | MetadataEvent::TopicDeleted { topic_id, .. } => Some(*topic_id),
        MetadataEvent::ConfigChanged { resource, .. } if resource.kind == ResourceKind::Topic => {
            image.topic(&resource.name).map(|topic| topic.id)
        }
        _ => None,
    };
    events.iter().filter_map(topic).collect()
}
