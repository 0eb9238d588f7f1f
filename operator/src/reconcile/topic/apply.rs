//! Doing it.

use std::collections::BTreeMap;
use std::sync::Arc;

use taffrail_core::control::{
    AlterConfigs, ChangeReplicationFactor, Command, ConfigAlteration, ConfigChanges, ControlError, CreatePartitions,
    CreateTopics, DeleteTopics, NewPartitions, NewTopic, PARTITIONS_PER_COMMAND_MAX, ReassignPartitions, Reassignment,
    ReplicaAssignment, Reply, TopicRef,
};
use taffrail_core::event::ConfigResource;
use taffrail_core::ids::{BrokerId, PartitionIndex};

use super::{Action, ConfigChange, TopicPlan};
use crate::platform::{Platform, PlatformError};

/// What became of a topic's plan: the first refusal, if there was one.
pub type TopicResult = Result<(), ControlError>;

/// Topics that one command names at most.
const TOPICS_PER_COMMAND_MAX: usize = 500;

/// Carries the plans out, as few commands as the controllers' limits allow; gives what became of each topic.
///
/// # Errors
/// When the controllers cannot be reached. What was done before is done; the next pass sees it.
pub async fn apply(
    plans: &BTreeMap<String, TopicPlan>,
    platform: &impl Platform,
) -> Result<BTreeMap<String, TopicResult>, PlatformError> {
    let mut results: BTreeMap<String, TopicResult> = plans.keys().map(|name| (name.clone(), Ok(()))).collect();
    let mut note = |name: &str, result: TopicResult| {
        if let (Some(slot), Err(error)) = (results.get_mut(name), result) {
            *slot = slot.clone().and(Err(error));
        }
    };
    let steps: Vec<(&str, &Action)> =
        plans.iter().flat_map(|(name, plan)| plan.actions.iter().map(move |action| (name.as_str(), action))).collect();
    for command in commands(&steps) {
        match platform.propose(command).await? {
            Reply::TopicsCreated(outcomes) => {
                outcomes.into_iter().for_each(|(name, outcome)| note(&name, outcome.map(|_| ())));
            }
            Reply::PartitionsCreated(outcomes) | Reply::ReplicationFactorsChanged(outcomes) => {
                outcomes.into_iter().for_each(|(name, outcome)| note(&name, outcome))
            }
            Reply::PartitionsReassigned(partitions) => {
                partitions.into_iter().for_each(|moved| note(&moved.topic, moved.outcome));
            }
            Reply::TopicsDeleted(topics) => {
                topics.into_iter().for_each(|topic| note(topic.name.as_deref().unwrap_or_default(), topic.outcome));
            }
            Reply::ConfigsAltered(resources) => {
                resources.into_iter().for_each(|altered| note(&altered.resource.name, altered.outcome));
            }
            _ => return Err(PlatformError::UnexpectedReply("a command about topics")),
        }
    }
    Ok(results)
}

