//! What the active controller does by itself from time to time: gives leadership back to preferred leaders, elects where
//! a topic allows it, moves replicas off brokers that drain, and gives internal topics as many replicas as there are
//! brokers for.
//!
//! Each run does a bounded part of what there is to do, found by the image's indexes; the rest is found again by the next
//! run, on whichever controller. So nothing has to be remembered but the brokers' duties.

use std::sync::Arc;

use super::draft::Draft;
use super::partition_change::{Election, PartitionChange};
use super::placement::Placer;
use super::topic_rules::DefaultRules;
use super::{Inputs, Tend, Tended, elections, reassign};
use crate::config::BrokerLayers;
use crate::event::{BrokerDuty, PartitionState};
use crate::ids::BrokerId;
use crate::image::{MetadataImage, PartitionKey, TopicImage};
use crate::topic_name::{CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE};

/// Internal topics, and the settings that say how many replicas they have when there are brokers enough.
const INTERNAL_TOPICS: [(&str, &str); 3] = [
    (CONSUMER_OFFSETS, "offsets.topic.replication.factor"),
    (TRANSACTION_STATE, "transaction.state.log.replication.factor"),
    (SHARE_GROUP_STATE, "share.coordinator.state.topic.replication.factor"),
];

pub(super) fn tend(draft: &mut Draft, request: &Tend, inputs: &Inputs<'_>) -> Tended {
    let rules = inputs.rules(draft.image());
    let mut tended = Tended::default();
    if request.leaders {
        elect(draft, rules, request, inputs, &mut tended);
    }
    if request.replicas {
        drain(draft, rules, request, &mut tended);
        let layers = draft.image().broker_layers(None, inputs.static_config);
        for (topic, setting) in INTERNAL_TOPICS {
            raise(draft, rules, request, topic, wanted_factor(&layers, setting), &mut tended);
        }
    }
    tended
}

/// Leaders where there are none and the topic takes any, then preferred leaders where others lead.
fn elect(draft: &mut Draft, rules: DefaultRules, request: &Tend, inputs: &Inputs<'_>, tended: &mut Tended) {
    let leaderless: Vec<PartitionKey> = draft.image().replica_index().leaderless().collect();
    let not_preferred: Vec<PartitionKey> = draft.image().replica_index().not_preferred().collect();
    let grant = draft.image().grant().filter(|grant| grant.is_open(inputs.now_ms)).cloned();
    // Whoever is about to be taken down is given nothing.
    let may_lead = |image: &MetadataImage, id: BrokerId| {
        image.may_lead(id) && !grant.as_ref().is_some_and(|grant| grant.brokers.contains(&id))
    };
    for (keys, election) in [(leaderless, None), (not_preferred, Some(Election::Preferred))] {
        for key in keys {
            let image = draft.image();
            let Some((topic, state)) = find(image, key) else { continue };
            let able = |id| may_lead(image, id);
            let topic_rules = rules.of(image, &topic.name);
            let mut change = PartitionChange::new(state, topic_rules, &able);
            if let Some(election) = election {
                if !able(state.preferred_leader()) {
                    continue;
                }
                change = change.election(election);
            }
            let Some(next) = change.build().filter(|next| next.leader != state.leader) else { continue };
            if tended.elections >= request.changes_max {
                tended.is_unfinished = true;
                return;
            }
            elections::emit(draft, key, next);
            tended.elections += 1;
        }
    }
}

/// Starts moves of replicas from draining brokers to others, as many as may be under way at once.
fn drain(draft: &mut Draft, rules: DefaultRules, request: &Tend, tended: &mut Tended) {
    let draining: Vec<BrokerId> =
        draft.image().duties().iter().filter(|(_, duty)| **duty == BrokerDuty::Draining).map(|(id, _)| *id).collect();
    if draining.is_empty() {
        return;
    }
    let mut placer = Placer::new(draft.image());
    for broker in draining {
        let hosted: Vec<PartitionKey> = draft.image().replica_index().hosted_by(broker).collect();
        for key in hosted {
            let image = draft.image();
            let Some((topic, state)) = find(image, key) else { continue };
            if state.is_reassigning() {
                continue;
            }
            if is_busy(image, request, tended) {
                return;
            }
            let staying: Vec<BrokerId> = state.replicas.iter().copied().filter(|id| *id != broker).collect();
            let Some(heir) = placer.add(&staying, &state.replicas, true) else {
                tended.stuck += 1;
                continue;
            };
            let target: Vec<BrokerId> =
                state.replicas.iter().map(|id| if *id == broker { heir } else { *id }).collect();
            if let Some(next) = reassign::start(image, state, &target, rules.of(image, &topic.name)) {
                elections::emit(draft, key, next);
                tended.moves += 1;
            }
        }
    }
}

/// Raises the number of replicas of a topic to `wanted`, or to the number of brokers that can have one.
fn raise(draft: &mut Draft, rules: DefaultRules, request: &Tend, topic: &str, wanted: usize, tended: &mut Tended) {
    let image = draft.image();
    let Some(topic) = image.topic(topic).map(Arc::clone) else { return };
    let wanted = wanted.min(usable_brokers(image));
    let topic_rules = rules.of(image, &topic.name);
    let mut placer = Placer::new(image);
    for (partition, state) in topic.numbered() {
        if state.is_reassigning() || state.replicas.len() >= wanted {
            continue;
        }
        if is_busy(draft.image(), request, tended) {
            return;
        }
        let Some(target) = reassign::resized(&mut placer, &state.replicas, wanted) else { continue };
        if let Some(next) = reassign::start(draft.image(), state, &target, topic_rules) {
            elections::emit(draft, (topic.id, partition), next);
            tended.moves += 1;
        }
    }
}

/// Whether as many moves are under way as may be.
fn is_busy(image: &MetadataImage, request: &Tend, tended: &mut Tended) -> bool {
    let is_busy = image.replica_index().reassigning_count() >= request.changes_max as usize;
    tended.is_unfinished |= is_busy;
    is_busy
}

/// How many replicas an internal topic gets: as many as the settings say, but no more than there are brokers for. `None`
/// for other topics.
pub(super) fn internal_factor(image: &MetadataImage, layers: &BrokerLayers, topic: &str) -> Option<usize> {
    let (_, setting) = INTERNAL_TOPICS.into_iter().find(|(name, _)| *name == topic)?;
    Some(wanted_factor(layers, setting).min(usable_brokers(image)))
}

fn wanted_factor(layers: &BrokerLayers, setting: &str) -> usize {
    layers.value(setting).and_then(|text| text.trim().parse().ok()).unwrap_or(1)
}

/// Brokers that can be given a replica now.
fn usable_brokers(image: &MetadataImage) -> usize {
    image.brokers().keys().filter(|id| image.may_lead(**id) && image.duty(**id) == BrokerDuty::Serving).count()
}

fn find(image: &MetadataImage, key: PartitionKey) -> Option<(&Arc<TopicImage>, &Arc<PartitionState>)> {
    let topic = image.topic_by_id(key.0)?;
    Some((topic, topic.partition(key.1)?))
}
