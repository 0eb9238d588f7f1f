//! Replies about brokers and replicas as messages.

use std::sync::Arc;

use taffrail_core::control::{
    AffectedPartition, AlteredPartition, Behind, Outcome, PartitionOutcome, RestartVerdict, Tended,
};
use taffrail_core::ids::BrokerId;

use super::broker::{
    brokers_from_message, brokers_to_message, grant_from_message, grant_to_message, partition_from_message,
    partition_to_message,
};
use super::reply::{refusal_from_message, refusal_to_message};
use super::{FormatError, id_from_bytes, id_to_bytes, required, v1};

const WHAT: &str = "a reply";

pub(super) fn altered_to_message(partitions: &[AlteredPartition]) -> v1::PartitionsAltered {
    let convert = |it: &AlteredPartition| v1::AlteredPartition {
        topic_id: id_to_bytes(it.topic_id),
        partition: it.partition,
        refusal: it.outcome.as_ref().err().map(refusal_to_message),
        state: it.outcome.as_ref().ok().map(|state| partition_to_message(it.topic_id, it.partition, state)),
    };
    v1::PartitionsAltered { partitions: partitions.iter().map(convert).collect() }
}

pub(super) fn altered_from_message(message: v1::PartitionsAltered) -> Result<Vec<AlteredPartition>, FormatError> {
    let convert = |it: v1::AlteredPartition| {
        let outcome = match it.refusal {
            Some(refusal) => Err(refusal_from_message(refusal)),
            None => Ok(partition_from_message(required(WHAT, "state", it.state)?)?.2),
        };
        Ok(AlteredPartition {
            topic_id: id_from_bytes(WHAT, "topic_id", &it.topic_id)?,
            partition: it.partition,
            outcome,
        })
    };
    message.partitions.into_iter().map(convert).collect()
}

pub(super) fn outcomes_to_message(partitions: &[PartitionOutcome]) -> v1::PartitionOutcomes {
    let convert = |it: &PartitionOutcome| v1::PartitionOutcome {
        topic: it.topic.to_string(),
        partition: it.partition,
        refusal: it.outcome.as_ref().err().map(refusal_to_message),
    };
    v1::PartitionOutcomes { partitions: partitions.iter().map(convert).collect() }
}

pub(super) fn outcomes_from_message(message: v1::PartitionOutcomes) -> Vec<PartitionOutcome> {
    let convert = |it: v1::PartitionOutcome| PartitionOutcome {
        topic: it.topic.into(),
        partition: it.partition,
        outcome: outcome_from_message(it.refusal),
    };
    message.partitions.into_iter().map(convert).collect()
}

/// What became of something that only succeeds or is refused.
pub(super) fn outcome_from_message(refusal: Option<v1::Refusal>) -> Outcome<()> {
    refusal.map_or(Ok(()), |it| Err(refusal_from_message(it)))
}

pub(super) fn tended_to_message(tended: Tended) -> v1::Tended {
    v1::Tended {
        elections: tended.elections,
        moves: tended.moves,
        stuck: tended.stuck,
        is_unfinished: tended.is_unfinished,
    }
}

pub(super) fn tended_from_message(message: v1::Tended) -> Tended {
    Tended {
        elections: message.elections,
        moves: message.moves,
        stuck: message.stuck,
        is_unfinished: message.is_unfinished,
    }
}

pub(super) fn verdict_to_message(verdict: &RestartVerdict) -> v1::RestartVerdict {
    v1::RestartVerdict {
        offset: verdict.offset,
        unknown: brokers_to_message(&verdict.unknown),
        grant: verdict.grant.as_deref().map(grant_to_message),
        blocking_count: verdict.blocking_count as u64,
        blocking: verdict.blocking.iter().map(affected_to_message).collect(),
        small_count: verdict.small_count as u64,
        small: verdict.small.iter().map(affected_to_message).collect(),
    }
}

pub(super) fn verdict_from_message(message: v1::RestartVerdict) -> RestartVerdict {
    let count = |value| usize::try_from(value).unwrap_or(usize::MAX);
    RestartVerdict {
        offset: message.offset,
        unknown: brokers_from_message(message.unknown),
        grant: message.grant.map(|grant| Arc::new(grant_from_message(grant))),
        blocking_count: count(message.blocking_count),
        blocking: message.blocking.into_iter().map(affected_from_message).collect(),
        small_count: count(message.small_count),
        small: message.small.into_iter().map(affected_from_message).collect(),
    }
}

fn affected_to_message(it: &AffectedPartition) -> v1::AffectedPartition {
    let behind = |it: &Behind| v1::BehindReplica { broker: it.broker.0, is_away: it.is_away, records: it.records };
    v1::AffectedPartition {
        topic: it.topic.to_string(),
        partition: it.partition,
        leader: it.leader.0,
        isr: brokers_to_message(&it.isr),
        min_in_sync: u32::try_from(it.min_in_sync).unwrap_or(u32::MAX),
        behind: it.behind.iter().map(behind).collect(),
    }
}

fn affected_from_message(message: v1::AffectedPartition) -> AffectedPartition {
    let behind =
        |it: v1::BehindReplica| Behind { broker: BrokerId(it.broker), is_away: it.is_away, records: it.records };
    AffectedPartition {
        topic: message.topic.into(),
        partition: message.partition,
        leader: BrokerId(message.leader),
        isr: brokers_from_message(message.isr),
        min_in_sync: usize::try_from(message.min_in_sync).unwrap_or(usize::MAX),
        behind: message.behind.into_iter().map(behind).collect(),
    }
}
