//! Who keeps a partition, and who leads it.

use crate::ids::{BrokerId, LeaderEpoch};

/// The replicated facts about one partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartitionState {
    /// Brokers that keep it, the preferred leader first; those that come and those that go (see `adding` and `removing`)
    /// are among them.
    pub replicas: Vec<BrokerId>,
    /// Those of them that have every committed record; in the order of `replicas`. Empty only when nobody leads.
    pub isr: Vec<BrokerId>,
    /// The broker that leads it, which is in the ISR; [`BrokerId::NONE`] = nobody can.
    pub leader: BrokerId,
    /// Rises with every change of leader, and with every new life of a leader.
    pub leader_epoch: LeaderEpoch,
    /// Rises with every change of this state; fences proposals that were made from an older one.
    pub partition_epoch: i32,
    /// Replicas that a reassignment adds: it is done when all of them are in sync.
    pub adding: Vec<BrokerId>,
    /// Replicas that a reassignment takes away when it is done.
    pub removing: Vec<BrokerId>,
    /// Replicas outside of the ISR that have every committed record all the same, because nothing was committed since they
    /// left: the ISR has been below its minimum (KIP-966). They may lead when the ISR is empty.
    pub eligible: Vec<BrokerId>,
    /// Replicas that were in the ISR when it fell below its minimum and are not known to have every committed record any
    /// more; the last leader first. The best to choose from when somebody asks for an unclean election.
    pub last_known: Vec<BrokerId>,
    /// Whether the leader came from outside of those known to have every committed record, and has not said yet that it is
    /// done with what that takes (KIP-704).
    pub recovering: bool,
}

impl PartitionState {
    /// Whether replicas are out of sync. Those on their way here do not count, as in Kafka.
    pub fn is_under_replicated(&self) -> bool {
        self.replicas.iter().any(|id| !self.isr.contains(id) && !self.adding.contains(id))
    }

    /// A partition's first state: led by the first of `isr`.
    pub fn new(replicas: Vec<BrokerId>, isr: Vec<BrokerId>) -> Self {
        let leader = isr.first().copied().unwrap_or(BrokerId::NONE);
        Self {
            replicas,
            isr,
            leader,
            leader_epoch: 0,
            partition_epoch: 0,
            adding: Vec::new(),
            removing: Vec::new(),
            eligible: Vec::new(),
            last_known: Vec::new(),
            recovering: false,
        }
    }

    /// Whether somebody leads it.
    pub fn has_leader(&self) -> bool {
        self.leader != BrokerId::NONE
    }

    /// The replica that leads when all are in sync.
    pub fn preferred_leader(&self) -> BrokerId {
        self.replicas.first().copied().unwrap_or(BrokerId::NONE)
    }

    /// Whether its replicas are being changed.
    pub fn is_reassigning(&self) -> bool {
        !self.adding.is_empty() || !self.removing.is_empty()
    }

    /// The replicas that it had before the reassignment that is under way.
    pub fn replicas_before(&self) -> Vec<BrokerId> {
        self.replicas.iter().copied().filter(|id| !self.adding.contains(id)).collect()
    }

    /// The replicas that it will have after the reassignment that is under way.
    pub fn replicas_after(&self) -> Vec<BrokerId> {
        self.replicas.iter().copied().filter(|id| !self.removing.contains(id)).collect()
    }

    /// How many replicas must be in sync for anything to be committed, if `configured` is the topic's
    /// `min.insync.replicas`: no more than there are. Replicas that are still being added do not count, so that raising
    /// the number of replicas does not stop producers.
    pub fn min_in_sync(&self, configured: usize) -> usize {
        let settled = self.replicas.iter().filter(|id| !self.adding.contains(id)).count();
        configured.min(settled).max(1)
    }

    /// Whether `broker` has every committed record, and may lead as soon as it serves: it is in the ISR, or among the
    /// eligible when the ISR is empty.
    pub fn has_all_committed(&self, broker: BrokerId) -> bool {
        self.isr.contains(&broker) || (self.isr.is_empty() && self.eligible.contains(&broker))
    }
}
