//! How a partition goes from one state to the next: the one place where leaders are chosen and epochs rise.
//!
//! The facts are those of Kafka's `PartitionChangeBuilder`, with eligible leader replicas (KIP-966). What differs:
//! - The last member of an ISR stays in it when it goes, without leading, unless others are as good as it. So a partition
//!   of one replica looks the same whether eligible replicas are known or not.
//! - Which replica may lack committed records is decided by nobody but a person, or the topic's
//!   `unclean.leader.election.enable`; the last leader is then preferred.

use crate::event::PartitionState;
use crate::ids::BrokerId;
use crate::planted::{PlantedBug, is_planted};

use super::topic_rules::TopicRules;

/// How far a leader is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Election {
    /// The present leader stays while it can; else any replica with all committed records.
    Online,
    /// The preferred leader, if it has all committed records; else as [`Election::Online`].
    Preferred,
    /// As [`Election::Online`], and rather a replica that may lack committed records than none.
    Unclean,
}

/// What a broker's disk has lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// What was not forced to it, perhaps: its machine went down without a clean stop.
    Tail,
    /// Everything: it is another disk.
    All,
}

/// A change in the making.
pub(super) struct PartitionChange<'a> {
    before: &'a PartitionState,
    after: PartitionState,
    min_in_sync: usize,
    election: Election,
    may_lead: &'a dyn Fn(BrokerId) -> bool,
    lost: Option<(BrokerId, Loss)>,
}

impl<'a> PartitionChange<'a> {
    /// No change yet. `may_lead` tells who could lead if it had the records.
    pub(super) fn new(before: &'a PartitionState, rules: TopicRules, may_lead: &'a dyn Fn(BrokerId) -> bool) -> Self {
        Self {
            before,
            after: before.clone(),
            min_in_sync: rules.min_in_sync,
            election: if rules.unclean { Election::Unclean } else { Election::Online },
            may_lead,
            lost: None,
        }
    }

    /// Takes `broker` out of the ISR.
    pub(super) fn without(mut self, broker: BrokerId) -> Self {
        self.after.isr.retain(|id| *id != broker);
        self
    }

    /// `broker` may lack committed records from now on. The only replica of a partition stays what it is when its tail may
    /// be gone: nobody has more than it.
    pub(super) fn lost(mut self, broker: BrokerId, loss: Loss) -> Self {
        if loss == Loss::Tail && self.before.replicas == [broker] {
            return self;
        }
        self.lost = Some((broker, loss));
        self.without(broker)
    }

    /// Gives the partition this ISR.
    pub(super) fn isr(mut self, isr: Vec<BrokerId>) -> Self {
        self.after.isr = isr;
        self
    }

    /// Gives the partition these replicas, of which some come and some go.
    pub(super) fn replicas(mut self, replicas: Vec<BrokerId>, adding: Vec<BrokerId>, removing: Vec<BrokerId>) -> Self {
        (self.after.replicas, self.after.adding, self.after.removing) = (replicas, adding, removing);
        self
    }

    /// The leader says whether it is still busy with what an unclean election takes.
    pub(super) fn recovering(mut self, recovering: bool) -> Self {
        self.after.recovering = recovering;
        self
    }

    /// Looks for a leader in this way, whatever the topic's settings say.
    pub(super) fn election(mut self, election: Election) -> Self {
        self.election = election;
        self
    }

    /// The state after the change; `None` if nothing changes.
    pub(super) fn build(mut self) -> Option<PartitionState> {
        self.complete_reassignment();
        self.keep_eligible();
        self.elect();
        self.tidy();
        let gone = self.before.replicas.iter().any(|id| !self.after.replicas.contains(id));
        let is_new_leadership = self.after.leader != self.before.leader || gone;
        if self.after == *self.before {
            return None;
        }
        // A replica that is none any more must not go on fetching, nor the leader go on counting it.
        self.after.leader_epoch += i32::from(is_new_leadership);
        self.after.partition_epoch += 1;
        Some(self.after)
    }

