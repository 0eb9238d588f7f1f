//! Who leads when a broker goes or comes.
//!
//! A leader is always taken from the ISR, in the order of the replicas. The last member of an ISR stays in it when it
//! goes: only it is known to have every committed record, so the partition waits for it, without a leader.

use std::sync::Arc;

use super::draft::Draft;
use crate::event::{MetadataEvent, PartitionState};
use crate::ids::{BrokerId, PartitionIndex, TopicId};
use crate::image::MetadataImage;

/// Takes `broker` out of every ISR it can leave, and gives what it leads to others.
pub(super) fn resign(draft: &mut Draft, broker: BrokerId) {
    let changes = changes(draft.image(), |image, state| {
        if !state.isr.contains(&broker) {
            return None;
        }
        let mut next = PartitionState::clone(state);
        if next.isr.len() > 1 {
            next.isr.retain(|member| *member != broker);
        }
        if next.leader == broker {
            next.leader = candidate(image, &next, Some(broker));
            next.leader_epoch += 1;
        }
        (next.isr != state.isr || next.leader != state.leader).then_some(next)
    });
    emit(draft, changes);
}

/// Elects `broker`, which may lead now, where nobody leads and it is in the ISR.
pub(super) fn stand(draft: &mut Draft, broker: BrokerId) {
    let changes = changes(draft.image(), |image, state| {
        if state.leader != BrokerId::NONE || !state.isr.contains(&broker) {
            return None;
        }
        let mut next = PartitionState::clone(state);
        next.leader = candidate(image, &next, None);
        next.leader_epoch += 1;
        (next.leader != BrokerId::NONE).then_some(next)
    });
    emit(draft, changes);
}

/// The first replica that is in the ISR and may lead, `without` one that is about to go.
fn candidate(image: &MetadataImage, state: &PartitionState, without: Option<BrokerId>) -> BrokerId {
    let may_lead = |id: &&BrokerId| state.isr.contains(id) && image.is_active(**id) && Some(**id) != without;
    state.replicas.iter().find(may_lead).copied().unwrap_or(BrokerId::NONE)
}

type Change = (TopicId, PartitionIndex, PartitionState);

fn changes(
    image: &MetadataImage,
    change: impl Fn(&MetadataImage, &PartitionState) -> Option<PartitionState>,
) -> Vec<Change> {
    let partitions = image.topics().iter().flat_map(|topic| topic.numbered().map(move |numbered| (topic.id, numbered)));
    partitions
        .filter_map(|(topic_id, (partition, state))| change(image, state).map(|next| (topic_id, partition, next)))
        .collect()
}

fn emit(draft: &mut Draft, changes: Vec<Change>) {
    for (topic_id, partition, mut state) in changes {
        state.partition_epoch += 1;
        draft.emit(MetadataEvent::PartitionChanged { topic_id, partition, state: Arc::new(state) });
    }
}
