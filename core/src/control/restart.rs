//! May these brokers be taken down? A pure function of the committed state and of what leaders report.
//!
//! A partition stands in the way if it would have fewer replicas in sync than its minimum without these brokers: acks=all
//! would fail, or worse. One whose replicas are no more than its minimum can never pass that test; the cluster's policy
//! says whether it blocks or is only listed. A broker that is in no ISR any more may always go: nothing depends on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::topic_rules::DefaultRules;
use crate::event::{Grant, PartitionState};
use crate::ids::{BrokerId, Offset, PartitionIndex, TopicId};
use crate::image::{MetadataImage, PartitionKey};

/// Partitions that a verdict names at most on each of its lists; all are counted.
pub const LISTED_PARTITIONS_MAX: usize = 100;

/// What one leader says of the partitions that it leads: who is behind in each of them.
pub type LagReport = Vec<(TopicId, PartitionIndex, Vec<FollowerLag>)>;

/// Partitions that a broker reports on at once, at most; others have their turn with the next report.
pub const REPORTED_PARTITIONS_MAX: usize = 1_000;

/// How far the followers are behind, as their leaders last said. Known to the active controller, in memory.
#[derive(Debug, Clone, Default)]
pub struct Lags {
    partitions: BTreeMap<PartitionKey, Vec<FollowerLag>>,
}

/// How far one follower is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerLag {
    /// The follower.
    pub broker: BrokerId,
    /// Records that the leader has and it has not.
    pub records: Offset,
}

impl Lags {
    /// The leader of `partition` says how far its followers are behind; replaces what was said before. An empty list, which
    /// says that nobody is, takes no room.
    pub fn report(&mut self, partition: PartitionKey, lags: Vec<FollowerLag>) {
        if lags.is_empty() {
            self.partitions.remove(&partition);
        } else {
            self.partitions.insert(partition, lags);
        }
    }

    /// Forgets partitions that are not there any more, and those where nobody is out of sync: nobody asks about them.
    pub fn retain_known(&mut self, image: &MetadataImage) {
        let is_behind = |state: &Arc<PartitionState>| state.isr.len() < state.replicas.len();
        self.partitions.retain(|key, _| image.partition(*key).is_some_and(is_behind));
    }

    /// How many records `broker` is behind; `None` = nobody has said.
    pub fn of(&self, partition: PartitionKey, broker: BrokerId) -> Option<Offset> {
        self.partitions.get(&partition)?.iter().find(|lag| lag.broker == broker).map(|lag| lag.records)
    }
}

/// What counts for partitions whose replicas are no more than their minimum (`smallRfPolicy` of the Cluster resource).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SmallPartitions {
    /// They are listed, and stop for as long as the broker is away.
    #[default]
    Warn,
    /// They block.
    Block,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestartVerdict {
    /// Metadata offset that the answer is true of.
    pub offset: i64,
    /// The brokers that were asked about and are not registered.
    pub unknown: Vec<BrokerId>,
    /// The grant of somebody else that is open, if there is one.
    pub grant: Option<Arc<Grant>>,
    /// How many partitions stand in the way.
    pub blocking_count: usize,
    /// The first [`LISTED_PARTITIONS_MAX`] of them.
    pub blocking: Vec<AffectedPartition>,
    /// How many partitions stop meanwhile because their replicas are no more than their minimum.
    pub small_count: usize,
    /// The first [`LISTED_PARTITIONS_MAX`] of them.
    pub small: Vec<AffectedPartition>,
}

impl RestartVerdict {
    /// Whether the brokers may go.
    pub fn is_yes(&self) -> bool {
        self.unknown.is_empty() && self.grant.is_none() && self.blocking_count == 0
    }
}

/// A partition that would have too few replicas in sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AffectedPartition {
    /// Name of its topic.
    pub topic: Arc<str>,
    /// Its number.
    pub partition: PartitionIndex,
    /// Who leads it; [`BrokerId::NONE`] = nobody.
    pub leader: BrokerId,
    /// Who is in sync.
    pub isr: Vec<BrokerId>,
    /// How many must be, by the strictest of the brokers where they differ.
    pub min_in_sync: usize,
    /// Replicas that are not in sync, of those that would stay.
    pub behind: Vec<Behind>,
}

/// A replica that is not in sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// Which broker.
    pub broker: BrokerId,
    /// Whether it is fenced, or not registered at all.
    pub is_away: bool,
    /// Records that it lacks, as its leader last said; `None` = not known.
    pub records: Option<Offset>,
}

/// May `brokers` be taken down together? Without any, what stands in the way is what has too few replicas in sync already.
pub(super) fn judge(
    image: &MetadataImage,
    brokers: &BTreeSet<BrokerId>,
    policy: SmallPartitions,
    rules: DefaultRules,
    lags: &Lags,
) -> RestartVerdict {
    let mut verdict = RestartVerdict {
        offset: image.offset(),
        unknown: brokers.iter().copied().filter(|id| image.broker(*id).is_none()).collect(),
        ..RestartVerdict::default()
    };
    let index = image.replica_index();
    let concerned: BTreeSet<PartitionKey> = if brokers.is_empty() {
        let all = image.topics().iter().flat_map(|topic| topic.numbered().map(|(partition, _)| (topic.id, partition)));
        all.collect()
    } else {
        brokers.iter().flat_map(|id| index.hosted_by(*id)).collect()
    };
    let mut rules_of = rules.in_a_row();
    for key in concerned {
        let Some(topic) = image.topic_by_id(key.0) else { continue };
        let Some(state) = topic.partition(key.1) else { continue };
        let min_in_sync = state.min_in_sync(rules_of(image, topic).strictest_min_in_sync);
        let stays = |id: &&BrokerId| !brokers.contains(id);
        let goes = brokers.is_empty() || state.isr.iter().any(|id| brokers.contains(id));
        if !goes || state.isr.iter().filter(stays).count() >= min_in_sync {
            continue;
        }
        let is_small = state.replicas.len() <= min_in_sync;
        let (count, list) = if is_small && policy == SmallPartitions::Warn {
            (&mut verdict.small_count, &mut verdict.small)
        } else {
            (&mut verdict.blocking_count, &mut verdict.blocking)
        };
        *count += 1;
        if list.len() < LISTED_PARTITIONS_MAX {
            list.push(AffectedPartition {
                topic: Arc::clone(&topic.name),
                partition: key.1,
                leader: state.leader,
                isr: state.isr.clone(),
                min_in_sync,
                behind: behind(image, key, state, brokers, lags),
            });
        }
    }
    verdict
}

fn behind(
    image: &MetadataImage,
    key: PartitionKey,
    state: &PartitionState,
    brokers: &BTreeSet<BrokerId>,
    lags: &Lags,
) -> Vec<Behind> {
    let is_behind = |id: &&BrokerId| !state.isr.contains(id) && !brokers.contains(id);
    let behind = |id: &BrokerId| Behind { broker: *id, is_away: !image.is_active(*id), records: lags.of(key, *id) };
    state.replicas.iter().filter(is_behind).map(behind).collect()
}
