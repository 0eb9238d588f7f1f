//! Replicas of partitions that this broker keeps.
//!
//! The manager follows the metadata: what an image says about topics is made true here before the image is published, so
//! a leader that clients are shown has its log open. What that costs is in proportion to what changed.

mod append_times;
mod commits;
mod env;
mod following;
mod gauges;
mod hosted;
mod leading;
pub(crate) mod news;
mod opening;
mod partition;
mod retry;
mod throttled;
mod topic;
mod turned_away;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use taffrail_core::collections::HashSet;
use taffrail_core::config::{BrokerConfig, BrokerLayers};
use taffrail_core::control::LagReport;
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::{ConfigResource, MetadataEvent, ResourceKind};
use taffrail_core::ids::{BrokerId, PartitionIndex, TopicId, TopicPartition};
use taffrail_core::image::{MetadataImage, PartitionKey, TopicImage};
use taffrail_protocol::data::TopicRef;
use taffrail_storage::{Log, Storage};

use self::env::Env;
use self::gauges::Standing;
use self::hosted::{HostedTopic, Replica};
use self::opening::Missing;
use self::retry::Retry;
use crate::metadata::MetadataCache;
use crate::metrics::{Metrics, TopicMetrics};
use crate::replication::IsrChanges;
pub(crate) use commits::CommitWait;
pub(crate) use following::FollowError;
#[cfg(test)]
pub(crate) use following::Following;
pub(crate) use hosted::Hosted;
pub(crate) use leading::ReplicaFetch;
pub(crate) use partition::{Offsets, Partition, Reach, Refused, Subscribed, read_refusal};
pub(crate) use throttled::Side;
pub(crate) use topic::{Topic, TopicSettings};

/// The replicas of this broker. Reading the set costs an atomic load; changing which there are copies the table of topics.
pub(crate) struct ReplicaManager {
    own_id: BrokerId,
    storage: Arc<Storage>,
    topic_metrics: TopicMetrics,
    env: Arc<Env>,
    hosted: ArcSwap<Hosted>,
    retry: Retry,
    /// The partition whose followers' lags were told last, when there were too many for one report.
    lags_told_to: Mutex<Option<PartitionKey>>,
}

/// What of a topic has changed.
enum Change {
    /// Anything may have.
    All,
    /// These partitions.
    Partitions(BTreeSet<PartitionIndex>),
}

/// What is done with the replicas while an image is followed.
struct Work<'a> {
    image: &'a MetadataImage,
    layers: &'a BrokerLayers,
    /// What there will be, if that is not what there was.
    next: Option<Hosted>,
    /// Partitions that may have changed, and those that are gone.
    changed: Vec<Arc<Partition>>,
    /// Logs that go.
    leaving: Vec<Leaving>,
}

/// A log that is no replica's any more.
struct Leaving {
    name: TopicPartition,
    topic_id: TopicId,
    is_open: bool,
}

