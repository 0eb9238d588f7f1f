//! Elections that somebody asks for (Kafka's ElectLeaders, KIP-460, KIP-1073).

use std::sync::Arc;

use super::draft::Draft;
use super::partition_change::{Election, PartitionChange};
use super::topic_rules::DefaultRules;
use super::{ControlError, ElectLeaders, ElectionKind, Outcome, PartitionOutcome, elections};
use crate::errors::ErrorCode;
use crate::ids::PartitionIndex;
use crate::image::{MetadataImage, PartitionKey};

pub(super) fn elect(draft: &mut Draft, request: &ElectLeaders, rules: DefaultRules) -> Vec<PartitionOutcome> {
    let Some(partitions) = &request.partitions else { return elect_all(draft, request.kind, rules) };
    let elect = |(topic, partition): &(Arc<str>, PartitionIndex)| PartitionOutcome {
        topic: Arc::clone(topic),
        partition: *partition,
        outcome: elect_one(draft, topic, *partition, request.kind, rules),
    };
    partitions.iter().map(elect).collect()
}

/// Elects leaders of all partitions. Those that need none are not mentioned, as in Kafka.
fn elect_all(draft: &mut Draft, kind: ElectionKind, rules: DefaultRules) -> Vec<PartitionOutcome> {
    let index = draft.image().replica_index();
    let mut concerned: Vec<PartitionKey> = index.leaderless().collect();
    if kind == ElectionKind::Preferred {
        concerned.extend(index.not_preferred());
    }
    let name = |image: &MetadataImage, key: PartitionKey| image.topic_by_id(key.0).map(|topic| Arc::clone(&topic.name));
    let mut named: Vec<(Arc<str>, PartitionIndex)> =
        concerned.into_iter().filter_map(|key| Some((name(draft.image(), key)?, key.1))).collect();
    named.sort_unstable();
    let mut results = Vec::with_capacity(named.len());
    for (topic, partition) in named {
        let outcome = elect_one(draft, &topic, partition, kind, rules);
        results.push(PartitionOutcome { topic, partition, outcome });
    }
    results
}

fn elect_one(
    draft: &mut Draft,
    topic: &Arc<str>,
    partition: PartitionIndex,
    kind: ElectionKind,
    rules: DefaultRules,
) -> Outcome<()> {
    let image = draft.image();
    let missing = |text| ControlError::new(ErrorCode::UnknownTopicOrPartition, text);
    let found = image.topic(topic).ok_or_else(|| missing(format!("No such topic as {topic}")))?;
    let state =
        found.partition(partition).ok_or_else(|| missing(format!("No such partition as {topic}-{partition}")))?;
    let (is_needless, election, unavailable) = match kind {
        ElectionKind::Preferred => {
            (state.leader == state.preferred_leader(), Election::Preferred, ErrorCode::PreferredLeaderNotAvailable)
        }
        ElectionKind::Unclean => (state.has_leader(), Election::Unclean, ErrorCode::EligibleLeadersNotAvailable),
    };
    if is_needless {
        return Err(ControlError::plain(ErrorCode::ElectionNotNeeded));
    }
    let key = (found.id, partition);
    let may_lead = |id| image.may_lead(id);
    let change = PartitionChange::new(state, rules.of(image, topic), &may_lead).election(election);
    match change.build() {
        None => Err(ControlError::plain(unavailable)),
        Some(next) => {
            elections::emit(draft, key, next);
            Ok(())
        }
    }
}
