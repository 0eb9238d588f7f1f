//! What the active controller answers to a command: a pure function of the image, the command and the inputs.
//!
//! [`decide`] changes nothing. Its events become true when a majority of the controllers has them on disk; only then may
//! the reply leave. A command is carried out whole or, where Kafka answers for each topic or resource on its own, item by
//! item: each item sees what the items before it did.

mod alter_partition;
mod brokers;
mod command;
mod configs;
mod delete_topics;
mod draft;
mod elect;
mod elections;
mod error;
mod grants;
mod loggers;
mod partition_change;
mod partitions;
mod placement;
mod producer_ids;
mod reassign;
mod replica_commands;
mod reply;
mod restart;
mod sessions;
mod tend;
mod tending;
mod topic_rules;
mod topics;

#[cfg(test)]
mod tests;

pub use command::{
    AlterConfigs, BrokerIdentity, Command, ConfigAlteration, ConfigChanges, ConfigOp, ConfigOperation,
    CreatePartitions, CreateTopics, DeleteTopics, NewPartitions, NewTopic, RegisterBroker, ReplicaAssignment, TopicRef,
};
pub use error::ControlError;
pub use grants::{GRANT_BROKERS_MAX, GRANT_DURATION_MAX_MS};
pub use loggers::{LogLevel, LoggerChanges, ROOT_LOGGER, logger_changes};
pub use producer_ids::PRODUCER_ID_BLOCK;
pub use replica_commands::{
    AlterPartition, ChangeReplicationFactor, CloseGrant, ElectLeaders, ElectionKind, IsrChange, JudgeRestart,
    OpenGrant, ReassignPartitions, Reassignment, Tend,
};
pub use reply::{
    AlteredPartition, AlteredResource, CreatedTopic, DeletedTopic, Outcome, PartitionOutcome, ProducerIdBlock, Reply,
    Tended, TopicOutcomes,
};
pub use restart::{
    AffectedPartition, Behind, FollowerLag, LISTED_PARTITIONS_MAX, LagReport, Lags, REPORTED_PARTITIONS_MAX,
    RestartVerdict, SmallPartitions,
};
pub use sessions::{BrokerSessions, Sign};
pub use tending::Tending;

use draft::Draft;
use topic_rules::DefaultRules;

use crate::config::Overrides;
use crate::errors::ErrorCode;
use crate::event::MetadataEvent;
use crate::ids::{BrokerId, Uuid};
use crate::image::MetadataImage;

/// Partitions that one command may create at most; Kafka's `MAX_RECORDS_PER_USER_OP`. More is a POLICY_VIOLATION.
pub const PARTITIONS_PER_COMMAND_MAX: usize = 10_000;

/// What a decision depends on besides image and command: settings of the controller, and what it alone can know.
#[derive(Debug, Clone)]
pub struct Inputs<'a> {
    /// Fresh random ids: at least [`Command::ids_needed`] of them.
    pub fresh_ids: &'a [Uuid],
    /// Brokers that have sent a heartbeat to this controller within the session timeout.
    pub live_brokers: &'a [BrokerId],
    /// Broker settings that the controller was started with: below what the metadata set, above the defaults.
    pub static_config: &'a Overrides,
    /// Unix time in milliseconds, by which grants expire.
    pub now_ms: i64,
    /// How far followers are behind, as leaders have reported to this controller.
    pub lags: &'a Lags,
}

impl Inputs<'_> {
    /// What decides who may lead a topic's partitions.
    fn rules(&self, image: &MetadataImage) -> DefaultRules {
        DefaultRules::resolve(image, self.static_config)
    }
}

/// What to do, and what to say when it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Events to append to the metadata log, all or none. Empty = nothing changes, and the reply may go at once.
    pub events: Vec<MetadataEvent>,
    /// The answer once the events are committed and applied.
    pub reply: Reply,
}

/// Decides what `command` does to `image`.
///
/// # Errors
/// When the command as a whole is refused; nothing changes then. Errors of single topics or resources are in the reply.
pub fn decide(image: &MetadataImage, command: &Command, inputs: &Inputs<'_>) -> Result<Decision, ControlError> {
    assert!(inputs.fresh_ids.len() >= command.ids_needed(), "a decision needs as many fresh ids as it may hand out");
    let mut draft = Draft::new(image);
    let keep = !command.validate_only();
    if let Command::CreateCluster { cluster_id } = command {
        brokers::create_cluster(&mut draft, *cluster_id)?;
        return Ok(draft.decided(Reply::Done, keep));
    }
    if image.cluster_id().is_none() {
        return Err(ControlError::new(ErrorCode::CoordinatorNotAvailable, "The cluster has not been founded yet."));
    }
    let reply = match command {
        Command::CreateCluster { .. } => Reply::Done,
        Command::CreateTopics(request) => Reply::TopicsCreated(topics::create(&mut draft, request, inputs)?),
        Command::DeleteTopics(request) => Reply::TopicsDeleted(delete_topics::delete(&mut draft, request, inputs)?),
        Command::CreatePartitions(request) => Reply::PartitionsCreated(partitions::create(&mut draft, request)?),
        Command::AlterConfigs(request) => Reply::ConfigsAltered(configs::alter(&mut draft, request, inputs)),
        Command::AllocateProducerIds(broker) => {
            Reply::ProducerIdsAllocated(producer_ids::allocate(&mut draft, *broker)?)
        }
        _ => decide_replicas(&mut draft, command, inputs)?,
    };
    Ok(draft.decided(reply, keep))
}

/// The commands about brokers and replicas.
fn decide_replicas(draft: &mut Draft, command: &Command, inputs: &Inputs<'_>) -> Result<Reply, ControlError> {
    let rules = inputs.rules(draft.image());
    Ok(match command {
        Command::RegisterBroker(request) => {
            Reply::BrokerRegistered { epoch: brokers::register(draft, request, inputs)? }
        }
        Command::UnfenceBroker(broker) => brokers::unfence(draft, *broker, rules)?,
        Command::FenceBroker(broker) => brokers::fence(draft, *broker, rules)?,
        Command::BeginShutdown(broker) => brokers::begin_shutdown(draft, *broker, rules)?,
        Command::UnregisterBroker { broker } => brokers::unregister(draft, *broker, rules)?,
        Command::SetBrokerDuty { broker, duty } => brokers::set_duty(draft, *broker, *duty)?,
        Command::AlterPartition(request) => Reply::PartitionsAltered(alter_partition::alter(draft, request, rules)?),
        Command::ReassignPartitions(request) => Reply::PartitionsReassigned(reassign::alter(draft, request, rules)?),
        Command::ChangeReplicationFactor(request) => {
            Reply::ReplicationFactorsChanged(reassign::change_factor(draft, request, rules)?)
        }
        Command::ElectLeaders(request) => Reply::LeadersElected(elect::elect(draft, request, rules)),
        Command::Tend(request) => Reply::Tended(tend::tend(draft, request, inputs)),
        Command::JudgeRestart(request) => {
            let (image, brokers) = (draft.image(), &request.brokers);
            Reply::RestartJudged(restart::judge(image, brokers, request.policy, rules, inputs.lags))
        }
        Command::OpenGrant(request) => grants::open(draft, request, inputs)?,
        Command::CloseGrant(request) => grants::close(draft, request)?,
        Command::CreateCluster { .. }
        | Command::CreateTopics(_)
        | Command::DeleteTopics(_)
        | Command::CreatePartitions(_)
        | Command::AlterConfigs(_)
        | Command::AllocateProducerIds(_) => unreachable!("decided with the commands about topics"),
    })
}
