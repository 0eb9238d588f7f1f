//! Moving partitions to other brokers (Kafka's AlterPartitionReassignments, KIP-455), and changing how many replicas they
//! have.
//!
//! Replicas are added first, and taken away when all that are to stay are in sync (see
//! [`PartitionChange`](super::partition_change::PartitionChange)); until then the move can be cancelled. All of it stands in
//! the partition's state, so it goes on whichever controller is active. A move that replaces another one keeps in mind what
//! was there before the first, and drops at once what only the first wanted.

use std::sync::Arc;

use super::draft::Draft;
use super::partition_change::PartitionChange;
use super::placement::Placer;
use super::topic_rules::{DefaultRules, TopicRules};
use super::{
    ChangeReplicationFactor, ControlError, Outcome, PARTITIONS_PER_COMMAND_MAX, PartitionOutcome, ReassignPartitions,
    TopicOutcomes, elections, topics,
};
use crate::errors::ErrorCode;
use crate::event::PartitionState;
use crate::ids::{BrokerId, PartitionIndex};
use crate::image::{MetadataImage, PartitionKey, TopicImage};

pub(super) fn alter(
    draft: &mut Draft,
    request: &ReassignPartitions,
    rules: DefaultRules,
) -> Outcome<Vec<PartitionOutcome>> {
    check_count(request.partitions.len())?;
    let may_change_factor = request.allow_replication_factor_change;
    let results = request.partitions.iter().map(|it| PartitionOutcome {
        topic: Arc::clone(&it.topic),
        partition: it.partition,
        outcome: alter_one(draft, &it.topic, it.partition, it.replicas.as_deref(), may_change_factor, rules),
    });
    Ok(results.collect())
}

fn alter_one(
    draft: &mut Draft,
    topic: &Arc<str>,
    partition: PartitionIndex,
    target: Option<&[BrokerId]>,
    may_change_factor: bool,
    rules: DefaultRules,
) -> Outcome<()> {
    let image = draft.image();
    let missing = |text| ControlError::new(ErrorCode::UnknownTopicOrPartition, text);
    let found = image.topic(topic).ok_or_else(|| missing(format!("Unable to find a topic named {topic}.")))?;
    let state =
        found.partition(partition).ok_or_else(|| missing(format!("Unable to find partition {topic}:{partition}.")))?;
    let key = (found.id, partition);
    let rules = rules.of(image, topic);
    let changed = match target {
        None => cancel(image, topic, partition, state, rules)?,
        Some(target) => {
            topics::check_manual(image, target, None)?;
            // What counts is the number that it is on its way to.
            let before = state.replicas_after().len();
            if !may_change_factor && before != target.len() {
                let text = format!("The replication factor is changed from {before} to {}", target.len());
                return Err(ControlError::new(ErrorCode::InvalidReplicationFactor, text));
            }
            start(image, state, target, rules)
        }
    };
    if let Some(next) = changed {
        elections::emit(draft, key, next);
    }
    Ok(())
}

/// What becomes of a partition that is to have the replicas `target`.
pub(super) fn start(
    image: &MetadataImage,
    state: &PartitionState,
    target: &[BrokerId],
    rules: TopicRules,
) -> Option<PartitionState> {
    let base = state.replicas_before();
    let adding: Vec<BrokerId> = target.iter().copied().filter(|id| !base.contains(id)).collect();
    let mut removing: Vec<BrokerId> = base.into_iter().filter(|id| !target.contains(id)).collect();
    let is_dropped = |id: &BrokerId| !target.contains(id) && !removing.contains(id);
    let mut isr = state.isr.clone();
    isr.retain(|id| !is_dropped(id));
    if isr.is_empty() {
        // Only the move before has brought somebody who has all; he must stay until others have.
        isr.clone_from(&state.isr);
        let kept: Vec<BrokerId> = state.replicas.iter().copied().filter(is_dropped).collect();
        removing.extend(kept);
    }
    let replicas = target.iter().chain(&removing).copied().collect();
    let may_lead = |id| image.may_lead(id);
    PartitionChange::new(state, rules, &may_lead).isr(isr).replicas(replicas, adding, removing).build()
}

