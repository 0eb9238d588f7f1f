//! Adding partitions to topics.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::draft::Draft;
use super::{
    ControlError, CreatePartitions, NewPartitions, Outcome, PARTITIONS_PER_COMMAND_MAX, TopicOutcomes, placement,
    topics,
};
use crate::collections::HashMap;
use crate::errors::ErrorCode;
use crate::event::MetadataEvent;
use crate::image::MetadataImage;

pub(super) fn create(draft: &mut Draft, request: &CreatePartitions) -> Outcome<TopicOutcomes<()>> {
    check_total(draft.image(), request)?;
    let mut times: HashMap<&Arc<str>, usize> = HashMap::default();
    for topic in &request.topics {
        *times.entry(&topic.name).or_default() += 1;
    }
    let mut answered = BTreeSet::new();
    let mut results = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        if !answered.insert(&topic.name) {
            continue;
        }
        let outcome = if times.get(&topic.name) == Some(&1) {
            grow(draft, topic)
        } else {
            Err(ControlError::new(ErrorCode::InvalidRequest, "Duplicate topic name."))
        };
        results.push((Arc::clone(&topic.name), outcome));
    }
    Ok(results)
}

/// Refuses a request that would make an unreasonable number of events at once.
fn check_total(image: &MetadataImage, request: &CreatePartitions) -> Result<(), ControlError> {
    let sizes = request.topics.iter().map(|topic| {
        let present = image.topic(&topic.name).map_or(topic.count, |present| present.partition_count());
        usize::try_from(topic.count.saturating_sub(present)).unwrap_or_default()
    });
    if sizes.sum::<usize>() > PARTITIONS_PER_COMMAND_MAX {
        let text = "Unable to perform excessively large batch operation.";
        return Err(ControlError::new(ErrorCode::PolicyViolation, text));
    }
    Ok(())
}

fn grow(draft: &mut Draft, request: &NewPartitions) -> Outcome<()> {
    let image = draft.image();
    let topic = image.topic(&request.name).ok_or(ControlError::bare(ErrorCode::UnknownTopicOrPartition))?;
    let present = topic.partition_count();
    if request.count == present {
        let text = format!("Topic already has {present} partition(s).");
        return Err(ControlError::new(ErrorCode::InvalidPartitions, text));
    }
    if request.count < present {
        let text = format!(
            "The topic {} currently has {present} partition(s); {} would not be an increase.",
            request.name, request.count
        );
        return Err(ControlError::new(ErrorCode::InvalidPartitions, text));
    }
    let additional = usize::try_from(request.count - present).unwrap_or_default();
    let first = topic.partitions.len();
    let factor = topic.replication_factor();
    let replicas = match &request.assignments {
        None => placement::place(image, additional, factor)?,
        Some(assignments) if assignments.len() != additional => {
            let text = format!(
                "Attempted to add {additional} additional partition(s), but only {} assignment(s) were specified.",
                assignments.len()
            );
            return Err(ControlError::new(ErrorCode::InvalidReplicaAssignment, text));
        }
        Some(assignments) => {
            for replicas in assignments {
                topics::check_manual(image, replicas, usize::try_from(factor).ok())?;
            }
            assignments.clone()
        }
    };
    let placed = request.assignments.is_none();
    let states = (first..)
        .zip(replicas)
        .map(|(index, replicas)| topics::first_state(image, replicas, index, placed))
        .collect::<Outcome<Vec<_>>>()?;
    let topic_id = topic.id;
    for (partition, state) in (present..).zip(states) {
        draft.emit(MetadataEvent::PartitionCreated { topic_id, partition, state: Arc::new(state) });
    }
    Ok(())
}
