//! Commands as messages.

use std::sync::Arc;

use taffrail_core::control::{
    AlterConfigs, CloseGrant, Command, ConfigAlteration, ConfigChanges, ConfigOp, ConfigOperation, CreatePartitions,
    CreateTopics, DeleteTopics, NewPartitions, NewTopic, RegisterBroker, ReplicaAssignment, Tend, TopicRef,
};
use taffrail_core::ids::{BrokerId, Uuid};

use super::broker::{
    duty_from_code, features_from_message, features_to_message, listeners_from_message, listeners_to_message,
    log_dirs_from_message, resource_from_message, resource_to_message,
};
use super::error::short;
use super::replica_command::{self, identity_from_message, identity_to_message};
use super::{FormatError, id_from_bytes, id_to_bytes, required, v1};

const WHAT: &str = "a command";

/// The message that carries `command`.
pub fn command_to_message(command: &Command) -> v1::Command {
    use v1::command::Kind;
    let kind = match command {
        Command::CreateCluster { cluster_id } => {
            Kind::CreateCluster(v1::CreateCluster { cluster_id: id_to_bytes(*cluster_id) })
        }
        Command::RegisterBroker(request) => Kind::RegisterBroker(v1::RegisterBroker {
            id: request.id.0,
            cluster_id: request.cluster_id.map(id_to_bytes),
            incarnation: id_to_bytes(request.incarnation),
            rack: request.rack.as_deref().map(str::to_owned),
            listeners: listeners_to_message(&request.listeners),
            log_dirs: request.log_dirs.iter().copied().map(id_to_bytes).collect(),
            features: features_to_message(&request.features),
            unclean_shutdown: request.unclean_shutdown,
            min_in_sync: request.min_in_sync,
        }),
        Command::UnfenceBroker(broker) => Kind::UnfenceBroker(identity_to_message(*broker)),
        Command::FenceBroker(broker) => Kind::FenceBroker(identity_to_message(*broker)),
        Command::UnregisterBroker { broker } => Kind::UnregisterBroker(v1::UnregisterBroker { broker: broker.0 }),
        Command::CreateTopics(request) => Kind::CreateTopics(v1::CreateTopics {
            topics: request.topics.iter().map(new_topic_to_message).collect(),
            validate_only: request.validate_only,
        }),
        Command::DeleteTopics(request) => Kind::DeleteTopics(v1::DeleteTopics {
            topics: request
                .topics
                .iter()
                .map(|topic| v1::TopicReference {
                    name: topic.name.as_deref().map(str::to_owned),
                    topic_id: id_to_bytes(topic.id),
                })
                .collect(),
        }),
        Command::CreatePartitions(request) => Kind::CreatePartitions(v1::CreatePartitions {
            topics: request.topics.iter().map(new_partitions_to_message).collect(),
            validate_only: request.validate_only,
        }),
        Command::AlterConfigs(request) => Kind::AlterConfigs(v1::AlterConfigs {
            resources: request.resources.iter().map(alteration_to_message).collect(),
            validate_only: request.validate_only,
        }),
        Command::AllocateProducerIds(broker) => Kind::AllocateProducerIds(identity_to_message(*broker)),
        Command::BeginShutdown(broker) => Kind::BeginShutdown(identity_to_message(*broker)),
        Command::SetBrokerDuty { broker, duty } => {
            Kind::SetBrokerDuty(v1::BrokerDutyChanged { broker: broker.0, duty: duty.code() })
        }
        Command::AlterPartition(request) => Kind::AlterPartition(replica_command::alter_to_message(request)),
        Command::ReassignPartitions(request) => Kind::ReassignPartitions(replica_command::reassign_to_message(request)),
        Command::ChangeReplicationFactor(request) => {
            Kind::ChangeReplicationFactor(replica_command::factors_to_message(request))
        }
        Command::ElectLeaders(request) => Kind::ElectLeaders(replica_command::elect_to_message(request)),
        Command::Tend(request) => Kind::Tend(v1::Tend {
            leaders: request.leaders,
            replicas: request.replicas,
            changes_max: request.changes_max,
        }),
        Command::JudgeRestart(request) => Kind::JudgeRestart(replica_command::judge_to_message(request)),
        Command::OpenGrant(request) => Kind::OpenGrant(replica_command::open_grant_to_message(request)),
        Command::CloseGrant(request) => {
            Kind::CloseGrant(v1::GrantClosed { id: request.id, operator_epoch: request.operator_epoch })
        }
    };
    v1::Command { kind: Some(kind) }
}

