//! What must be true at every moment, one file for each promise. What clients are promised stands in the ledger.

pub(super) mod committed_prefix;
mod images_agree;
mod in_sync_have_all;
mod one_leader;
mod watermarks;

use std::sync::Arc;

use taffrail_core::ids::TopicPartition;
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
        Box::<in_sync_have_all::InSyncHaveAll>::default(),
        Box::<watermarks::Watermarks>::default(),
        Box::<committed_prefix::CommittedPrefix>::default(),
    ]
}

/// The promises that stay when records are lost.
pub(super) fn of_metadata() -> Vec<Box<dyn Invariant>> {
    vec![Box::<images_agree::ImagesAgree>::default(), Box::<one_leader::OneLeader>::default()]
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