    /// Ends the reassignment when all replicas that are to stay are in sync.
    fn complete_reassignment(&mut self) {
        if !self.after.is_reassigning() {
            return;
        }
        let stays = |id: &BrokerId| !self.after.removing.contains(id);
        let isr: Vec<BrokerId> = self.after.isr.iter().copied().filter(stays).collect();
        let replicas = self.after.replicas_after();
        let are_in_sync = replicas.iter().all(|id| isr.contains(id)) || is_planted(PlantedBug::ReassignmentEndsEarly);
        if isr.is_empty() || replicas.is_empty() || !are_in_sync {
            return;
        }
        self.after.isr = isr;
        (self.after.replicas, self.after.adding, self.after.removing) = (replicas, Vec::new(), Vec::new());
    }

    /// Works out who has every committed record outside of the ISR: while the ISR is below its minimum nothing is
    /// committed, so whoever was in it, or was eligible, still is.
    fn keep_eligible(&mut self) {
        if self.after.isr.len() >= self.minimum() {
            return;
        }
        let (before, lost) = (self.before, self.lost);
        let is_lost = |id: BrokerId| lost.is_some_and(|(broker, _)| broker == id);
        let in_sync = self.after.isr.clone();
        let had_all = before.isr.iter().chain(&before.eligible).copied();
        let eligible: Vec<BrokerId> = had_all.clone().filter(|id| !in_sync.contains(id) && !is_lost(*id)).collect();
        if in_sync.is_empty() && eligible.len() == 1 && before.isr == eligible {
            // The last one: it stays where it is.
            self.after.isr = eligible;
            self.after.eligible.clear();
            return;
        }
        let is_wiped = |id: BrokerId| lost == Some((id, Loss::All));
        let mut last_known: Vec<BrokerId> = Vec::new();
        let last_leader = Some(before.leader).filter(|id| is_lost(*id));
        for id in last_leader.into_iter().chain(before.last_known.iter().copied()).chain(had_all) {
            let is_elsewhere = in_sync.contains(&id) || eligible.contains(&id) || last_known.contains(&id);
            if !is_elsewhere && !is_wiped(id) {
                last_known.push(id);
            }
        }
        self.after.eligible = eligible;
        self.after.last_known = last_known;
    }

    fn elect(&mut self) {
        let preferred = Some(self.after.preferred_leader()).filter(|_| self.election == Election::Preferred);
        let candidates = preferred.into_iter().chain([self.before.leader]).chain(self.after.replicas.iter().copied());
        let is_able = |id: BrokerId| self.after.replicas.contains(&id) && (self.may_lead)(id);
        let has_all = |id| self.after.has_all_committed(id) || is_planted(PlantedBug::LeaderOutsideIsr);
        let clean = candidates.into_iter().find(|id| has_all(*id) && is_able(*id));
        if let Some(leader) = clean {
            self.after.leader = leader;
            if !self.after.isr.contains(&leader) {
                self.after.isr = vec![leader];
                self.after.eligible.retain(|id| *id != leader);
            }
            return;
        }
        let unclean = match self.election {
            Election::Unclean => {
                let by_hope = self.after.last_known.iter().chain(&self.after.replicas).copied();
                by_hope.into_iter().find(|id| is_able(*id))
            }
            Election::Online | Election::Preferred => None,
        };
        let Some(leader) = unclean else {
            self.after.leader = BrokerId::NONE;
            return;
        };
        self.after.leader = leader;
        self.after.isr = vec![leader];
        self.after.eligible.clear();
        self.after.last_known.clear();
        self.after.recovering = true;
    }

    /// Keeps the lists in order: the ISR as the replicas stand, nobody who is no replica, and no eligible replicas once
    /// the ISR can commit without them.
    fn tidy(&mut self) {
        let after = &mut self.after;
        let place = |id: &BrokerId| after.replicas.iter().position(|replica| replica == id);
        after.isr.retain(|id| after.replicas.contains(id));
        after.isr.sort_by_key(place);
        after.eligible.retain(|id| after.replicas.contains(id));
        after.eligible.sort_by_key(place);
        after.last_known.retain(|id| after.replicas.contains(id));
        let minimum = after.min_in_sync(self.min_in_sync);
        if after.isr.len() >= minimum {
            after.eligible.clear();
            after.last_known.clear();
        }
    }

    fn minimum(&self) -> usize {
        self.after.min_in_sync(self.min_in_sync)
    }
}
