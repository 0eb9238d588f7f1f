//! How far groups have been behind: a look every few seconds, kept for half an hour, so that who opens the page when something
//! is wrong sees since when.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use taffrail_client::groups::{GroupClient, GroupsError, PartitionEnds, TopicPartition};
use taffrail_client::kafka::{KafkaError, ListedGroup};
use taffrail_core::ids::Offset;
use taffrail_core::image::MetadataImage;
use taffrail_runtime::time;

use super::Console;
use super::clients::BROKER_TIMEOUT;
use crate::exit::told;
use crate::nodes::address;

/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Looks that are kept of each group: half an hour.
pub(super) const POINTS_MAX: usize = 360;

/// Groups that are looked at: the first ones by name.
const GROUPS_MAX: usize = 500;

/// Topics of a group that are named.
const TOPICS_MAX: usize = 8;

/// How far a group was behind at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) at_ms: i64,
    /// Records that it could still read.
    pub(super) records: i64,
    /// Age of the oldest of them; `None` = not known.
    pub(super) age_ms: Option<i64>,
}

/// What is known of a group.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) state: String,
    pub(super) coordinator: i32,
    pub(super) members: usize,
    /// Those that it has committed offsets of.
    pub(super) topics: Vec<String>,
    /// Partitions whose ends nobody told.
    pub(super) unknown: usize,
    /// Why nothing new is known.
    pub(super) error: Option<String>,
    /// The newest is the last.
    pub(super) points: VecDeque<Point>,
}

/// All groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// When it was looked last; 0 = never.
    pub(super) at_ms: i64,
    /// Groups that there are beside those that are looked at.
    pub(super) omitted: usize,
    /// Why nothing new is known of any.
    pub(super) error: Option<String>,
    pub(super) groups: BTreeMap<String, Known>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct History {
    groups: Mutex<Groups>,
}

impl History {
    /// What is known now.
    pub(super) fn look(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock()
    }
}

/// What one look at a group found.
struct Look {
    state: String,
    coordinator: i32,
    members: usize,
    topics: Vec<String>,
    unknown: usize,
    point: Point,
}

/// Looks at all groups again and again.
pub(super) async fn keep(console: Arc<Console>) {
    let mut client = GroupClient::new("taffrail-console", BROKER_TIMEOUT);
    loop {
        look(&console, &mut client).await;
        time::sleep(LOOK_EVERY).await;
    }
}

async fn look(console: &Console, client: &mut GroupClient) {
    let listed = match list(console).await {
        Ok(listed) => listed,
        Err(error) => {
            console.history.look().error = Some(told(&error.into()));
            return;
        }
    };
    client.set_places(places(&console.image()));
    let omitted = listed.len().saturating_sub(GROUPS_MAX);
    let mut looks = BTreeMap::new();
    for group in listed.into_iter().take(GROUPS_MAX) {
        let look = look_at(client, &group).await;
        looks.insert(group.name, look.map_err(|error| told(&error.into())));
    }
    console.history.look().take(looks, omitted, time::unix_ms());
}

/// All groups that consume, or only have offsets.
async fn list(console: &Console) -> Result<Vec<ListedGroup>, KafkaError> {
    let mut client = console.clients.take().await?;
    let mut groups = client.groups().await?;
    console.clients.give_back(client);
    groups.retain(|group| ["", "consumer"].contains(&group.protocol_type.as_str()));
    Ok(groups)
}

/// Where clients find each broker.
pub(super) fn places(image: &MetadataImage) -> BTreeMap<i32, String> {
    let active = image.brokers().values().filter(|broker| !broker.fenced);
    active.filter_map(|it| Some((it.id.0, it.listeners.first().map(|it| address(&it.host, it.port))?))).collect()
}

async fn look_at(client: &mut GroupClient, group: &ListedGroup) -> Result<Look, GroupsError> {
    let described = client.describe(&group.name).await?;
    // Committed offsets first and ends after them, so that no lag is negative.
    let committed = client.offsets(&group.name).await?.committed;
    let asked = committed.iter().map(|(partition, offset)| (partition.clone(), Some(*offset))).collect();
    let ends = client.ends(&asked).await?;
    let mut topics: Vec<String> = committed.keys().map(|partition| partition.topic.clone()).collect();
    topics.dedup();
    topics.truncate(TOPICS_MAX);
    let known = committed.iter().filter_map(|(partition, offset)| Some((*offset, ends.get(partition)?)));
    Ok(Look {
        state: described.state,
        coordinator: described.coordinator,
        members: described.members,
        topics,
        unknown: committed.len() - ends.len().min(committed.len()),
        point: point(known, time::unix_ms()),
    })
}

