//! How far groups are behind: read by their coordinator, when somebody asks.
//!
//! First the committed offsets, then the ends of the logs from their leaders, this broker or others: the other way round, a
//! group that reads fast would seem to be ahead of the log. Each leader is asked for all its partitions at once, with the
//! offsets whose records' age is wanted, so that lag in seconds comes from where the records are. A leader that does not
//! answer in time leaves its partitions out; nothing is made up for them.

mod leader;
mod peers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use taffrail_core::group::{CommittedOffset, Group, GroupShard, GroupState, GroupStats, consumer_protocol};
use taffrail_core::ids::{BrokerId, Offset, PartitionIndex, TopicId, Uuid};
use taffrail_core::image::{MetadataImage, PartitionKey};
use taffrail_protocol::unread::{Age, OFFSETS_MAX};
use taffrail_runtime::time;
use tokio::sync::Mutex;

use crate::broker::Broker;
use crate::coordinator::GroupCoordinator;
pub(crate) use leader::unread;
use peers::{Asked, Ends};

/// Who asks again sooner is given the same answer.
pub(crate) const FRESH_FOR: Duration = Duration::from_millis(500);

/// What the coordinator knows of the lag of its groups.
#[derive(Debug, Default)]
pub(crate) struct GroupLags {
    /// By id.
    pub(crate) groups: Vec<GroupLag>,
    /// How long the reading took.
    pub(crate) took: Duration,
}

/// One group.
#[derive(Debug)]
pub(crate) struct GroupLag {
    pub(crate) group: Arc<str>,
    pub(crate) state: GroupState,
    pub(crate) members: usize,
    pub(crate) stats: GroupStats,
    /// By topic and number: those with a committed offset whose leader has answered.
    pub(crate) partitions: Vec<PartitionLag>,
    /// Partitions that members have, of which nothing is committed.
    pub(crate) uncommitted: BTreeMap<Arc<str>, usize>,
    /// Partitions whose leader has not answered.
    pub(crate) unknown: usize,
}

/// One partition of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionLag {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: PartitionIndex,
    /// Offset of the next record that the group reads.
    pub(crate) committed: Offset,
    /// Records that it can still read.
    pub(crate) records: i64,
    /// Records that were deleted before it read them.
    pub(crate) deleted: i64,
    /// How old the oldest record is that it can still read.
    pub(crate) age: Age,
    /// Milliseconds since it committed.
    pub(crate) committed_ago_ms: i64,
}

/// What is committed, before the ends of the logs are known.
struct Committed {
    group: Arc<str>,
    state: GroupState,
    members: usize,
    stats: GroupStats,
    offsets: Vec<CommittedPartition>,
    uncommitted: BTreeMap<Arc<str>, usize>,
}

struct CommittedPartition {
    topic: Arc<str>,
    topic_id: TopicId,
    partition: PartitionIndex,
    offset: Offset,
    at_ms: i64,
}

/// Reads lags, for one reader at a time.
#[derive(Default)]
pub(crate) struct LagReader {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    newest: Option<(time::Instant, Arc<GroupLags>)>,
    peers: peers::Peers,
}

impl LagReader {
    /// The lag of the groups that `broker` coordinates, not older than a moment.
    pub(crate) async fn read(&self, broker: &Broker) -> Arc<GroupLags> {
        let mut kept = self.kept.lock().await;
        let began = time::monotonic();
        if let Some((at, newest)) = &kept.newest
            && began.duration_since(*at) < FRESH_FOR
        {
            return Arc::clone(newest);
        }
        let groups = read(broker, &mut kept.peers).await;
        let lags = Arc::new(GroupLags { groups, took: time::monotonic().duration_since(began) });
        kept.newest = Some((time::monotonic(), Arc::clone(&lags)));
        lags
    }
}

async fn read(broker: &Broker, peers: &mut peers::Peers) -> Vec<GroupLag> {
    let image = broker.metadata.image();
    let committed = committed(&broker.groups, &image);
    let now_ms = time::unix_ms();
    let by_leader = questions(&committed, &image);
    let asking = by_leader.into_iter().map(|(leader, asked)| {
        let link = peers.take(leader);
        async move { (leader, peers::ask(broker, leader, link, asked).await) }
    });
    let mut ends: BTreeMap<PartitionKey, (Asked, Ends)> = BTreeMap::new();
    for (leader, (link, answers)) in join_all(asking).await {
        peers.put_back(leader, link);
        ends.extend(answers.into_iter().map(|(asked, answer)| ((asked.topic_id, asked.partition), (asked, answer))));
    }
    let mut groups: Vec<GroupLag> = committed.into_iter().map(|group| lag_of(group, &ends, now_ms)).collect();
    groups.sort_unstable_by(|one, other| one.group.cmp(&other.group));
    groups
}

