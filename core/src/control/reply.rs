//! What the controller answers.

use std::sync::Arc;

use super::{ControlError, RestartVerdict};
use crate::event::{ConfigResource, Grant, PartitionState};
use crate::ids::{PartitionIndex, ProducerId, TopicId};

/// What became of one item of a command.
pub type Outcome<T> = Result<T, ControlError>;

/// What became of each topic of a command, by name.
pub type TopicOutcomes<T> = Vec<(Arc<str>, Outcome<T>)>;

/// The answer to a command that was not refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It is done; there is nothing more to say.
    Done,
    /// The broker is registered.
    BrokerRegistered {
        /// Epoch that it must show from now on.
        epoch: i64,
    },
    /// For each distinct topic name of the request, in its order.
    TopicsCreated(TopicOutcomes<CreatedTopic>),
    /// For each distinct topic of the request.
    TopicsDeleted(Vec<DeletedTopic>),
    /// For each distinct topic name of the request, in its order.
    PartitionsCreated(TopicOutcomes<()>),
    /// For each resource of the request, in its order.
    ConfigsAltered(Vec<AlteredResource>),
    /// A block of producer ids.
    ProducerIdsAllocated(ProducerIdBlock),
    /// For each partition of the request, in its order.
    PartitionsAltered(Vec<AlteredPartition>),
    /// For each partition of the request, in its order.
    PartitionsReassigned(Vec<PartitionOutcome>),
    /// For each topic of the request, in its order.
    ReplicationFactorsChanged(TopicOutcomes<()>),
    /// For each partition of the request, in its order; for those that needed an election, if all were meant.
    LeadersElected(Vec<PartitionOutcome>),
    /// What was done.
    Tended(Tended),
    /// Whether brokers may be taken down; also the answer to who asked for a grant and does not get it.
    RestartJudged(RestartVerdict),
    /// The grant is open.
    GrantOpened(Grant),
}

/// A partition whose ISR was to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlteredPartition {
    /// Which topic.
    pub topic_id: TopicId,
    /// Which partition.
    pub partition: PartitionIndex,
    /// The state that it has now.
    pub outcome: Outcome<Arc<PartitionState>>,
}

/// What became of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionOutcome {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition.
    pub partition: PartitionIndex,
    /// What became of it.
    pub outcome: Outcome<()>,
}

/// What a run of the controller's own work did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tended {
    /// Leaders that were elected.
    pub elections: u32,
    /// Moves of partitions that were started.
    pub moves: u32,
    /// Partitions on draining brokers that no other broker can take.
    pub stuck: u32,
    /// Whether there is more to do than was allowed.
    pub is_unfinished: bool,
}

/// A topic that was created, or could be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Its id.
    pub id: TopicId,
    /// Its number of partitions.
    pub partitions: i32,
    /// How many replicas each has.
    pub replication_factor: i16,
}

/// A topic that was to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedTopic {
    /// Its name, if given or found.
    pub name: Option<Arc<str>>,
    /// Its id, if given or found; else zero.
    pub id: TopicId,
    /// What became of it.
    pub outcome: Outcome<()>,
}

/// A resource whose settings were to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlteredResource {
    /// Which one.
    pub resource: ConfigResource,
    /// What became of it.
    pub outcome: Outcome<()>,
}

/// Producer ids that belong to one broker alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerIdBlock {
    /// The first id.
    pub first: ProducerId,
    /// How many there are.
    pub count: i32,
}
