//! Commands about brokers and replicas as messages.

use taffrail_core::control::{
    AlterPartition, BrokerIdentity, ChangeReplicationFactor, ElectLeaders, ElectionKind, IsrChange, JudgeRestart,
    OpenGrant, ReassignPartitions, Reassignment, SmallPartitions,
};
use taffrail_core::ids::BrokerId;

use super::broker::{brokers_from_message, brokers_to_message};
use super::error::short;
use super::{FormatError, id_from_bytes, id_to_bytes, required, v1};

const WHAT: &str = "a command";

pub(super) fn identity_to_message(broker: BrokerIdentity) -> v1::BrokerEpoch {
    v1::BrokerEpoch { broker: broker.id.0, epoch: broker.epoch }
}

pub(super) fn identity_from_message(message: &v1::BrokerEpoch) -> BrokerIdentity {
    BrokerIdentity { id: BrokerId(message.broker), epoch: message.epoch }
}

pub(super) fn alter_to_message(request: &AlterPartition) -> v1::AlterPartition {
    let change = |it: &IsrChange| v1::IsrChange {
        topic_id: id_to_bytes(it.topic_id),
        partition: it.partition,
        leader_epoch: it.leader_epoch,
        partition_epoch: it.partition_epoch,
        isr: it.isr.iter().copied().map(identity_to_message).collect(),
        recovering: it.recovering,
    };
    v1::AlterPartition {
        broker: Some(identity_to_message(request.broker)),
        partitions: request.partitions.iter().map(change).collect(),
    }
}

pub(super) fn alter_from_message(message: v1::AlterPartition) -> Result<AlterPartition, FormatError> {
    let change = |it: v1::IsrChange| {
        Ok(IsrChange {
            topic_id: id_from_bytes(WHAT, "topic_id", &it.topic_id)?,
            partition: it.partition,
            leader_epoch: it.leader_epoch,
            partition_epoch: it.partition_epoch,
            isr: it.isr.iter().map(identity_from_message).collect(),
            recovering: it.recovering,
        })
    };
    Ok(AlterPartition {
        broker: identity_from_message(&required(WHAT, "broker", message.broker)?),
        partitions: message.partitions.into_iter().map(change).collect::<Result<_, FormatError>>()?,
    })
}

pub(super) fn reassign_to_message(request: &ReassignPartitions) -> v1::ReassignPartitions {
    let partition = |it: &Reassignment| v1::Reassignment {
        topic: it.topic.to_string(),
        partition: it.partition,
        replicas: it.replicas.as_deref().map(|it| v1::Replicas { brokers: brokers_to_message(it) }),
    };
    v1::ReassignPartitions {
        partitions: request.partitions.iter().map(partition).collect(),
        allow_replication_factor_change: request.allow_replication_factor_change,
    }
}

pub(super) fn reassign_from_message(message: v1::ReassignPartitions) -> ReassignPartitions {
    let partition = |it: v1::Reassignment| Reassignment {
        topic: it.topic.into(),
        partition: it.partition,
        replicas: it.replicas.map(|it| brokers_from_message(it.brokers)),
    };
    ReassignPartitions {
        partitions: message.partitions.into_iter().map(partition).collect(),
        allow_replication_factor_change: message.allow_replication_factor_change,
    }
}

pub(super) fn factors_to_message(request: &ChangeReplicationFactor) -> v1::ChangeReplicationFactor {
    let topics = request.topics.iter();
    let topics =
        topics.map(|(name, factor)| v1::TopicFactor { name: name.to_string(), replication_factor: i32::from(*factor) });
    v1::ChangeReplicationFactor { topics: topics.collect() }
}

pub(super) fn factors_from_message(
    message: v1::ChangeReplicationFactor,
) -> Result<ChangeReplicationFactor, FormatError> {
    let topic = |it: v1::TopicFactor| Ok((it.name.into(), short(WHAT, "replication_factor", it.replication_factor)?));
    Ok(ChangeReplicationFactor { topics: message.topics.into_iter().map(topic).collect::<Result<_, FormatError>>()? })
}

pub(super) fn elect_to_message(request: &ElectLeaders) -> v1::ElectLeaders {
    let partitions = request.partitions.iter().flatten();
    let partitions =
        partitions.map(|(topic, partition)| v1::NamedPartition { topic: topic.to_string(), partition: *partition });
    v1::ElectLeaders {
        kind: i32::from(request.kind.code()),
        all: request.partitions.is_none(),
        partitions: partitions.collect(),
    }
}

pub(super) fn elect_from_message(message: v1::ElectLeaders) -> Result<ElectLeaders, FormatError> {
    let value = i64::from(message.kind);
    let kind = i8::try_from(message.kind).ok().and_then(ElectionKind::from_code);
    let partitions = message.partitions.into_iter().map(|it| (it.topic.into(), it.partition)).collect();
    Ok(ElectLeaders {
        kind: kind.ok_or(FormatError::Invalid { what: WHAT, field: "kind", value })?,
        partitions: (!message.all).then_some(partitions),
    })
}

pub(super) fn judge_to_message(request: &JudgeRestart) -> v1::JudgeRestart {
    v1::JudgeRestart {
        brokers: request.brokers.iter().map(|id| id.0).collect(),
        policy: policy_to_code(request.policy),
    }
}

pub(super) fn judge_from_message(message: v1::JudgeRestart) -> Result<JudgeRestart, FormatError> {
    Ok(JudgeRestart {
        brokers: message.brokers.into_iter().map(BrokerId).collect(),
        policy: policy_from_code(message.policy)?,
    })
}

pub(super) fn open_grant_to_message(request: &OpenGrant) -> v1::OpenGrant {
    v1::OpenGrant {
        brokers: request.brokers.iter().map(|id| id.0).collect(),
        operator_epoch: request.operator_epoch,
        duration_ms: request.duration_ms,
        policy: policy_to_code(request.policy),
    }
}

pub(super) fn open_grant_from_message(message: v1::OpenGrant) -> Result<OpenGrant, FormatError> {
    Ok(OpenGrant {
        brokers: message.brokers.into_iter().map(BrokerId).collect(),
        operator_epoch: message.operator_epoch,
        duration_ms: message.duration_ms,
        policy: policy_from_code(message.policy)?,
    })
}

fn policy_to_code(policy: SmallPartitions) -> i32 {
    let policy = match policy {
        SmallPartitions::Warn => v1::SmallPartitions::Warn,
        SmallPartitions::Block => v1::SmallPartitions::Block,
    };
    policy.into()
}

fn policy_from_code(code: i32) -> Result<SmallPartitions, FormatError> {
    match v1::SmallPartitions::try_from(code) {
        Ok(v1::SmallPartitions::Warn) => Ok(SmallPartitions::Warn),
        Ok(v1::SmallPartitions::Block) => Ok(SmallPartitions::Block),
        Err(_) => Err(FormatError::Invalid { what: WHAT, field: "policy", value: i64::from(code) }),
    }
}
