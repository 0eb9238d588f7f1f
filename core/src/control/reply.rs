//! What the controller answers.

use std::sync::Arc;

use super::ControlError;
use crate::event::ConfigResource;
use crate::ids::{ProducerId, TopicId};

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
