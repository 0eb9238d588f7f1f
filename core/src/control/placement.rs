//! Where replicas go.
//!
//! Every choice is the least loaded broker: preferred leaders go by how many partitions a broker is the preferred leader
//! of, followers first to a rack that has fewest replicas of the partition, then by how many replicas a broker has. Equals
//! are taken in turn, one step further for every partition that the leader has already, so that the load of a lost leader
//! falls on all others. The same image gives the same placement; what was placed before is counted, never moved.
//!
//! Brokers that are fenced only fill up; those that are about to stop, cordoned or draining get nothing.

use std::cmp::Reverse;
use std::sync::Arc;

use super::ControlError;
use crate::errors::ErrorCode;
use crate::event::BrokerDuty;
use crate::ids::BrokerId;
use crate::image::{BrokerLoad, MetadataImage};

/// Replicas for `count` new partitions with `replication_factor` replicas each: for each partition the brokers, the
/// preferred leader first.
///
/// # Errors
/// INVALID_REPLICATION_FACTOR with Kafka's text, when the brokers are too few or all fenced.
pub(super) fn place(
    image: &MetadataImage,
    count: usize,
    replication_factor: i16,
) -> Result<Vec<Vec<BrokerId>>, ControlError> {
    let refuse = |why: String| {
        let text = format!("Unable to replicate the partition {replication_factor} time(s): {why}");
        ControlError::new(ErrorCode::InvalidReplicationFactor, text)
    };
    let wanted = usize::try_from(replication_factor).unwrap_or_default();
    if wanted == 0 {
        return Err(refuse(format!(
            "Invalid replication factor {replication_factor}: the replication factor must be positive."
        )));
    }
    let mut placer = Placer::new(image);
    if placer.brokers.iter().all(|broker| !broker.is_active) {
        return Err(refuse("All brokers are currently fenced.".to_owned()));
    }
    let usable = placer.brokers.len();
    if wanted > usable {
        return Err(refuse(format!(
            "The target replication factor of {replication_factor} cannot be reached because only {usable} \
             broker(s) are registered."
        )));
    }
    Ok((0..count).map(|_| placer.place(wanted)).collect())
}

/// A broker that may get replicas.
struct Candidate {
    id: BrokerId,
    rack: Option<Arc<str>>,
    is_active: bool,
    load: BrokerLoad,
}

/// Chooses brokers, and counts what it has chosen.
pub(super) struct Placer {
    /// By id.
    brokers: Vec<Candidate>,
}

impl Placer {
    pub(super) fn new(image: &MetadataImage) -> Self {
        let usable =
            image.brokers().values().filter(|it| !it.shutting_down && image.duty(it.id) == BrokerDuty::Serving);
        let candidate = |it: &Arc<crate::event::BrokerRegistration>| Candidate {
            id: it.id,
            rack: it.rack.clone(),
            is_active: !it.fenced,
            load: image.replica_index().load(it.id),
        };
        Self { brokers: usable.map(candidate).collect() }
    }

    /// Replicas for one new partition. There must be an active broker, and enough in all.
    fn place(&mut self, replication_factor: usize) -> Vec<BrokerId> {
        let load = |broker: &Candidate| (broker.load.preferred, broker.load.replicas, broker.id);
        let active = self.brokers.iter_mut().filter(|broker| broker.is_active);
        let Some(leader) = active.min_by_key(|broker| load(broker)) else { return Vec::new() };
        leader.load.preferred += 1;
        leader.load.replicas += 1;
        let mut replicas = vec![leader.id];
        while replicas.len() < replication_factor {
            let Some(follower) = self.add(&replicas, &replicas, false) else { break };
            replicas.push(follower);
        }
        replicas
    }

    /// One more replica for a partition that has `replicas`, on a broker that is not among `taken`. `only_active` leaves
    /// out brokers that are fenced at the moment. `None` = there is no such broker.
    pub(super) fn add(&mut self, replicas: &[BrokerId], taken: &[BrokerId], only_active: bool) -> Option<BrokerId> {
        let position =
            |id: Option<&BrokerId>| id.and_then(|id| self.brokers.iter().position(|broker| broker.id == *id));
        let leader = position(replicas.first()).unwrap_or_default();
        let turn = self.brokers.get(leader).map_or(0, |broker| broker.load.preferred);
        let count = self.brokers.len();
        let racks: Vec<&Option<Arc<str>>> =
            self.brokers.iter().filter(|broker| replicas.contains(&broker.id)).map(|broker| &broker.rack).collect();
        // Brokers that say nothing of a rack count as one each.
        let in_rack = |rack: &Option<Arc<str>>| racks.iter().filter(|other| rack.is_some() && **other == rack).count();
        let (_, chosen) = self
            .brokers
            .iter()
            .enumerate()
            .filter(|(_, broker)| !taken.contains(&broker.id) && (broker.is_active || !only_active))
            .map(|(index, broker)| {
                let steps = (index + count - leader + turn) % count;
                let key = (Reverse(broker.is_active), in_rack(&broker.rack), broker.load.replicas, steps);
                (key, index)
            })
            .min()?;
        let chosen = &mut self.brokers[chosen];
        chosen.load.replicas += 1;
        Some(chosen.id)
    }