/// The commands that do these steps, in the order in which topics come to be, grow, change and go.
fn commands(steps: &[(&str, &Action)]) -> Vec<Command> {
    let mut create: Vec<(usize, NewTopic)> = Vec::new();
    let mut grow: Vec<(usize, NewPartitions)> = Vec::new();
    let mut replicate: Vec<(usize, (Arc<str>, i16))> = Vec::new();
    let mut assign: Vec<(usize, Reassignment)> = Vec::new();
    let mut alter: Vec<(usize, ConfigAlteration)> = Vec::new();
    let mut delete: Vec<(usize, TopicRef)> = Vec::new();
    for (name, action) in steps {
        let name: Arc<str> = Arc::from(*name);
        match action {
            Action::Create { partitions, replicas, assignment, config } => {
                let mut topic = match assignment.is_empty() {
                    true => NewTopic::sized(name, partitions.unwrap_or(-1), replicas.unwrap_or(-1)),
                    // Kafka wants them to speak for themselves.
                    false => NewTopic { assignments: assignments(assignment), ..NewTopic::new(name) },
                };
                let text = |text: &String| Arc::from(text.as_str());
                topic.configs = config.iter().map(|(name, value)| (text(name), Some(text(value)))).collect();
                create.push((weight(partitions.unwrap_or(1)), topic));
            }
            Action::Grow { partitions, assignment } => {
                let assignments = Some(assignment.clone()).filter(|assignment| !assignment.is_empty());
                grow.push((weight(*partitions), NewPartitions { name, count: *partitions, assignments }));
            }
            Action::Assign { partitions } => {
                let reassignment = |(partition, brokers): &(PartitionIndex, Vec<BrokerId>)| {
                    let (topic, replicas) = (Arc::clone(&name), Some(brokers.clone()));
                    (1, Reassignment { topic, partition: *partition, replicas })
                };
                assign.extend(partitions.iter().map(reassignment));
            }
            Action::Replicate { replicas } => replicate.push((1, (name, *replicas))),
            Action::Configure { changes } => {
                let changes = ConfigChanges::Incremental(changes.iter().map(ConfigChange::to_operation).collect());
                alter.push((1, ConfigAlteration { resource: ConfigResource::topic(name), changes }));
            }
            Action::Delete => delete.push((1, TopicRef::named(name))),
        }
    }
    let create = batches(create).map(|topics| Command::CreateTopics(CreateTopics { topics, validate_only: false }));
    let grow = batches(grow).map(|topics| Command::CreatePartitions(CreatePartitions { topics, validate_only: false }));
    let alter = batches(alter).map(|resources| Command::AlterConfigs(AlterConfigs { resources, validate_only: false }));
    let delete = batches(delete).map(|topics| Command::DeleteTopics(DeleteTopics { topics }));
    let replicate =
        batches(replicate).map(|topics| Command::ChangeReplicationFactor(ChangeReplicationFactor { topics }));
    let assign = batches(assign).map(|partitions| {
        Command::ReassignPartitions(ReassignPartitions { partitions, allow_replication_factor_change: true })
    });
    create.chain(grow).chain(replicate).chain(assign).chain(alter).chain(delete).collect()
}

fn assignments(brokers: &[Vec<BrokerId>]) -> Vec<ReplicaAssignment> {
    let assignment = |(partition, replicas): (PartitionIndex, &Vec<BrokerId>)| ReplicaAssignment {
        partition,
        replicas: replicas.clone(),
    };
    (0..).zip(brokers).map(assignment).collect()
}

fn weight(partitions: i32) -> usize {
    usize::try_from(partitions).unwrap_or(1).max(1)
}

/// Cuts weighted items into batches within the limits of a command.
fn batches<T>(items: Vec<(usize, T)>) -> impl Iterator<Item = Vec<T>> {
    let mut batches: Vec<Vec<T>> = Vec::new();
    let mut room = 0;
    for (weight, item) in items {
        match batches.last_mut() {
            Some(batch) if weight <= room && batch.len() < TOPICS_PER_COMMAND_MAX => {
                batch.push(item);
                room -= weight;
            }
            _ => {
                batches.push(vec![item]);
                room = PARTITIONS_PER_COMMAND_MAX.saturating_sub(weight);
            }
        }
    }
    batches.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_keep_within_a_commands_limits() {
        let sizes = |items: Vec<usize>| {
            batches(items.into_iter().map(|weight| (weight, weight)).collect())
                .map(|batch| batch.len())
                .collect::<Vec<_>>()
        };
        assert_eq!(sizes(vec![]), Vec::<usize>::new());
        assert_eq!(sizes(vec![1; 501]), [500, 1]);
        assert_eq!(sizes(vec![6000, 4000, 1]), [2, 1]);
        assert_eq!(sizes(vec![10_000, 10_000]), [1, 1]);
    }
}