/// The command that `message` carries.
///
/// # Errors
/// When it is of an unknown kind or has a value out of range.
pub fn command_from_message(message: v1::Command) -> Result<Command, FormatError> {
    use v1::command::Kind;
    Ok(match required(WHAT, "kind", message.kind)? {
        Kind::CreateCluster(request) => {
            Command::CreateCluster { cluster_id: id_from_bytes(WHAT, "cluster_id", &request.cluster_id)? }
        }
        Kind::RegisterBroker(request) => Command::RegisterBroker(register_from_message(request)?),
        Kind::UnfenceBroker(broker) => Command::UnfenceBroker(identity_from_message(&broker)),
        Kind::FenceBroker(broker) => Command::FenceBroker(identity_from_message(&broker)),
        Kind::UnregisterBroker(request) => Command::UnregisterBroker { broker: BrokerId(request.broker) },
        Kind::CreateTopics(request) => Command::CreateTopics(CreateTopics {
            topics: request.topics.into_iter().map(new_topic_from_message).collect::<Result<_, _>>()?,
            validate_only: request.validate_only,
        }),
        Kind::DeleteTopics(request) => Command::DeleteTopics(DeleteTopics {
            topics: request.topics.into_iter().map(reference_from_message).collect::<Result<_, _>>()?,
        }),
        Kind::CreatePartitions(request) => Command::CreatePartitions(CreatePartitions {
            topics: request.topics.into_iter().map(new_partitions_from_message).collect(),
            validate_only: request.validate_only,
        }),
        Kind::AlterConfigs(request) => Command::AlterConfigs(AlterConfigs {
            resources: request.resources.into_iter().map(alteration_from_message).collect::<Result<_, _>>()?,
            validate_only: request.validate_only,
        }),
        Kind::AllocateProducerIds(broker) => Command::AllocateProducerIds(identity_from_message(&broker)),
        Kind::BeginShutdown(broker) => Command::BeginShutdown(identity_from_message(&broker)),
        Kind::SetBrokerDuty(request) => {
            Command::SetBrokerDuty { broker: BrokerId(request.broker), duty: duty_from_code(request.duty)? }
        }
        Kind::AlterPartition(request) => Command::AlterPartition(replica_command::alter_from_message(request)?),
        Kind::ReassignPartitions(request) => {
            Command::ReassignPartitions(replica_command::reassign_from_message(request))
        }
        Kind::ChangeReplicationFactor(request) => {
            Command::ChangeReplicationFactor(replica_command::factors_from_message(request)?)
        }
        Kind::ElectLeaders(request) => Command::ElectLeaders(replica_command::elect_from_message(request)?),
        Kind::Tend(request) => Command::Tend(Tend {
            leaders: request.leaders,
            replicas: request.replicas,
            changes_max: request.changes_max,
        }),
        Kind::JudgeRestart(request) => Command::JudgeRestart(replica_command::judge_from_message(request)?),
        Kind::OpenGrant(request) => Command::OpenGrant(replica_command::open_grant_from_message(request)?),
        Kind::CloseGrant(request) => {
            Command::CloseGrant(CloseGrant { id: request.id, operator_epoch: request.operator_epoch })
        }
    })
}

fn register_from_message(message: v1::RegisterBroker) -> Result<RegisterBroker, FormatError> {
    let cluster_id = message.cluster_id.map(|bytes| id_from_bytes(WHAT, "cluster_id", &bytes)).transpose()?;
    Ok(RegisterBroker {
        id: BrokerId(message.id),
        cluster_id,
        incarnation: id_from_bytes(WHAT, "incarnation", &message.incarnation)?,
        rack: message.rack.map(Into::into),
        listeners: listeners_from_message(message.listeners)?,
        log_dirs: log_dirs_from_message(&message.log_dirs)?,
        features: features_from_message(message.features)?,
        unclean_shutdown: message.unclean_shutdown,
        min_in_sync: message.min_in_sync,
    })
}

