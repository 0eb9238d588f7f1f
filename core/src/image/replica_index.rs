//! Which partitions concern a broker, and which need attention: found without a look at all of them.
//!
//! Everything here follows from the partitions' states and is kept up with every change of one, at a cost in proportion
//! to the change. A broker's partitions are kept by topic, as rising numbers, so a cluster with 100,000 partitions needs
//! some hundred kilobytes for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use super::TopicImage;
use crate::event::PartitionState;
use crate::ids::{BrokerId, PartitionIndex, TopicId};

/// A partition by its topic's id.
pub type PartitionKey = (TopicId, PartitionIndex);

/// How much of the cluster a broker carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BrokerLoad {
    /// Partitions that it keeps a replica of.
    pub replicas: usize,
    /// Partitions whose preferred leader it is.
    pub preferred: usize,
    /// Partitions that it leads.
    pub leads: usize,
}

impl BrokerLoad {
    fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// The index over all partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaIndex {
    hosted: RedBlackTreeMapSync<(BrokerId, TopicId), Arc<Vec<PartitionIndex>>>,
    leaderless: RedBlackTreeSetSync<PartitionKey>,
    reassigning: RedBlackTreeSetSync<PartitionKey>,
    not_preferred: RedBlackTreeSetSync<PartitionKey>,
    loads: Arc<BTreeMap<BrokerId, BrokerLoad>>,
}

impl Default for ReplicaIndex {
    fn default() -> Self {
        Self {
            hosted: RedBlackTreeMapSync::new_sync(),
            leaderless: RedBlackTreeSetSync::new_sync(),
            reassigning: RedBlackTreeSetSync::new_sync(),
            not_preferred: RedBlackTreeSetSync::new_sync(),
            loads: Arc::default(),
        }
    }
}

impl ReplicaIndex {
    /// The partitions that `broker` keeps a replica of, by topic id and number.
    pub fn hosted_by(&self, broker: BrokerId) -> impl Iterator<Item = PartitionKey> + '_ {
        let all = (broker, TopicId::ZERO)..=(broker, TopicId::MAX);
        self.hosted
            .range(all)
            .flat_map(|((_, topic), partitions)| partitions.iter().map(|partition| (*topic, *partition)))
    }

    /// What `broker` carries.
    pub fn load(&self, broker: BrokerId) -> BrokerLoad {
        self.loads.get(&broker).copied().unwrap_or_default()
    }

    /// Partitions that nobody leads.
    pub fn leaderless(&self) -> impl Iterator<Item = PartitionKey> + '_ {
        self.leaderless.iter().copied()
    }

    /// How many partitions nobody leads.
    pub fn leaderless_count(&self) -> usize {
        self.leaderless.size()
    }

    /// Partitions whose replicas are being changed.
    pub fn reassigning(&self) -> impl Iterator<Item = PartitionKey> + '_ {
        self.reassigning.iter().copied()
    }

    /// How many partitions' replicas are being changed.
    pub fn reassigning_count(&self) -> usize {
        self.reassigning.size()
    }

    /// Partitions that somebody else than their preferred leader leads.
    pub fn not_preferred(&self) -> impl Iterator<Item = PartitionKey> + '_ {
        self.not_preferred.iter().copied()
    }

    /// How many partitions somebody else than their preferred leader leads.
    pub fn not_preferred_count(&self) -> usize {
        self.not_preferred.size()
    }

    /// Takes note of a partition's state: `before` is what it was, `None` for a new one.
    pub(super) fn change(&mut self, key: PartitionKey, before: Option<&PartitionState>, after: &PartitionState) {
        if before.is_none_or(|before| before.replicas != after.replicas) {
            let old = before.map_or(&[][..], |before| &before.replicas);
            old.iter().filter(|id| !after.replicas.contains(id)).for_each(|id| self.forget(*id, key));
            after.replicas.iter().filter(|id| !old.contains(id)).for_each(|id| self.host(*id, key));
        }
        self.count(before, Some(after));
        self.classify(key, Some(after));
    }

    /// Forgets all partitions of a topic that is deleted.
    pub(super) fn delete(&mut self, topic: &TopicImage) {
        for (partition, state) in topic.numbered() {
            self.count(Some(state), None);
            self.classify((topic.id, partition), None);
        }
        let brokers: BTreeSet<BrokerId> = topic.partitions.iter().flat_map(|it| it.replicas.iter().copied()).collect();
        for broker in brokers {
            self.hosted.remove_mut(&(broker, topic.id));
        }
    }

    fn host(&mut self, broker: BrokerId, (topic, partition): PartitionKey) {
        if let Some(partitions) = self.hosted.get_mut(&(broker, topic)) {
            if let Err(place) = partitions.binary_search(&partition) {
                Arc::make_mut(partitions).insert(place, partition);
            }
        } else {
            self.hosted.insert_mut((broker, topic), Arc::new(vec![partition]));
        }
    }

    fn forget(&mut self, broker: BrokerId, (topic, partition): PartitionKey) {
        let Some(partitions) = self.hosted.get_mut(&(broker, topic)) else { return };
        if let Ok(place) = partitions.binary_search(&partition) {
            Arc::make_mut(partitions).remove(place);
        }
        if partitions.is_empty() {
            self.hosted.remove_mut(&(broker, topic));
        }
    }

    fn count(&mut self, before: Option<&PartitionState>, after: Option<&PartitionState>) {
        let same = |it: fn(&PartitionState) -> BrokerId| before.map(it) == after.map(it);
        if same(|it| it.leader) && before.map(|it| &it.replicas) == after.map(|it| &it.replicas) {
            return;
        }
        let loads = Arc::make_mut(&mut self.loads);
        for (state, step) in [(before, -1), (after, 1)] {
            let Some(state) = state else { continue };
            for id in &state.replicas {
                let load = loads.entry(*id).or_default();
                load.replicas = load.replicas.saturating_add_signed(step);
            }
            let preferred = loads.entry(state.preferred_leader()).or_default();
            preferred.preferred = preferred.preferred.saturating_add_signed(step);
            let leader = loads.entry(state.leader).or_default();
            leader.leads = leader.leads.saturating_add_signed(step);
        }
        let touched = before.into_iter().chain(after).flat_map(|it| it.replicas.iter().copied().chain([it.leader]));
        for id in touched {
            if loads.get(&id).is_some_and(|load| load.is_nothing()) {
                loads.remove(&id);
            }
        }
    }

    fn classify(&mut self, key: PartitionKey, state: Option<&PartitionState>) {
        let is = |test: fn(&PartitionState) -> bool| state.is_some_and(test);
        put(&mut self.leaderless, key, is(|it| !it.has_leader()));
        put(&mut self.reassigning, key, is(PartitionState::is_reassigning));
        put(&mut self.not_preferred, key, is(|it| it.has_leader() && it.leader != it.preferred_leader()));
    }
}

/// Makes `key` a member of `set`, or none. Looks first: most changes of a partition change nothing here.
fn put(set: &mut RedBlackTreeSetSync<PartitionKey>, key: PartitionKey, is_member: bool) {
    match (set.contains(&key), is_member) {
        (false, true) => set.insert_mut(key),
        (true, false) => {
            set.remove_mut(&key);
        }
        _ => {}
    }
}
