//! What controllers write down and send to each other: batches of metadata events, and snapshots.

use std::sync::Arc;

use bytes::Bytes;
use taffrail_core::event::{ConfigResource, MetadataEvent, PartitionState};
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_core::image::MetadataImage;
use taffrail_protocol::persisted::metadata::{EventBatch, decode_snapshot, encode_snapshot};

use super::coin;
use crate::memory::bounded;
use crate::random::Random;

/// An element of a message may have two bytes and become a struct of some hundred; vectors grow by doubling. The sizes
/// are those of messages between controllers, which authenticate each other.
const MEMORY_PER_BYTE: usize = 256;
const MEMORY_BYTES: usize = 64 * 1024;

/// A batch of events: what is understood comes back as it was.
pub(super) fn events(input: &[u8]) {
    let bytes = Bytes::copy_from_slice(input);
    let Ok(batch) = bounded(input, MEMORY_PER_BYTE, MEMORY_BYTES, || EventBatch::decode(bytes)) else { return };
    assert_eq!(EventBatch::decode(batch.encode().into()).as_ref(), Ok(&batch));
    // Events that make no sense on an empty image are refused, not applied by half.
    let mut image = MetadataImage::default();
    for event in &batch.events {
        let _ = image.apply(event);
    }
}

/// A snapshot: what is understood is an image whose snapshot leads back to it.
pub(super) fn snapshot(input: &[u8]) {
    let Ok(image) = bounded(input, MEMORY_PER_BYTE, MEMORY_BYTES, || decode_snapshot(input)) else { return };
    assert_eq!(decode_snapshot(&encode_snapshot(&image)).as_ref(), Ok(&image));
}

/// Events that make sense one after another.
fn history(random: &mut Random) -> Vec<MetadataEvent> {
    let mut events = vec![MetadataEvent::ClusterCreated { cluster_id: Uuid([9; 16]) }];
    for topic in 0..random.below(4) {
        let name: Arc<str> = format!("topic-{topic}").into();
        let topic_id = Uuid([topic as u8 + 1; 16]);
        events.push(MetadataEvent::TopicCreated { name: name.clone(), topic_id });
        for partition in 0..random.below(4) as i32 {
            let replicas = vec![BrokerId(partition), BrokerId(partition + 1)];
            let state = Arc::new(PartitionState::new(replicas.clone(), replicas));
            events.push(MetadataEvent::PartitionCreated { topic_id, partition, state });
        }
        let value = coin(random).then(|| Arc::from("60000"));
        events.push(MetadataEvent::ConfigChanged {
            resource: ConfigResource::topic(&*name),
            name: "retention.ms".into(),
            value,
        });
        if coin(random) {
            events.push(MetadataEvent::TopicDeleted { name, topic_id });
        }
    }
    events.push(MetadataEvent::ProducerIdsAllocated { broker: BrokerId(1), next: 1000 });
    events
}

pub(super) fn sound_events(random: &mut Random) -> Vec<u8> {
    EventBatch { base_offset: random.below(1000) as i64, events: history(random) }.encode()
}

pub(super) fn sound_snapshot(random: &mut Random) -> Vec<u8> {
    let mut image = MetadataImage::default();
    for event in history(random) {
        if image.apply(&event).is_err() {
            break;
        }
    }
    encode_snapshot(&image)
}
