//! Replies as messages.

use std::sync::Arc;

use taffrail_core::control::{
    AlteredResource, ControlError, CreatedTopic, DeletedTopic, Outcome, ProducerIdBlock, Reply, TopicOutcomes,
};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::Uuid;

use super::broker::{grant_from_message, grant_to_message, resource_from_message, resource_to_message};
use super::error::short;
use super::replica_reply::{self, outcome_from_message as outcome};
use super::{FormatError, id_from_bytes, id_to_bytes, required, v1};

const WHAT: &str = "a reply";

/// The message that carries a refusal.
pub fn refusal_to_message(error: &ControlError) -> v1::Refusal {
    v1::Refusal { code: i32::from(error.code.code()), message: error.message.clone() }
}

/// The refusal that `message` carries. A code that this release does not know becomes UNKNOWN_SERVER_ERROR.
pub fn refusal_from_message(message: v1::Refusal) -> ControlError {
    let code = i16::try_from(message.code).ok().and_then(ErrorCode::from_code);
    ControlError { code: code.unwrap_or(ErrorCode::UnknownServerError), message: message.message }
}

/// The message that carries `reply`.
pub fn reply_to_message(reply: &Reply) -> v1::Reply {
    use v1::reply::Kind;
    let kind = match reply {
        Reply::Done => Kind::Done(v1::Done {}),
        Reply::BrokerRegistered { epoch } => Kind::BrokerRegistered(v1::BrokerRegistered { epoch: *epoch }),
        Reply::TopicsCreated(topics) => Kind::TopicsCreated(v1::TopicsCreated {
            topics: topics
                .iter()
                .map(|(name, outcome)| match outcome {
                    Ok(topic) => v1::CreatedTopic {
                        name: name.to_string(),
                        refusal: None,
                        topic_id: id_to_bytes(topic.id),
                        partitions: topic.partitions,
                        replication_factor: i32::from(topic.replication_factor),
                    },
                    Err(error) => v1::CreatedTopic {
                        name: name.to_string(),
                        refusal: Some(refusal_to_message(error)),
                        ..v1::CreatedTopic::default()
                    },
                })
                .collect(),
        }),
        Reply::TopicsDeleted(topics) => Kind::TopicsDeleted(v1::TopicsDeleted {
            topics: topics
                .iter()
                .map(|topic| v1::DeletedTopic {
                    name: topic.name.as_deref().map(str::to_owned),
                    topic_id: id_to_bytes(topic.id),
                    refusal: topic.outcome.as_ref().err().map(refusal_to_message),
                })
                .collect(),
        }),
        Reply::PartitionsCreated(topics) => Kind::PartitionsCreated(topics_to_message(topics)),
        Reply::ConfigsAltered(resources) => Kind::ConfigsAltered(v1::ConfigsAltered {
            resources: resources
                .iter()
                .map(|altered| v1::AlteredResource {
                    resource: Some(resource_to_message(&altered.resource)),
                    refusal: altered.outcome.as_ref().err().map(refusal_to_message),
                })
                .collect(),
        }),
        Reply::ProducerIdsAllocated(block) => {
            Kind::ProducerIdsAllocated(v1::ProducerIdBlock { first: block.first, count: block.count })
        }
        Reply::PartitionsAltered(partitions) => Kind::PartitionsAltered(replica_reply::altered_to_message(partitions)),
        Reply::PartitionsReassigned(partitions) => {
            Kind::PartitionsReassigned(replica_reply::outcomes_to_message(partitions))
        }
        Reply::ReplicationFactorsChanged(topics) => Kind::ReplicationFactorsChanged(topics_to_message(topics)),
        Reply::LeadersElected(partitions) => Kind::LeadersElected(replica_reply::outcomes_to_message(partitions)),
        Reply::Tended(tended) => Kind::Tended(replica_reply::tended_to_message(*tended)),
        Reply::RestartJudged(verdict) => Kind::RestartJudged(replica_reply::verdict_to_message(verdict)),
        Reply::GrantOpened(grant) => Kind::GrantOpened(grant_to_message(grant)),
    };
    v1::Reply { kind: Some(kind) }
}