/// What the groups of this coordinator have committed of topics that are there.
fn committed(coordinator: &GroupCoordinator, image: &MetadataImage) -> Vec<Committed> {
    let mut committed = Vec::new();
    for shard in coordinator.all() {
        // One that loads, or is not led here any more, has nothing to say.
        let _ = shard.look(|machine, _| {
            let ids: Vec<Arc<str>> = machine.list().map(|group| group.group_id).collect();
            committed.extend(ids.iter().filter_map(|id| committed_by(machine, id, image)));
        });
    }
    committed
}

fn committed_by(machine: &GroupShard, id: &str, image: &MetadataImage) -> Option<Committed> {
    let group = machine.group(id)?;
    let mut offsets = Vec::new();
    for (topic, partitions) in machine.offsets(id).into_iter().flatten() {
        let Some(known) = image.topic(topic) else { continue };
        let is_of_this_life = |committed: &CommittedOffset| [known.id, Uuid::default()].contains(&committed.topic_id);
        let counting = partitions
            .iter()
            .filter(|(index, committed)| is_of_this_life(committed) && known.partition(**index).is_some());
        offsets.extend(counting.map(|(index, committed)| CommittedPartition {
            topic: Arc::clone(&known.name),
            topic_id: known.id,
            partition: *index,
            offset: committed.offset,
            at_ms: committed.commit_timestamp_ms,
        }));
    }
    Some(Committed {
        uncommitted: uncommitted(group, &offsets, image),
        group: Arc::clone(&group.group_id),
        state: group.state,
        members: group.members.len(),
        stats: group.stats,
        offsets,
    })
}

/// How many partitions the members have, by topic, of which nothing is committed.
fn uncommitted(group: &Group, committed: &[CommittedPartition], image: &MetadataImage) -> BTreeMap<Arc<str>, usize> {
    let mut counts = BTreeMap::new();
    // They are in order of topic and number.
    let is_committed = |topic: &str, index: PartitionIndex| {
        committed.binary_search_by(|it| (&*it.topic, it.partition).cmp(&(topic, index))).is_ok()
    };
    for member in group.members.values() {
        for (topic, partitions) in consumer_protocol::partitions(&member.assignment).unwrap_or_default() {
            let Some(known) = image.topic(topic) else { continue };
            let there = partitions.iter().filter(|index| known.partition(**index).is_some());
            let missing = there.filter(|index| !is_committed(topic, **index)).count();
            if missing > 0 {
                *counts.entry(Arc::clone(&known.name)).or_default() += missing;
            }
        }
    }
    counts
}

/// What each leader is to be asked.
fn questions(committed: &[Committed], image: &MetadataImage) -> BTreeMap<BrokerId, Vec<Asked>> {
    let mut asked: BTreeMap<PartitionKey, Asked> = BTreeMap::new();
    for it in committed.iter().flat_map(|group| &group.offsets) {
        let of_partition = asked.entry((it.topic_id, it.partition)).or_insert_with(|| Asked {
            topic: Arc::clone(&it.topic),
            topic_id: it.topic_id,
            partition: it.partition,
            offsets: Vec::new(),
        });
        if of_partition.offsets.len() < OFFSETS_MAX {
            of_partition.offsets.push(it.offset);
        }
    }
    let mut by_leader: BTreeMap<BrokerId, Vec<Asked>> = BTreeMap::new();
    for (key, mut asked) in asked {
        asked.offsets.sort_unstable();
        asked.offsets.dedup();
        if let Some(state) = image.partition(key).filter(|state| state.has_leader()) {
            by_leader.entry(state.leader).or_default().push(asked);
        }
    }
    by_leader
}

fn lag_of(committed: Committed, ends: &BTreeMap<PartitionKey, (Asked, Ends)>, now_ms: i64) -> GroupLag {
    let Committed { group, state, members, stats, offsets, uncommitted } = committed;
    let all = offsets.len();
    let known = offsets.into_iter().filter_map(|it| {
        let (asked, ends) = ends.get(&(it.topic_id, it.partition))?;
        let age = asked.offsets.binary_search(&it.offset).ok().and_then(|at| ends.ages.get(at).copied());
        let records = (ends.end - it.offset.max(ends.start)).max(0);
        Some(PartitionLag {
            topic: it.topic,
            partition: it.partition,
            committed: it.offset,
            records,
            deleted: (ends.start - it.offset).max(0),
            // The log may have grown between the two answers of a leader; what has no records has no age.
            age: if records == 0 { Age::Appended(0) } else { age.unwrap_or(Age::Unknown) },
            committed_ago_ms: now_ms.saturating_sub(it.at_ms).max(0),
        })
    });
    let partitions: Vec<PartitionLag> = known.collect();
    GroupLag { group, state, members, stats, unknown: all - partitions.len(), partitions, uncommitted }
}

impl GroupLag {
    /// The partitions of each topic.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &[PartitionLag]> {
        self.partitions.chunk_by(|one, next| one.topic == next.topic)
    }
}