fn new_topic_to_message(topic: &NewTopic) -> v1::NewTopic {
    let assignment = |it: &ReplicaAssignment| v1::ReplicaAssignment {
        partition: it.partition,
        replicas: it.replicas.iter().map(|id| id.0).collect(),
    };
    let setting = |(name, value): &(Arc<str>, Option<Arc<str>>)| v1::Setting {
        name: name.to_string(),
        value: value.as_deref().map(str::to_owned),
    };
    v1::NewTopic {
        name: topic.name.to_string(),
        partitions: topic.partitions,
        replication_factor: i32::from(topic.replication_factor),
        assignments: topic.assignments.iter().map(assignment).collect(),
        configs: topic.configs.iter().map(setting).collect(),
        topic_id: topic.id.map(id_to_bytes),
    }
}

fn new_topic_from_message(message: v1::NewTopic) -> Result<NewTopic, FormatError> {
    let assignment = |it: v1::ReplicaAssignment| ReplicaAssignment {
        partition: it.partition,
        replicas: it.replicas.into_iter().map(BrokerId).collect(),
    };
    Ok(NewTopic {
        name: message.name.into(),
        partitions: message.partitions,
        replication_factor: short(WHAT, "replication_factor", message.replication_factor)?,
        assignments: message.assignments.into_iter().map(assignment).collect(),
        configs: message.configs.into_iter().map(|it| (it.name.into(), it.value.map(Into::into))).collect(),
        id: message.topic_id.map(|bytes| id_from_bytes(WHAT, "topic_id", &bytes)).transpose()?,
    })
}

fn reference_from_message(message: v1::TopicReference) -> Result<TopicRef, FormatError> {
    // Absent bytes are the zero id, which stands for "not given".
    let id = if message.topic_id.is_empty() { Uuid::ZERO } else { id_from_bytes(WHAT, "topic_id", &message.topic_id)? };
    Ok(TopicRef { name: message.name.map(Into::into), id })
}

fn new_partitions_to_message(topic: &NewPartitions) -> v1::NewPartitions {
    let replicas = |replicas: &Vec<BrokerId>| v1::Replicas { brokers: replicas.iter().map(|id| id.0).collect() };
    v1::NewPartitions {
        name: topic.name.to_string(),
        count: topic.count,
        assigned: topic.assignments.is_some(),
        assignments: topic.assignments.iter().flatten().map(replicas).collect(),
    }
}

fn new_partitions_from_message(message: v1::NewPartitions) -> NewPartitions {
    let assignments =
        message.assignments.into_iter().map(|it| it.brokers.into_iter().map(BrokerId).collect()).collect();
    NewPartitions {
        name: message.name.into(),
        count: message.count,
        assignments: message.assigned.then_some(assignments),
    }
}

fn alteration_to_message(alteration: &ConfigAlteration) -> v1::ConfigAlteration {
    let operation = |name: &Arc<str>, op: ConfigOp, value: &Option<Arc<str>>| v1::ConfigOperation {
        name: name.to_string(),
        op: i32::from(op.code()),
        value: value.as_deref().map(str::to_owned),
    };
    let (incremental, operations) = match &alteration.changes {
        ConfigChanges::Incremental(operations) => {
            (true, operations.iter().map(|it| operation(&it.name, it.op, &it.value)).collect())
        }
        ConfigChanges::Replace(settings) => {
            (false, settings.iter().map(|(name, value)| operation(name, ConfigOp::Set, value)).collect())
        }
    };
    v1::ConfigAlteration { resource: Some(resource_to_message(&alteration.resource)), incremental, operations }
}

fn alteration_from_message(message: v1::ConfigAlteration) -> Result<ConfigAlteration, FormatError> {
    let resource = resource_from_message(required(WHAT, "resource", message.resource)?)?;
    let operations = message.operations.into_iter();
    let changes = if message.incremental {
        let operation = |it: v1::ConfigOperation| {
            let invalid = FormatError::Invalid { what: WHAT, field: "op", value: i64::from(it.op) };
            let op = i8::try_from(it.op).ok().and_then(ConfigOp::from_code).ok_or(invalid)?;
            Ok(ConfigOperation { name: it.name.into(), op, value: it.value.map(Into::into) })
        };
        ConfigChanges::Incremental(operations.map(operation).collect::<Result<_, FormatError>>()?)
    } else {
        ConfigChanges::Replace(operations.map(|it| (it.name.into(), it.value.map(Into::into))).collect())
    };
    Ok(ConfigAlteration { resource, changes })
}
