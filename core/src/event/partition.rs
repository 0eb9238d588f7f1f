//! Who keeps a partition, and who leads it.

use crate::ids::{BrokerId, LeaderEpoch};

/// The replicated facts about one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionState {
    /// Brokers that keep it, the preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// Those of them that have every committed record; in the order of `replicas`.
    pub isr: Vec<BrokerId>,
    /// The broker that leads it; [`BrokerId::NONE`] = nobody can.
    pub leader: BrokerId,
    /// Rises with every change of leader, and with every new life of a leader.
    pub leader_epoch: LeaderEpoch,
    /// Rises with every change of this state; fences proposals that were made from an older one.
    pub partition_epoch: i32,
}

impl PartitionState {
    /// A partition's first state: led by the first of `isr`.
    pub fn new(replicas: Vec<BrokerId>, isr: Vec<BrokerId>) -> Self {
        let leader = isr.first().copied().unwrap_or(BrokerId::NONE);
        Self { replicas, isr, leader, leader_epoch: 0, partition_epoch: 0 }
    }
}