impl ReplicaManager {
    pub(crate) fn new(
        own_id: BrokerId,
        storage: Arc<Storage>,
        metadata: Arc<MetadataCache>,
        metrics: &Metrics,
    ) -> Self {
        Self {
            own_id,
            storage,
            topic_metrics: metrics.topics.clone(),
            env: Env::new(own_id, metadata, metrics),
            hosted: ArcSwap::default(),
            retry: Retry::default(),
            lags_told_to: Mutex::default(),
        }
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

    /// Changes of ISRs that leaders have proposed.
    pub(crate) fn isr_changes(&self) -> &IsrChanges {
        &self.env.isr_changes
    }

    /// Takes new settings.
    pub(crate) fn set_config(&self, config: &BrokerConfig) {
        self.env.set_lag_max_ms(config.replica_lag_time_max_ms);
        self.env.throttles.set_config(config, self.env.now_ms());
    }

    /// Has every leader look whether its followers keep up.
    pub(crate) fn check_lags(&self) {
        self.hosted().partitions().for_each(|partition| partition.check_lag());
    }

    /// `broker` serves again, says `image`: it may be in sync with partitions that are led here.
    pub(crate) fn broker_came(&self, broker: BrokerId, image: &MetadataImage) {
        let hosted = self.glance();
        for (topic, index) in image.replica_index().hosted_by(broker) {
            if let Ok(partition) = hosted.partition(&TopicRef::Id(topic), index, image) {
                partition.brokers_came(image);
            }
        }
    }

    /// How far followers out of sync are behind, of at most `partitions_max` partitions that this broker leads; of others
    /// the next time.
    pub(crate) fn lags(&self, partitions_max: usize) -> LagReport {
        if !self.env.gauges.any_under_replicated() {
            return LagReport::new();
        }
        let hosted = self.hosted();
        let mut lags: LagReport = hosted
            .partitions()
            .filter(|partition| partition.leads() && partition.state().is_under_replicated())
            .map(|partition| (partition.topic.id, partition.index, partition.lags()))
            .filter(|(_, _, lags)| !lags.is_empty())
            .collect();
        if lags.len() <= partitions_max {
            return lags;
        }
        lags.sort_unstable_by_key(|(topic, partition, _)| (*topic, *partition));
        let mut told_to = self.lags_told_to.lock();
        let after = lags.partition_point(|(topic, partition, _)| told_to.is_some_and(|to| (*topic, *partition) <= to));
        lags.rotate_left(after);
        lags.truncate(partitions_max);
        *told_to = lags.last().map(|(topic, partition, _)| (*topic, *partition));
        lags
    }

    /// Makes the replicas what `image` says. `events` made it from the image before; `None` = anything may have changed.
    /// Gives the partitions that may have changed, and those that are gone.
    pub(crate) async fn follow(
        &self,
        image: &MetadataImage,
        events: Option<&[MetadataEvent]>,
        layers: &BrokerLayers,
    ) -> Vec<Arc<Partition>> {
        let changes = match events {
            Some(events) => changes(image, events),
            None => {
                let hosted = self.hosted.load();
                let all = image.topics().iter().map(|topic| topic.id).chain(hosted.ids());
                all.map(|id| (id, Change::All)).collect()
            }
        };
        let mut work = Work { image, layers, next: None, changed: Vec::new(), leaving: Vec::new() };
        // First what goes, then what comes: a topic that was deleted and made again uses the same folders.
        for id in changes.keys().filter(|id| image.topic_by_id(**id).is_none()) {
            self.let_go(*id, &mut work);
        }
        self.finish(&mut work).await;
        for (id, change) in &changes {
            if let Some(topic) = image.topic_by_id(*id) {
                self.follow_topic(topic, change, &mut work).await;
            }
        }
        self.finish(&mut work).await;
        // An image of no cluster says nothing about what should be here.
        if events.is_none() && image.cluster_id().is_some() {
            self.set_aside_unknown().await;
            self.forget_gone().await;
        }
        self.retry.arm(!self.hosted.load().failed().is_empty());
        work.changed
    }

    /// Waits until logs that could not be opened are due to be tried again; for ever while there are none.
    pub(crate) async fn retry_due(&self) {
        self.retry.due().await;
    }

    /// Tries again to open logs that could not be opened, for instance because the disk was full. `image` is the one that
    /// was followed last. Gives the partitions that are open now. The calls of this and of `follow` must not overlap.
    pub(crate) async fn retry(&self, image: &MetadataImage, layers: &BrokerLayers) -> Vec<Arc<Partition>> {
        self.retry.begin();
        let mut failed: BTreeMap<TopicId, BTreeSet<PartitionIndex>> = BTreeMap::new();
        for (id, index) in self.hosted.load().failed() {
            failed.entry(*id).or_default().insert(*index);
        }
        let mut work = Work { image, layers, next: None, changed: Vec::new(), leaving: Vec::new() };
        for (id, partitions) in failed {
            if let Some(topic) = image.topic_by_id(id) {
                self.follow_topic(topic, &Change::Partitions(partitions), &mut work).await;
            }
        }
        self.finish(&mut work).await;
        let left = self.hosted.load().failed().len();
        self.retry.arm(left > 0);
        if !work.changed.is_empty() {
            let opened = work.changed.len();
            tracing::info!(opened, left, "partitions that could not be opened are served now");
        }
        work.changed
    }

    /// A topic is gone: so are its partitions, whoever waits for them, and its numbers.
    fn let_go(&self, id: TopicId, work: &mut Work<'_>) {
        let Some(gone) = self.known(id, work) else { return };
        self.next(work).remove(id);
        self.topic_metrics.forget(&gone.topic.name);
        for (index, replica) in gone.replicas() {
            match replica {
                Replica::Elsewhere => continue,
                Replica::Served(partition) => {
                    partition.end(ErrorCode::UnknownTopicOrPartition);
                    work.changed.push(Arc::clone(partition));
                }
                Replica::Failed => self.env.gauges.change(Standing::OFFLINE, Standing::GONE),
            }
            work.leaving.push(leaving(&gone.topic, index, replica));
        }
    }

    /// What there will be of a topic, as far as is known now.
    fn known(&self, id: TopicId, work: &Work<'_>) -> Option<Arc<HostedTopic>> {
        match &work.next {
            Some(next) => next.by_id(id).cloned(),
            None => self.hosted.load().by_id(id).cloned(),
        }
    }

    /// What there will be, to be changed.
    fn next<'a>(&self, work: &'a mut Work<'_>) -> &'a mut Hosted {
        work.next.get_or_insert_with(|| Hosted::clone(&self.hosted.load()))
    }

    /// Shows what has changed, then removes the logs that go.
    async fn finish(&self, work: &mut Work<'_>) {
        if let Some(next) = work.next.take() {
            self.hosted.store(Arc::new(next));
        }
        for Leaving { name, topic_id, is_open } in work.leaving.drain(..) {
            let (storage, deleted) = (Arc::clone(&self.storage), name.clone());
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

    async fn follow_topic(&self, topic: &TopicImage, change: &Change, work: &mut Work<'_>) {
        let entry = match self.known(topic.id, work) {
            Some(known) => {
                if matches!(change, Change::All) {
                    reconfigure(&known, work);
                }
                known
            }
            None if topic.replicas_of(self.own_id).next().is_none() => return,
            None => {
                let (settings, counters) = (settings(topic, work), self.topic_metrics.counters(&topic.name));
                Arc::new(HostedTopic::new(Arc::new(Topic::new(Arc::clone(&topic.name), topic.id, settings, counters))))
            }
        };
        let mut missing = Vec::new();
        let mut replicas = Vec::new();
        let concerned: Vec<PartitionIndex> = match change {
            Change::All => (0..topic.partition_count()).collect(),
            Change::Partitions(partitions) => partitions.iter().copied().collect(),
        };
        for index in concerned {
            let Some(state) = topic.partition(index) else { continue };
            match (entry.replica(index), state.replicas.contains(&self.own_id)) {
                (Replica::Served(partition), true) => {
                    partition.follow(state, work.image);
                    work.changed.push(Arc::clone(partition));
                }
                (replica @ (Replica::Elsewhere | Replica::Failed), true) => missing.push(Missing {
                    index,
                    state: Arc::clone(state),
                    failed_before: matches!(replica, Replica::Failed),
                }),
                (Replica::Elsewhere, false) => {}
                (replica, false) => {
                    // Other brokers keep it now; whoever asks here is told where it is led.
                    if let Replica::Served(partition) = replica {
                        partition.follow(state, work.image);
                        partition.end(ErrorCode::NotLeaderOrFollower);
                        work.changed.push(Arc::clone(partition));
                    }
                    work.leaving.push(leaving(&entry.topic, index, replica));
                    replicas.push((index, Replica::Elsewhere));
                }
            }
        }
        let opened = self.open_all(&entry.topic, missing, work.image).await;
        for (_, replica) in &opened {
            if let Replica::Served(partition) = replica {
                work.changed.push(Arc::clone(partition));
            }
        }
        replicas.extend(opened);
        if !replicas.is_empty() {
            self.change(&entry, replicas, work);
        }
    }

    /// Makes replicas of a topic what `replicas` says, and counts those that are or were offline.
    fn change(&self, entry: &HostedTopic, replicas: Vec<(PartitionIndex, Replica)>, work: &mut Work<'_>) {
        let standing = |replica: &Replica| match replica {
            Replica::Failed => Standing::OFFLINE,
            // Partitions that are open count themselves.
            _ => Standing::GONE,
        };
        for (index, replica) in &replicas {
            self.env.gauges.change(standing(entry.replica(*index)), standing(replica));
        }
        let id = entry.topic.id;
        let next = self.next(work);
        next.change(entry, replicas);
        if next.by_id(id).is_none() {
            self.topic_metrics.forget(&entry.topic.name);
        }
    }

    /// The logs of partitions that no metadata know.
    fn unknown_logs(&self) -> Vec<Arc<Log>> {
        let hosted = self.hosted();
        let mut known: HashSet<*const Log> =
            hosted.partitions().map(|partition| Arc::as_ptr(partition.log())).collect();
        // What cannot be opened for now has its log there all the same.
        known.extend(hosted.failed().iter().filter_map(|(id, index)| {
            let topic = &hosted.by_id(*id)?.topic;
            let log = self.storage.log(&TopicPartition::new(Arc::clone(&topic.name), *index))?;
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
                let topic = hosted.by_name(&partition.topic);
                topic.is_some_and(|topic| !matches!(topic.replica(partition.partition), Replica::Elsewhere))
            })
        };
        if let Ok(Err(error)) = self.storage.pool().run(forget).await {
            tracing::warn!(%error, "what is gone cannot be forgotten");
        }
    }
}

/// The settings of a topic in effect.
fn settings(topic: &TopicImage, work: &Work<'_>) -> TopicSettings {
    let overrides = work.image.overrides(&ConfigResource::topic(Arc::clone(&topic.name))).cloned().unwrap_or_default();
    TopicSettings::resolve(&overrides, work.layers)
}

/// Puts a topic's settings into effect, if they are other ones.
fn reconfigure(known: &HostedTopic, work: &Work<'_>) {
    let Some(topic) = work.image.topic_by_id(known.topic.id) else { return };
    let settings = settings(topic, work);
    if settings.config != known.topic.settings.load().config {
        let options = Arc::new(settings.log_options());
        for partition in known.served() {
            partition.log().set_options(Arc::clone(&options));
        }
        known.topic.settings.store(Arc::new(settings));
    }
}

fn leaving(topic: &Topic, index: PartitionIndex, replica: &Replica) -> Leaving {
    Leaving {
        name: TopicPartition::new(Arc::clone(&topic.name), index),
        topic_id: topic.id,
        is_open: matches!(replica, Replica::Served(_)),
    }
}

/// What these events change, by topic.
fn changes(image: &MetadataImage, events: &[MetadataEvent]) -> BTreeMap<TopicId, Change> {
    let mut changes: BTreeMap<TopicId, Change> = BTreeMap::new();
    for event in events {
        let (id, partition) = match event {
            MetadataEvent::PartitionCreated { topic_id, partition, .. }
            | MetadataEvent::PartitionChanged { topic_id, partition, .. } => (*topic_id, Some(*partition)),
            MetadataEvent::TopicCreated { topic_id, .. } | MetadataEvent::TopicDeleted { topic_id, .. } => {
                (*topic_id, None)
            }
            MetadataEvent::ConfigChanged { resource, .. } if resource.kind == ResourceKind::Topic => {
                let Some(topic) = image.topic(&resource.name) else { continue };
                (topic.id, None)
            }
            _ => continue,
        };
        match (changes.entry(id).or_insert_with(|| Change::Partitions(BTreeSet::new())), partition) {
            (Change::Partitions(partitions), Some(partition)) => {
                partitions.insert(partition);
            }
            (change, None) => *change = Change::All,
            (Change::All, Some(_)) => {}
        }
    }
    changes
}
