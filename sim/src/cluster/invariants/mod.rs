//! What must be true at every moment, one file for each promise. What clients are promised stands in the ledger.

pub(super) mod committed_prefix;
mod deletions;
mod grants;
mod images_agree;
mod in_sync_have_all;
mod leaders_serve;
mod moves;
mod one_leader;
mod watermarks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use taffrail_core::ids::{BrokerId, TopicPartition};
use taffrail_core::image::{MetadataImage, PartitionKey};
use taffrail_storage::Log;

use super::clients::TOPIC;
use super::ledger::Ledger;
use super::machines::Running;

/// A broker that runs.
pub(super) struct LiveBroker {
    pub(super) number: u8,
    /// Tells the processes of one machine apart.
    pub(super) life: u64,
    pub(super) running: Running,
}

/// Everything that can be seen from outside at one moment.
pub(super) struct View {
    /// Metadata of controllers and brokers, by name.
    pub(super) images: Vec<(String, Arc<MetadataImage>)>,
    pub(super) brokers: Vec<LiveBroker>,
    /// The newest metadata that anybody ever had.
    pub(super) newest: Arc<MetadataImage>,
    pub(super) ledger: Ledger,
}

impl View {
    /// The logs of the topic that `broker` has open.
    pub(super) fn logs(broker: &LiveBroker) -> impl Iterator<Item = (i32, Arc<Log>)> {
        let logs = broker.running.storage.logs().into_iter();
        logs.filter(|log| *log.partition().topic == *TOPIC && log.offline().is_none() && !log.is_deleted())
            .map(|log| (log.partition().partition, log))
    }

    /// The logs that `broker` has of partitions of which it keeps a replica by the newest metadata. One that has been moved
    /// away stays until the broker hears of it.
    pub(super) fn replicas(&self, broker: &LiveBroker) -> Vec<(i32, Arc<Log>)> {
        let id = BrokerId(i32::from(broker.number));
        let kept = partitions(&self.newest).into_iter().filter(|(_, state)| state.replicas.contains(&id));
        let kept: BTreeSet<i32> = kept.map(|((_, partition), _)| partition).collect();
        Self::logs(broker).filter(|(partition, _)| kept.contains(partition)).collect()
    }
}

/// How far each log is, by machine, life of its process, and partition. One that is deleted and made anew is another log.
#[derive(Default)]
struct Reached(BTreeMap<(u8, u64, i32), (Weak<Log>, i64)>);

impl Reached {
    /// How far a log of `broker` was: 0 at first.
    fn of(&mut self, broker: &LiveBroker, partition: i32, log: &Arc<Log>) -> &mut i64 {
        let known = self.0.entry((broker.number, broker.life, partition)).or_default();
        if !known.0.ptr_eq(&Arc::downgrade(log)) {
            *known = (Arc::downgrade(log), 0);
        }
        &mut known.1
    }
}

/// A promise.
pub(super) trait Invariant {
    /// What a failure is called.
    fn name(&self) -> &'static str;

    /// Looks whether it is kept.
    ///
    /// # Errors
    /// What breaks it.
    fn look(&mut self, view: &View) -> Result<(), String>;
}

/// All promises.
pub(super) fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::<images_agree::ImagesAgree>::default(),
        Box::<one_leader::OneLeader>::default(),
        Box::<leaders_serve::LeadersServe>::default(),
        Box::<in_sync_have_all::InSyncHaveAll>::default(),
        Box::<watermarks::Watermarks>::default(),
        Box::<committed_prefix::CommittedPrefix>::default(),
        Box::<deletions::Deletions>::default(),
        Box::<moves::Moves>::default(),
        Box::<grants::Grants>::default(),
    ]
}

/// The promises that stay when records are lost.
pub(super) fn of_metadata() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::<images_agree::ImagesAgree>::default(),
        Box::<one_leader::OneLeader>::default(),
        Box::<leaders_serve::LeadersServe>::default(),
    ]
}

/// The partitions of the topic as `image` has them.
pub(super) fn partitions(image: &MetadataImage) -> Vec<(PartitionKey, Arc<taffrail_core::event::PartitionState>)> {
    let topic = image.topic(TOPIC).cloned();
    let numbered =
        topic.iter().flat_map(|topic| topic.numbered().map(|(index, state)| ((topic.id, index), Arc::clone(state))));
    numbered.collect()
}

/// Name of a partition in a failure.
fn named(partition: i32) -> TopicPartition {
    TopicPartition::new(TOPIC, partition)
}
