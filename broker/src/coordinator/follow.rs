//! What the metadata say about the offsets topic, and about topics that are gone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use taffrail_core::config::BrokerConfig;
use taffrail_core::event::MetadataEvent;
use taffrail_core::group::GroupConfig;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_core::record::Compression;
use taffrail_core::topic_name::CONSUMER_OFFSETS;
use taffrail_protocol::data::TopicRef;
use taffrail_protocol::message::StrBytes;
use taffrail_runtime::blocking::Pool;

use super::partition_log::PartitionLog;
use super::{CoordinatorConfig, GroupCoordinator, Term};
use crate::replica::{Hosted, ReplicaManager};

/// Least time between two looks for expired offsets.
const EXPIRY_INTERVAL_MIN_MS: u64 = 100;

/// The codec that `offsets.topic.compression.codec` names by the number that batches have for it.
fn codec(number: i32) -> Compression {
    let known = usize::try_from(number).ok().and_then(|id| Compression::ALL.get(id));
    known.copied().unwrap_or_default()
}

impl CoordinatorConfig {
    /// What the broker's settings say.
    pub(crate) fn of(config: &BrokerConfig) -> Self {
        let count = |value: i32| usize::try_from(value).unwrap_or(0);
        let interval_ms = u64::try_from(config.offsets_retention_check_interval_ms).unwrap_or(0);
        Self {
            groups: GroupConfig {
                min_session_timeout_ms: config.group_min_session_timeout_ms,
                max_session_timeout_ms: config.group_max_session_timeout_ms,
                max_size: count(config.group_max_size),
                initial_rebalance_delay_ms: config.group_initial_rebalance_delay_ms,
                offset_metadata_max_bytes: count(config.offset_metadata_max_bytes),
                offsets_retention_ms: i64::from(config.offsets_retention_minutes) * 60_000,
                ..GroupConfig::default()
            },
            expiry_interval: Duration::from_millis(interval_ms.max(EXPIRY_INTERVAL_MIN_MS)),
            load_bytes: count(config.offsets_load_buffer_bytes),
            write_wait_max: Duration::from_millis(u64::try_from(config.offsets_commit_timeout_ms).unwrap_or(0)),
            compression: codec(config.offsets_topic_compression_codec),
        }
    }
}

impl GroupCoordinator {
    /// Makes this broker the coordinator of what `image` says that it leads, and of nothing else. Its `replicas`
    /// have followed the image already; `events` made the image from the one before, `None` = anything may
    /// have changed.
    pub(crate) fn follow(
        &self,
        image: &MetadataImage,
        events: Option<&[MetadataEvent]>,
        replicas: &ReplicaManager,
        own: BrokerId,
    ) {
        if events.is_none_or(|events| events.iter().any(|event| concerns_offsets(image, event))) {
            self.follow_offsets_topic(image, &replicas.hosted(), own, replicas.storage().pool());
        }
        let gone = |event: &MetadataEvent| match event {
            MetadataEvent::TopicDeleted { name, .. } => Some(Arc::clone(name)),
            _ => None,
        };
        let deleted: BTreeSet<Arc<str>> = events.into_iter().flatten().filter_map(gone).collect();
        self.topics_deleted(&deleted);
    }

    fn follow_offsets_topic(&self, image: &MetadataImage, hosted: &Hosted, own: BrokerId, pool: &Pool) {
        let topic = image.topic(CONSUMER_OFFSETS);
        let led = topic.into_iter().flat_map(|topic| {
            let term = move |leader_epoch| Term { topic_id: topic.id, leader_epoch };
            topic
                .numbered()
                .filter(|(_, state)| state.leader == own)
                .map(move |(index, state)| (index, term(state.leader_epoch)))
        });
        let mut resigned: BTreeSet<_> = self.led().into_iter().collect();
        let name = TopicRef::Name(StrBytes::from_static_str(CONSUMER_OFFSETS));
        for (index, term) in led {
            // A log that could not be opened has no coordinator; clients are sent elsewhere until there is one.
            if let Ok(partition) = hosted.partition(&name, index, image) {
                resigned.remove(&index);
                self.lead(index, term, || Arc::new(PartitionLog::new(Arc::clone(partition), pool.clone())));
            }
        }
        resigned.into_iter().for_each(|index| self.resign(index));
        self.set_partitions(topic.map_or(0, |topic| topic.partition_count()));
    }
}

fn concerns_offsets(image: &MetadataImage, event: &MetadataEvent) -> bool {
    match event {
        MetadataEvent::TopicCreated { name, .. } | MetadataEvent::TopicDeleted { name, .. } => {
            **name == *CONSUMER_OFFSETS
        }
        MetadataEvent::PartitionCreated { topic_id, .. } | MetadataEvent::PartitionChanged { topic_id, .. } => {
            image.topic(CONSUMER_OFFSETS).is_some_and(|topic| topic.id == *topic_id)
        }
        _ => false,
    }
}
