//! What the controller can be asked to do.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::replica_commands::{
    AlterPartition, ChangeReplicationFactor, CloseGrant, ElectLeaders, JudgeRestart, OpenGrant, ReassignPartitions,
    Tend,
};
use crate::event::{BrokerDuty, ConfigResource, FeatureRange, Listener};
use crate::ids::{BrokerId, PartitionIndex, TopicId, Uuid};

/// A request to the active controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Found the cluster; only whoever holds the one-time bootstrap grant sends it.
    CreateCluster {
        /// Identity that the cluster gets.
        cluster_id: Uuid,
    },
    /// A broker process starts: it is registered, fenced at first.
    RegisterBroker(RegisterBroker),
    /// A broker has caught up with the metadata and serves: it may lead.
    UnfenceBroker(BrokerIdentity),
    /// A broker is silent, or stops: others lead.
    FenceBroker(BrokerIdentity),
    /// A broker wants to stop: others lead, while it still serves.
    BeginShutdown(BrokerIdentity),
    /// A broker will never come back.
    UnregisterBroker {
        /// Which broker.
        broker: BrokerId,
    },
    /// Use a broker for everything, only for what it has, or for nothing any more.
    SetBrokerDuty {
        /// Which broker.
        broker: BrokerId,
        /// What for.
        duty: BrokerDuty,
    },
    /// Create topics, each on its own.
    CreateTopics(CreateTopics),
    /// Delete topics, each on its own.
    DeleteTopics(DeleteTopics),
    /// Add partitions to topics, each topic on its own.
    CreatePartitions(CreatePartitions),
    /// Change settings, each resource on its own.
    AlterConfigs(AlterConfigs),
    /// Give a broker the next block of producer ids.
    AllocateProducerIds(BrokerIdentity),
    /// Change who is in sync, as the leaders say.
    AlterPartition(AlterPartition),
    /// Move partitions to other brokers, each on its own.
    ReassignPartitions(ReassignPartitions),
    /// Change how many replicas topics have, each topic on its own.
    ChangeReplicationFactor(ChangeReplicationFactor),
    /// Elect leaders, each partition on its own.
    ElectLeaders(ElectLeaders),
    /// The active controller's own work.
    Tend(Tend),
    /// Ask whether brokers may be taken down.
    JudgeRestart(JudgeRestart),
    /// Ask for the permission to take brokers down.
    OpenGrant(OpenGrant),
    /// Give a permission back.
    CloseGrant(CloseGrant),
}

impl Command {
    /// How many fresh random ids carrying it out may take.
    pub fn ids_needed(&self) -> usize {
        match self {
            Self::CreateTopics(request) => request.topics.len(),
            _ => 0,
        }
    }

    /// Whether it can wait until the controllers' disks have room: it frees none, and what there is goes on without it.
    pub fn can_wait_for_room(&self) -> bool {
        match self {
            Self::CreateTopics(_)
            | Self::CreatePartitions(_)
            | Self::AlterConfigs(_)
            | Self::AllocateProducerIds(_)
            | Self::ReassignPartitions(_)
            | Self::ChangeReplicationFactor(_)
            | Self::Tend(_) => true,
            Self::CreateCluster { .. }
            | Self::RegisterBroker(_)
            | Self::UnfenceBroker(_)
            | Self::FenceBroker(_)
            | Self::BeginShutdown(_)
            | Self::UnregisterBroker { .. }
            | Self::SetBrokerDuty { .. }
            | Self::DeleteTopics(_)
            | Self::AlterPartition(_)
            | Self::ElectLeaders(_)
            | Self::JudgeRestart(_)
            | Self::OpenGrant(_)
            | Self::CloseGrant(_) => false,
        }
    }

    /// Whether it only asks what would happen.
    pub fn validate_only(&self) -> bool {
        match self {
            Self::CreateTopics(request) => request.validate_only,
            Self::CreatePartitions(request) => request.validate_only,
            Self::AlterConfigs(request) => request.validate_only,
            _ => false,
        }
    }
}

/// One life of a broker: commands of an earlier one are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BrokerIdentity {
    /// Number of the broker.
    pub id: BrokerId,
    /// Epoch that its registration got.
    pub epoch: i64,
}

/// A broker process introduces itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterBroker {
    /// Number of the broker.
    pub id: BrokerId,
    /// The cluster that its disks belong to; `None` on empty disks.
    pub cluster_id: Option<Uuid>,
    /// Identity of the process.
    pub incarnation: Uuid,
    /// Failure domain it runs in.
    pub rack: Option<Arc<str>>,
    /// Where it is reached.
    pub listeners: Vec<Listener>,
    /// Identities of its log directories.
    pub log_dirs: Vec<Uuid>,
    /// Features it can work with.
    pub features: BTreeMap<Arc<str>, FeatureRange>,
    /// Whether its disks may lack what was written last: it was not stopped cleanly, and the machine was started again (or
    /// the disks were mounted again) since. The plain death of a process loses nothing that the page cache has.
    pub unclean_shutdown: bool,
    /// The `min.insync.replicas` that it was started with, given or by default; `None` = it does not say.
    pub min_in_sync: Option<u32>,
}

