//! Who leads, and who counts as in sync, when a broker goes, comes, or comes back with less than it had.
//!
//! Only partitions that the broker keeps are looked at (see [`ReplicaIndex`](crate::image::ReplicaIndex)), and one that is
//! not concerned costs nothing but the look.

use std::sync::Arc;

use super::draft::Draft;
use super::partition_change::{Loss, PartitionChange};
use super::topic_rules::{DefaultRules, TopicRules};
use crate::event::{MetadataEvent, PartitionState};
use crate::ids::BrokerId;
use crate::image::{MetadataImage, PartitionKey, TopicImage};

/// Takes `broker` out of every ISR it can leave, and gives what it leads to others.
pub(super) fn resign(draft: &mut Draft, rules: DefaultRules, broker: BrokerId) {
    let concerned = draft.image().replica_index().hosted_by(broker).collect();
    change_each(draft, rules, concerned, |image, state, rules| {
        if !state.isr.contains(&broker) {
            return None;
        }
        let may_lead = |id| id != broker && image.may_lead(id);
        PartitionChange::new(state, rules, &may_lead).without(broker).build()
    });
}

/// Takes `broker` out of all that it counts in as one who has every committed record: it may not have them any more.
pub(super) fn lose(draft: &mut Draft, rules: DefaultRules, broker: BrokerId, loss: Loss) {
    let concerned = draft.image().replica_index().hosted_by(broker).collect();
    change_each(draft, rules, concerned, |image, state, rules| {
        if !state.isr.contains(&broker) && !state.eligible.contains(&broker) && !state.last_known.contains(&broker) {
            return None;
        }
        let may_lead = |id| id != broker && image.may_lead(id);
        PartitionChange::new(state, rules, &may_lead).lost(broker, loss).build()
    });
}

/// Elects `broker`, which may lead now, where nobody leads and it has what it takes.
pub(super) fn stand(draft: &mut Draft, rules: DefaultRules, broker: BrokerId) {
    let concerned = draft.image().replica_index().leaderless().collect();
    change_each(draft, rules, concerned, |image, state, rules| {
        if !state.replicas.contains(&broker) {
            return None;
        }
        let may_lead = |id| image.may_lead(id);
        PartitionChange::new(state, rules, &may_lead).build()
    });
}

/// Looks at the partitions of `topic` again after its settings changed: with a smaller minimum, the ISR may commit without
/// those that were eligible; where unclean elections are allowed now, somebody leads.
pub(super) fn reconsider(draft: &mut Draft, rules: DefaultRules, topic: &TopicImage) {
    let is_concerned = |state: &PartitionState| !state.eligible.is_empty() || !state.has_leader();
    let numbered = topic.numbered().filter(|(_, state)| is_concerned(state));
    let concerned = numbered.map(|(partition, _)| (topic.id, partition)).collect();
    change_each(draft, rules, concerned, |image, state, rules| {
        let may_lead = |id| image.may_lead(id);
        PartitionChange::new(state, rules, &may_lead).build()
    });
}

/// Emits what `change` makes of each of `concerned`.
fn change_each(
    draft: &mut Draft,
    rules: DefaultRules,
    concerned: Vec<PartitionKey>,
    change: impl Fn(&MetadataImage, &PartitionState, TopicRules) -> Option<PartitionState>,
) {
    let mut rules_of = rules.in_a_row();
    for key in concerned {
        let image = draft.image();
        let Some(topic) = image.topic_by_id(key.0) else { continue };
        let Some(state) = topic.partition(key.1) else { continue };
        if let Some(next) = change(image, state, rules_of(image, topic)) {
            emit(draft, key, next);
        }
    }
}

/// A partition has another state from now on.
pub(super) fn emit(draft: &mut Draft, (topic_id, partition): PartitionKey, state: PartitionState) {
    draft.emit(MetadataEvent::PartitionChanged { topic_id, partition, state: Arc::new(state) });
}
