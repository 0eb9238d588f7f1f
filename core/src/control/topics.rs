//! Creating topics.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::draft::Draft;
use super::{
    ControlError, CreateTopics, CreatedTopic, Inputs, NewTopic, Outcome, PARTITIONS_PER_COMMAND_MAX, ReplicaAssignment,
    TopicOutcomes, configs, placement, tend,
};
use crate::collections::HashMap;
use crate::config::BrokerLayers;
use crate::errors::ErrorCode;
use crate::event::{MetadataEvent, PartitionState};
use crate::ids::{BrokerId, TopicId};
use crate::image::MetadataImage;
use crate::topic_name;

pub(super) fn create(
    draft: &mut Draft,
    request: &CreateTopics,
    inputs: &Inputs<'_>,
) -> Outcome<TopicOutcomes<CreatedTopic>> {
    let layers = draft.image().broker_layers(None, inputs.static_config);
    let defaults = Defaults::resolve(layers)?;
    check_total(request, &defaults)?;
    let mut times: HashMap<&Arc<str>, usize> = HashMap::default();
    for topic in &request.topics {
        *times.entry(&topic.name).or_default() += 1;
    }
    let mut answered = BTreeSet::new();
    let mut results = Vec::with_capacity(request.topics.len());
    for (topic, id) in request.topics.iter().zip(inputs.fresh_ids) {
        if !answered.insert(&topic.name) {
            continue;
        }
        let outcome = if times.get(&topic.name) == Some(&1) {
            create_one(draft, topic, *id, &defaults)
        } else {
            Err(ControlError::new(ErrorCode::InvalidRequest, "Duplicate topic name."))
        };
        results.push((Arc::clone(&topic.name), outcome));
    }
    Ok(results)
}

/// What topics get that do not say what they want.
struct Defaults {
    partitions: i32,
    replication_factor: i16,
    layers: BrokerLayers,
}

impl Defaults {
    fn resolve(layers: BrokerLayers) -> Outcome<Self> {
        let config = configs::broker_config(&layers)?;
        let replication_factor = i16::try_from(config.default_replication_factor).unwrap_or(i16::MAX);
        Ok(Self { partitions: config.num_partitions, replication_factor, layers })
    }
}

/// Refuses a request that would make an unreasonable number of events at once.
fn check_total(request: &CreateTopics, defaults: &Defaults) -> Result<(), ControlError> {
    let sizes = request.topics.iter().map(|topic| match (topic.assignments.len(), topic.partitions) {
        (0, -1) => usize::try_from(defaults.partitions).unwrap_or_default(),
        (0, partitions) => usize::try_from(partitions).unwrap_or_default(),
        (assigned, _) => assigned,
    });
    if sizes.sum::<usize>() > PARTITIONS_PER_COMMAND_MAX {
        let text = "Excessively large number of partitions per request.";
        return Err(ControlError::new(ErrorCode::PolicyViolation, text));
    }
    Ok(())
}

fn create_one(draft: &mut Draft, topic: &NewTopic, id: TopicId, defaults: &Defaults) -> Outcome<CreatedTopic> {
    check_name(draft.image(), &topic.name)?;
    let id = topic.id.unwrap_or(id);
    if let Some(holder) = draft.image().topic_by_id(id) {
        let text = format!("The topic '{}' has the id {id} already.", holder.name);
        return Err(ControlError::new(ErrorCode::TopicAlreadyExists, text));
    }
    let overrides = configs::for_new_topic(&topic.name, &topic.configs, &defaults.layers)?;
    let partitions = replicas_of_all(draft.image(), topic, defaults)?
        .into_iter()
        .enumerate()
        .map(|(index, replicas)| first_state(draft.image(), replicas, index, topic.assignments.is_empty()))
        .collect::<Outcome<Vec<_>>>()?;
    let created = CreatedTopic {
        id,
        partitions: i32::try_from(partitions.len()).unwrap_or(i32::MAX),
        replication_factor: partitions
            .first()
            .map_or(0, |state| i16::try_from(state.replicas.len()).unwrap_or(i16::MAX)),
    };
    draft.emit(MetadataEvent::TopicCreated { name: Arc::clone(&topic.name), topic_id: id });
    for event in overrides {
        draft.emit(event);
    }
    for (partition, state) in (0..).zip(partitions) {
        draft.emit(MetadataEvent::PartitionCreated { topic_id: id, partition, state: Arc::new(state) });
    }
    Ok(created)
}

fn check_name(image: &MetadataImage, name: &Arc<str>) -> Outcome<()> {
    if &**name == topic_name::CLUSTER_METADATA {
        let text = format!("Creation of internal topic {name} is prohibited.");
        return Err(ControlError::new(ErrorCode::InvalidRequest, text));
    }
    topic_name::validate(name)
        .map_err(|error| ControlError::new(ErrorCode::InvalidTopicException, error.to_string()))?;
    if image.topic(name).is_some() {
        return Err(ControlError::new(ErrorCode::TopicAlreadyExists, format!("Topic '{name}' already exists.")));
    }
    match image.topics().colliding(name) {
        None => Ok(()),
        Some(other) => Err(ControlError::new(
            ErrorCode::InvalidTopicException,
            format!("Topic '{name}' collides with existing topic: {other}"),
        )),
    }
}