/// How far behind these offsets are.
fn point<'a>(offsets: impl Iterator<Item = (Offset, &'a PartitionEnds)>, at_ms: i64) -> Point {
    let mut sum = Point { at_ms, records: 0, age_ms: Some(0) };
    for (offset, ends) in offsets {
        let records = lag(offset, ends);
        sum.records += records;
        if records > 0 {
            // One whose age is not known may be the oldest.
            sum.age_ms = sum.age_ms.and_then(|oldest| ends.age_ms.map(|age| age.max(oldest)));
        }
    }
    sum
}

/// Records that a group can still read; those that were deleted do not count.
pub(super) fn lag(committed: Offset, ends: &PartitionEnds) -> i64 {
    (ends.end - committed.max(ends.start)).max(0)
}

/// Partitions, each with the offset whose record's age is wanted.
pub(super) type Asked = BTreeMap<TopicPartition, Option<Offset>>;

impl Groups {
    /// Takes note of what a look found; a group that was not found is forgotten.
    fn take(&mut self, looks: BTreeMap<String, Result<Look, String>>, omitted: usize, at_ms: i64) {
        self.groups.retain(|name, _| looks.contains_key(name));
        self.at_ms = at_ms;
        self.omitted = omitted;
        self.error = None;
        for (name, look) in looks {
            let known = self.groups.entry(name).or_default();
            match look {
                Ok(Look { state, coordinator, members, topics, unknown, point }) => {
                    known.points.push_back(point);
                    while known.points.len() > POINTS_MAX {
                        known.points.pop_front();
                    }
                    let points = std::mem::take(&mut known.points);
                    *known = Known { state, coordinator, members, topics, unknown, error: None, points };
                }
                Err(error) => known.error = Some(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(start: i64, end: i64, age_ms: Option<i64>) -> PartitionEnds {
        PartitionEnds { start, end, age_ms }
    }

    #[test]
    fn lag_counts_what_can_still_be_read_and_is_never_negative() {
        let cases = [(5, ends(0, 8, None), 3), (1, ends(4, 8, None), 4), (9, ends(0, 8, None), 0)];
        for (committed, ends, expected) in cases {
            assert_eq!(lag(committed, &ends), expected, "{committed} of {ends:?}");
        }
        let of = |offsets: &[(i64, PartitionEnds)]| point(offsets.iter().map(|(offset, ends)| (*offset, ends)), 7);
        let expected = Point { at_ms: 7, records: 5, age_ms: Some(900) };
        assert_eq!(of(&[(5, ends(0, 8, Some(900))), (0, ends(0, 2, Some(20))), (3, ends(0, 3, Some(0)))]), expected);
        assert_eq!(of(&[(5, ends(0, 8, None)), (0, ends(0, 2, Some(20)))]).age_ms, None, "the oldest is not known");
        assert_eq!(of(&[(8, ends(0, 8, None))]), Point { at_ms: 7, records: 0, age_ms: Some(0) });
    }

    #[test]
    fn looks_are_kept_for_a_while_and_groups_that_are_gone_are_forgotten() {
        let mut groups = Groups::default();
        let look = |records| {
            Ok(Look {
                state: "Stable".to_owned(),
                coordinator: 1,
                members: 2,
                topics: Vec::new(),
                unknown: 0,
                point: Point { at_ms: records, records, age_ms: None },
            })
        };
        for records in 0..=POINTS_MAX as i64 {
            groups.take([("g".to_owned(), look(records))].into(), 3, records);
        }
        let known = &groups.groups["g"];
        assert_eq!((known.points.len(), known.points[0].records, groups.omitted), (POINTS_MAX, 1, 3));
        groups.take([("g".to_owned(), Err("away".to_owned()))].into(), 0, 1);
        assert_eq!((groups.groups["g"].error.as_deref(), groups.groups["g"].points.len()), (Some("away"), POINTS_MAX));
        groups.take(BTreeMap::new(), 0, 2);
        assert!(groups.groups.is_empty());
    }
}