/// The reply that `message` carries.
///
/// # Errors
/// When it is of an unknown kind or has a value out of range.
pub fn reply_from_message(message: v1::Reply) -> Result<Reply, FormatError> {
    use v1::reply::Kind;
    Ok(match required(WHAT, "kind", message.kind)? {
        Kind::Done(_) => Reply::Done,
        Kind::BrokerRegistered(registered) => Reply::BrokerRegistered { epoch: registered.epoch },
        Kind::TopicsCreated(created) => Reply::TopicsCreated(
            created
                .topics
                .into_iter()
                .map(|topic| {
                    let created = CreatedTopic {
                        id: id_or_zero("topic_id", &topic.topic_id)?,
                        partitions: topic.partitions,
                        replication_factor: short(WHAT, "replication_factor", topic.replication_factor)?,
                    };
                    Ok((topic.name.into(), outcome(topic.refusal).map(|()| created)))
                })
                .collect::<Result<_, FormatError>>()?,
        ),
        Kind::TopicsDeleted(deleted) => Reply::TopicsDeleted(
            deleted
                .topics
                .into_iter()
                .map(|topic| {
                    Ok(DeletedTopic {
                        name: topic.name.map(Into::into),
                        id: id_or_zero("topic_id", &topic.topic_id)?,
                        outcome: outcome(topic.refusal),
                    })
                })
                .collect::<Result<_, FormatError>>()?,
        ),
        Kind::PartitionsCreated(grown) => Reply::PartitionsCreated(topics_from_message(grown)),
        Kind::ConfigsAltered(altered) => Reply::ConfigsAltered(
            altered
                .resources
                .into_iter()
                .map(|it| {
                    let resource = resource_from_message(required(WHAT, "resource", it.resource)?)?;
                    Ok(AlteredResource { resource, outcome: outcome(it.refusal) })
                })
                .collect::<Result<_, FormatError>>()?,
        ),
        Kind::ProducerIdsAllocated(block) => {
            Reply::ProducerIdsAllocated(ProducerIdBlock { first: block.first, count: block.count })
        }
        Kind::PartitionsAltered(altered) => Reply::PartitionsAltered(replica_reply::altered_from_message(altered)?),
        Kind::PartitionsReassigned(outcomes) => {
            Reply::PartitionsReassigned(replica_reply::outcomes_from_message(outcomes))
        }
        Kind::ReplicationFactorsChanged(topics) => Reply::ReplicationFactorsChanged(topics_from_message(topics)),
        Kind::LeadersElected(outcomes) => Reply::LeadersElected(replica_reply::outcomes_from_message(outcomes)),
        Kind::Tended(tended) => Reply::Tended(replica_reply::tended_from_message(tended)),
        Kind::RestartJudged(verdict) => Reply::RestartJudged(replica_reply::verdict_from_message(verdict)),
        Kind::GrantOpened(grant) => Reply::GrantOpened(grant_from_message(grant)),
    })
}

fn topics_to_message(topics: &TopicOutcomes<()>) -> v1::PartitionsCreated {
    let convert = |(name, outcome): &(Arc<str>, Outcome<()>)| v1::GrownTopic {
        name: name.to_string(),
        refusal: outcome.as_ref().err().map(refusal_to_message),
    };
    v1::PartitionsCreated { topics: topics.iter().map(convert).collect() }
}

fn topics_from_message(message: v1::PartitionsCreated) -> TopicOutcomes<()> {
    message.topics.into_iter().map(|topic| (topic.name.into(), outcome(topic.refusal))).collect()
}

/// An id that may be absent.
fn id_or_zero(field: &'static str, bytes: &[u8]) -> Result<Uuid, FormatError> {
    if bytes.is_empty() { Ok(Uuid::ZERO) } else { id_from_bytes(WHAT, field, bytes) }
}