    /// The replica of `replicas` that can best be spared: never the first, from the fullest rack, from the most loaded
    /// broker; brokers that are fenced, or get nothing any more, go first.
    pub(super) fn spare(&mut self, replicas: &[BrokerId]) -> Option<BrokerId> {
        let known = |id: &BrokerId| self.brokers.iter().find(|broker| broker.id == *id);
        let rack = |id: &BrokerId| known(id).and_then(|broker| broker.rack.as_ref());
        let in_rack =
            |id: &BrokerId| replicas.iter().filter(|other| rack(id).is_some() && rack(other) == rack(id)).count();
        let key = |id: &BrokerId| {
            let is_good = known(id).is_some_and(|broker| broker.is_active);
            (Reverse(is_good), in_rack(id), known(id).map_or(0, |broker| broker.load.replicas), *id)
        };
        let spared = replicas.iter().skip(1).max_by_key(|id| key(id)).copied()?;
        if let Some(broker) = self.brokers.iter_mut().find(|broker| broker.id == spared) {
            broker.load.replicas = broker.load.replicas.saturating_sub(1);
        }
        Some(spared)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn placer(racks: &[Option<&str>]) -> Placer {
        let candidate = |(id, rack): (i32, &Option<&str>)| Candidate {
            id: BrokerId(id),
            rack: rack.map(Into::into),
            is_active: true,
            load: BrokerLoad::default(),
        };
        Placer { brokers: (0..).zip(racks).map(candidate).collect() }
    }

    #[test]
    fn leaders_and_followers_are_spread_evenly() {
        for brokers in [3, 5, 7] {
            let mut placer = placer(&vec![None; brokers]);
            let mut followers_of = vec![BTreeSet::new(); brokers];
            for _ in 0..brokers * 20 {
                let placed = placer.place(3);
                assert_eq!(placed.iter().collect::<BTreeSet<_>>().len(), 3, "{placed:?}");
                followers_of[placed[0].0 as usize].extend(placed[1..].iter().copied());
            }
            for broker in &placer.brokers {
                assert_eq!(broker.load.preferred, 20, "broker {}", broker.id);
                assert!((59..=61).contains(&broker.load.replicas), "broker {}: {:?}", broker.id, broker.load);
                let heirs = &followers_of[broker.id.0 as usize];
                assert_eq!(heirs.len(), brokers - 1, "the load of {} falls on {heirs:?}", broker.id);
            }
        }
    }

    #[test]
    fn replicas_of_a_partition_are_in_as_many_racks_as_there_are() {
        let cases: [(&[Option<&str>], usize, usize); 4] = [
            (&[Some("a"), Some("a"), Some("b"), Some("b"), Some("c"), Some("c")], 3, 3),
            (&[Some("a"), Some("a"), Some("a"), Some("b"), Some("b"), Some("c")], 3, 3),
            (&[Some("a"), Some("a"), Some("a"), Some("b")], 3, 2),
            (&[Some("a"), Some("b")], 2, 2),
        ];
        for (racks, replication_factor, expected) in cases {
            let mut placer = placer(racks);
            for _ in 0..30 {
                let placed = placer.place(replication_factor);
                let distinct: BTreeSet<_> = placed.iter().map(|id| racks[id.0 as usize]).collect();
                assert_eq!(distinct.len(), expected, "{racks:?}: {placed:?}");
            }
            let leaders: Vec<usize> = placer.brokers.iter().map(|broker| broker.load.preferred).collect();
            let (least, most) = (leaders.iter().min(), leaders.iter().max());
            assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{racks:?}: {leaders:?}");
        }
    }

    #[test]
    fn fenced_brokers_only_fill_up() {
        let mut placer = placer(&[None, None, Some("far"), Some("far")]);
        placer.brokers[2].is_active = false;
        placer.brokers[3].is_active = false;
        let placed = placer.place(3);
        assert_eq!(placed[..2], [BrokerId(0), BrokerId(1)]);
        assert_eq!(placer.add(&placed[..2], &placed[..2], true), None);
    }

    #[test]
    fn the_replica_that_is_spared_is_never_the_preferred_leader() {
        let mut placer = placer(&[Some("a"), Some("a"), Some("b"), Some("c")]);
        let replicas = [0, 1, 2].map(BrokerId);
        assert_eq!(placer.spare(&replicas), Some(BrokerId(1)), "two are in one rack");
        placer.brokers[3].is_active = false;
        assert_eq!(placer.spare(&[0, 3, 2].map(BrokerId)), Some(BrokerId(3)), "one is fenced");
        assert_eq!(placer.spare(&[BrokerId(0)]), None);
    }
}