/// Takes a move back: what it was adding goes, what it was removing stays.
fn cancel(
    image: &MetadataImage,
    topic: &str,
    partition: PartitionIndex,
    state: &PartitionState,
    rules: TopicRules,
) -> Outcome<Option<PartitionState>> {
    if !state.is_reassigning() {
        return Err(ControlError::plain(ErrorCode::NoReassignmentInProgress));
    }
    let replicas = state.replicas_before();
    let has_all = |id: &BrokerId| state.has_all_committed(*id);
    let is_unclean = state.replicas.iter().any(has_all) && !replicas.iter().any(has_all);
    if is_unclean && !rules.unclean {
        let text = format!(
            "Unable to revert partition assignment for {topic}:{partition} because it would require an unclean leader \
             election."
        );
        return Err(ControlError::new(ErrorCode::InvalidReplicaAssignment, text));
    }
    let isr = state.isr.iter().copied().filter(|id| replicas.contains(id)).collect();
    let may_lead = |id| image.may_lead(id);
    let change = PartitionChange::new(state, rules, &may_lead);
    Ok(change.isr(isr).replicas(replicas, Vec::new(), Vec::new()).build())
}

/// Gives topics another number of replicas, on brokers that the controller chooses.
pub(super) fn change_factor(
    draft: &mut Draft,
    request: &ChangeReplicationFactor,
    rules: DefaultRules,
) -> Outcome<TopicOutcomes<()>> {
    let image = draft.image();
    let sizes = request.topics.iter().map(|(name, _)| image.topic(name).map_or(0, |topic| topic.partitions.len()));
    check_count(sizes.sum())?;
    let change = |(name, factor): &(Arc<str>, i16)| {
        let image = draft.image();
        let unknown = ControlError::bare(ErrorCode::UnknownTopicOrPartition);
        let outcome = image.topic(name).cloned().ok_or(unknown).and_then(|topic| resize(image, &topic, *factor, rules));
        let outcome =
            outcome.map(|changes| changes.into_iter().for_each(|(key, next)| elections::emit(draft, key, next)));
        (Arc::clone(name), outcome)
    };
    Ok(request.topics.iter().map(change).collect())
}

fn resize(
    image: &MetadataImage,
    topic: &TopicImage,
    factor: i16,
    rules: DefaultRules,
) -> Outcome<Vec<(PartitionKey, PartitionState)>> {
    let refuse = |code, text| Err(ControlError::new(code, text));
    let Some(wanted) = usize::try_from(factor).ok().filter(|wanted| *wanted > 0) else {
        let text = format!("Invalid replication factor {factor}: the replication factor must be positive.");
        return refuse(ErrorCode::InvalidReplicationFactor, text);
    };
    let rules = rules.of(image, &topic.name);
    let mut placer = Placer::new(image);
    let mut changes = Vec::new();
    for (partition, state) in topic.numbered() {
        if state.is_reassigning() {
            let text = format!("The replicas of {}-{partition} are being changed already.", topic.name);
            return refuse(ErrorCode::ReassignmentInProgress, text);
        }
        let Some(target) = resized(&mut placer, &state.replicas, wanted) else {
            let text = format!(
                "The target replication factor of {factor} cannot be reached for {}-{partition}: there are too few brokers \
                 that serve and are neither fenced, cordoned nor draining.",
                topic.name
            );
            return refuse(ErrorCode::InvalidReplicationFactor, text);
        };
        changes.extend(start(image, state, &target, rules).map(|next| ((topic.id, partition), next)));
    }
    Ok(changes)
}

/// `replicas` with as many added or spared as make it `wanted`; `None` if there are not enough brokers.
pub(super) fn resized(placer: &mut Placer, replicas: &[BrokerId], wanted: usize) -> Option<Vec<BrokerId>> {
    let mut target = replicas.to_vec();
    while target.len() < wanted {
        let added = placer.add(&target, &target, true)?;
        target.push(added);
    }
    while target.len() > wanted {
        let spared = placer.spare(&target)?;
        target.retain(|id| *id != spared);
    }
    Some(target)
}

fn check_count(partitions: usize) -> Outcome<()> {
    if partitions > PARTITIONS_PER_COMMAND_MAX {
        let text = "Unable to perform excessively large batch operation.";
        return Err(ControlError::new(ErrorCode::PolicyViolation, text));
    }
    Ok(())
}
