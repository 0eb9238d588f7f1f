//! What the controller can be asked about brokers and replicas.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{BrokerIdentity, SmallPartitions};
use crate::ids::{BrokerId, LeaderEpoch, PartitionIndex, TopicId};

/// A leader changes the ISR of partitions that it leads (Kafka's AlterPartition).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterPartition {
    /// The leader.
    pub broker: BrokerIdentity,
    /// The changes, each judged on its own.
    pub partitions: Vec<IsrChange>,
}

/// The ISR that a partition is to have.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IsrChange {
    /// Which topic.
    pub topic_id: TopicId,
    /// Which partition.
    pub partition: PartitionIndex,
    /// Epoch that the leader leads under.
    pub leader_epoch: LeaderEpoch,
    /// Epoch of the state that the change was made from.
    pub partition_epoch: i32,
    /// The members, with the epochs that they showed when they fetched; -1 = any. The leader is among them.
    pub isr: Vec<BrokerIdentity>,
    /// Whether the leader is not done yet with what an unclean election takes.
    pub recovering: bool,
}

/// Move partitions (Kafka's AlterPartitionReassignments).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReassignPartitions {
    /// The partitions, each judged on its own.
    pub partitions: Vec<Reassignment>,
    /// Whether a partition may get another number of replicas than it has (KIP-860).
    pub allow_replication_factor_change: bool,
}

/// Where a partition is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reassignment {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition.
    pub partition: PartitionIndex,
    /// Its brokers, the preferred leader first; `None` = the move that is under way is cancelled.
    pub replicas: Option<Vec<BrokerId>>,
}

/// Give topics another number of replicas, on brokers that the controller chooses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeReplicationFactor {
    /// Topics by name, with the number of replicas that each partition is to have.
    pub topics: Vec<(Arc<str>, i16)>,
}

/// Elect leaders (Kafka's ElectLeaders).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectLeaders {
    /// Which leaders.
    pub kind: ElectionKind,
    /// Partitions by their topics' names; `None` = all.
    pub partitions: Option<Vec<(Arc<str>, PartitionIndex)>>,
}

/// Which leader an election is for (Kafka's `ElectionType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElectionKind {
    /// The first replica, if it is in sync.
    Preferred,
    /// Any replica, even one that may lack committed records, where nobody leads.
    Unclean,
}

impl ElectionKind {
    /// Kafka's number of it.
    pub fn code(self) -> i8 {
        match self {
            Self::Preferred => 0,
            Self::Unclean => 1,
        }
    }

    /// The kind that Kafka gives `code`.
    pub fn from_code(code: i8) -> Option<Self> {
        [Self::Preferred, Self::Unclean].into_iter().find(|it| it.code() == code)
    }
}

/// Do what is due of the active controller's own work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tend {
    /// Give leadership back to preferred leaders, and elect where a topic takes any leader.
    pub leaders: bool,
    /// Move replicas off draining brokers, and give internal topics their replicas.
    pub replicas: bool,
    /// Elections of this run, and moves under way at the same time, at most.
    pub changes_max: u32,
}

/// May these brokers be taken down? Changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JudgeRestart {
    /// The brokers, all at once. None = which partitions have too few replicas in sync as it is.
    pub brokers: BTreeSet<BrokerId>,
    /// What counts for partitions with few replicas.
    pub policy: SmallPartitions,
}

/// Ask for the permission to take brokers down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenGrant {
    /// The brokers, all at once.
    pub brokers: BTreeSet<BrokerId>,
    /// Epoch of the operator: rises with every change of the one that leads.
    pub operator_epoch: i64,
    /// How long the permission is needed.
    pub duration_ms: i64,
    /// What counts for partitions with few replicas.
    pub policy: SmallPartitions,
}

/// Give a permission back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseGrant {
    /// Number of the grant.
    pub id: i64,
    /// Epoch of the operator.
    pub operator_epoch: i64,
}