/// Create topics (Kafka's CreateTopics).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CreateTopics {
    /// The topics.
    pub topics: Vec<NewTopic>,
    /// Only check.
    pub validate_only: bool,
}

/// A topic to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: Arc<str>,
    /// Number of partitions; -1 = the default, or as many as `assignments`.
    pub partitions: i32,
    /// Number of replicas of each; -1 = the default, or as `assignments` say.
    pub replication_factor: i16,
    /// Replicas chosen by the caller; empty = the controller chooses.
    pub assignments: Vec<ReplicaAssignment>,
    /// Explicit settings. A null value is refused, as in Kafka.
    pub configs: Vec<(Arc<str>, Option<Arc<str>>)>,
    /// The id that the topic has already, because its partitions are adopted from elsewhere; `None` = a fresh one.
    pub id: Option<TopicId>,
}

impl NewTopic {
    /// A topic with default partitions, replicas and settings.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            partitions: -1,
            replication_factor: -1,
            assignments: Vec::new(),
            configs: Vec::new(),
            id: None,
        }
    }

    /// The same with a number of partitions and of replicas.
    pub fn sized(name: impl Into<Arc<str>>, partitions: i32, replication_factor: i16) -> Self {
        Self { partitions, replication_factor, ..Self::new(name) }
    }
}

/// Replicas of one partition, chosen by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaAssignment {
    /// Number of the partition.
    pub partition: PartitionIndex,
    /// Its brokers, the preferred leader first.
    pub replicas: Vec<BrokerId>,
}

/// Delete topics (Kafka's DeleteTopics).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeleteTopics {
    /// The topics.
    pub topics: Vec<TopicRef>,
}

/// A topic by name or by id, as the caller gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicRef {
    /// Its name, if given.
    pub name: Option<Arc<str>>,
    /// Its id; zero = not given.
    pub id: TopicId,
}

impl TopicRef {
    /// A topic by name.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self { name: Some(name.into()), id: Uuid::ZERO }
    }

    /// A topic by id.
    pub fn identified(id: TopicId) -> Self {
        Self { name: None, id }
    }
}

/// Add partitions (Kafka's CreatePartitions).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CreatePartitions {
    /// The topics that grow.
    pub topics: Vec<NewPartitions>,
    /// Only check.
    pub validate_only: bool,
}

/// A topic that is to have more partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPartitions {
    /// Name of the topic.
    pub name: Arc<str>,
    /// How many partitions it is to have in all.
    pub count: i32,
    /// Replicas of each new partition, chosen by the caller; `None` = the controller chooses.
    pub assignments: Option<Vec<Vec<BrokerId>>>,
}

/// Change settings (Kafka's IncrementalAlterConfigs and AlterConfigs).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlterConfigs {
    /// The resources whose settings change.
    pub resources: Vec<ConfigAlteration>,
    /// Only check.
    pub validate_only: bool,
}

/// Changes to one resource's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigAlteration {
    /// Whose settings.
    pub resource: ConfigResource,
    /// What changes.
    pub changes: ConfigChanges,
}

/// How settings change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigChanges {
    /// Only what is named changes (IncrementalAlterConfigs, KIP-339).
    Incremental(Vec<ConfigOperation>),
    /// What is not named goes back to its default (AlterConfigs).
    Replace(Vec<(Arc<str>, Option<Arc<str>>)>),
}

/// One incremental change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigOperation {
    /// Name of the setting.
    pub name: Arc<str>,
    /// What to do.
    pub op: ConfigOp,
    /// The value to do it with; not used by [`ConfigOp::Delete`].
    pub value: Option<Arc<str>>,
}

/// What an incremental change does (Kafka's `AlterConfigOp.OpType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigOp {
    /// Sets the value.
    Set,
    /// Takes the explicit value away.
    Delete,
    /// Adds items to a list.
    Append,
    /// Takes items out of a list.
    Subtract,
}

impl ConfigOp {
    /// Kafka's number of it.
    pub fn code(self) -> i8 {
        match self {
            Self::Set => 0,
            Self::Delete => 1,
            Self::Append => 2,
            Self::Subtract => 3,
        }
    }

    /// The operation that Kafka gives `code`.
    pub fn from_code(code: i8) -> Option<Self> {
        [Self::Set, Self::Delete, Self::Append, Self::Subtract].into_iter().find(|it| it.code() == code)
    }
}