/// The replicas of each partition: as the caller says, or as the controller chooses.
fn replicas_of_all(image: &MetadataImage, topic: &NewTopic, defaults: &Defaults) -> Outcome<Vec<Vec<BrokerId>>> {
    if !topic.assignments.is_empty() {
        return assigned(image, topic);
    }
    if topic.replication_factor < -1 || topic.replication_factor == 0 {
        let text = "Replication factor must be larger than 0, or -1 to use the default value.";
        return Err(ControlError::new(ErrorCode::InvalidReplicationFactor, text));
    }
    if topic.partitions < -1 || topic.partitions == 0 {
        let text = "Number of partitions was set to an invalid non-positive value.";
        return Err(ControlError::new(ErrorCode::InvalidPartitions, text));
    }
    let count = if topic.partitions == -1 { defaults.partitions } else { topic.partitions };
    let factor = if topic.replication_factor == -1 { defaults.replication_factor } else { topic.replication_factor };
    // The cluster's own topics take what they can get, and are given more when brokers come.
    let attainable = tend::internal_factor(image, &defaults.layers, &topic.name).filter(|it| *it > 0);
    let attainable = attainable.and_then(|it| i16::try_from(it).ok()).unwrap_or(factor);
    let factor = factor.min(attainable);
    placement::place(image, usize::try_from(count).unwrap_or_default(), factor)
}

fn assigned(image: &MetadataImage, topic: &NewTopic) -> Outcome<Vec<Vec<BrokerId>>> {
    let refuse = |text: &str| ControlError::new(ErrorCode::InvalidRequest, text);
    if topic.replication_factor != -1 {
        let text = "A manual partition assignment was specified, but replication factor was not set to -1.";
        return Err(refuse(text));
    }
    if topic.partitions != -1 {
        return Err(refuse("A manual partition assignment was specified, but numPartitions was not set to -1."));
    }
    let mut sorted: Vec<Option<&ReplicaAssignment>> = vec![None; topic.assignments.len()];
    let mut has_gap = false;
    let mut factor = None;
    for assignment in &topic.assignments {
        let slot = usize::try_from(assignment.partition).ok().and_then(|index| sorted.get_mut(index));
        match slot {
            Some(Some(_)) => {
                let text =
                    format!("Found multiple manual partition assignments for partition {}", assignment.partition);
                return Err(ControlError::new(ErrorCode::InvalidReplicaAssignment, text));
            }
            Some(slot) => *slot = Some(assignment),
            None => has_gap = true,
        }
        check_manual(image, &assignment.replicas, factor)?;
        factor = Some(assignment.replicas.len());
    }
    if has_gap {
        let text = "partitions should be a consecutive 0-based integer sequence";
        return Err(ControlError::new(ErrorCode::InvalidReplicaAssignment, text));
    }
    Ok(sorted.into_iter().flatten().map(|assignment| assignment.replicas.clone()).collect())
}

/// Checks the replicas that a caller chose for one partition; `factor` = how many the partitions before it have.
pub(super) fn check_manual(image: &MetadataImage, replicas: &[BrokerId], factor: Option<usize>) -> Outcome<()> {
    let refuse = |text: String| Err(ControlError::new(ErrorCode::InvalidReplicaAssignment, text));
    if replicas.is_empty() {
        return refuse("The manual partition assignment includes an empty replica list.".to_owned());
    }
    let mut sorted = replicas.to_vec();
    sorted.sort_unstable();
    let mut previous = None;
    for id in sorted {
        if image.broker(id).is_none() {
            return refuse(format!(
                "The manual partition assignment includes broker {id}, but no such broker is registered."
            ));
        }
        if previous == Some(id) {
            return refuse(format!("The manual partition assignment includes the broker {id} more than once."));
        }
        previous = Some(id);
    }
    match factor {
        Some(factor) if factor != replicas.len() => refuse(format!(
            "The manual partition assignment includes a partition with {} replica(s), but this is not consistent with \
             previous partitions, which have {factor} replica(s).",
            replicas.len()
        )),
        _ => Ok(()),
    }
}

/// The state that partition `index` is born with: in sync are those replicas that may lead.
pub(super) fn first_state(
    image: &MetadataImage,
    replicas: Vec<BrokerId>,
    index: usize,
    placed: bool,
) -> Outcome<PartitionState> {
    let isr: Vec<BrokerId> = replicas.iter().copied().filter(|id| image.may_lead(*id)).collect();
    if !isr.is_empty() {
        return Ok(PartitionState::new(replicas, isr));
    }
    if placed {
        let text = format!(
            "Unable to replicate the partition {} time(s): All brokers are currently fenced or in controlled shutdown.",
            replicas.len()
        );
        return Err(ControlError::new(ErrorCode::InvalidReplicationFactor, text));
    }
    let text = format!(
        "All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled \
         shutdown."
    );
    Err(ControlError::new(ErrorCode::InvalidReplicaAssignment, text))
}
