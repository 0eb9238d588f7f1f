//! Groups: who lags, since when, and by how much in each partition.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};
use taffrail_client::groups::{GroupClient, TopicPartition};
use taffrail_client::kafka::{CommittedOffset, Group, GroupMember, PartitionKey};
use taffrail_runtime::time;

use super::Console;
use super::clients::BROKER_TIMEOUT;
use super::history::{Asked, Groups, Known, Point, lag, places};
use super::parameters::Parameters;
use super::refusal::Refusal;

/// Groups of a page.
const GROUPS_MAX: usize = 200;
const GROUPS_DEFAULT: usize = 100;

/// Points of a line in the list; the whole history is shown with the group itself.
const LINE_POINTS: usize = 60;

/// Members and partitions of a group that are shown.
const MEMBERS_MAX: usize = 500;
const PARTITIONS_MAX: usize = 2_000;

/// Kafka's word for a group that is not there.
const DEAD: &str = "Dead";

/// A page of groups, those first whose oldest unread record is the oldest.
pub(super) fn list(console: &Console, mut asked: Parameters) -> Result<Value, Refusal> {
    let filter = asked.text("filter").map(|filter| filter.to_lowercase());
    let (skip, limit) = (asked.count("offset", 0, usize::MAX)?, asked.count("limit", GROUPS_DEFAULT, GROUPS_MAX)?);
    asked.end()?;
    Ok(page(&console.history.look(), filter.as_deref(), skip, limit))
}

fn page(known: &Groups, filter: Option<&str>, skip: usize, limit: usize) -> Value {
    let is_shown = |name: &str| filter.is_none_or(|filter| name.to_lowercase().contains(filter));
    let mut groups: Vec<(&String, &Known)> = known.groups.iter().filter(|(name, _)| is_shown(name)).collect();
    groups.sort_by_key(|(_, known)| Reverse(known.points.back().map(|it| (it.records > 0, it.age_ms, it.records))));
    let total = groups.len();
    let group = |(name, known): (&String, &Known)| {
        let newest = known.points.back();
        json!({
            "name": name,
            "state": known.state,
            "coordinator": known.coordinator,
            "members": known.members,
            "topics": known.topics,
            "unknown": known.unknown,
            "error": known.error,
            "lag": newest.map(|it| it.records),
            "lagMs": newest.and_then(|it| it.age_ms),
            "history": line(&known.points, LINE_POINTS),
        })
    };
    json!({
        "atMs": known.at_ms,
        "total": total,
        "omitted": known.omitted,
        "offset": skip,
        "error": known.error,
        "groups": groups.into_iter().skip(skip).take(limit).map(group).collect::<Vec<_>>(),
    })
}

/// At most so many of the points: of each stretch of time the one with the largest lag, so that no peak is lost.
fn line(points: &VecDeque<Point>, most: usize) -> Vec<Value> {
    let stretch = points.len().div_ceil(most).max(1);
    let points: Vec<Point> = points.iter().copied().collect();
    // From the newest back, so that the last stretch is a whole one.
    let peaks = points.rchunks(stretch).filter_map(|points| points.iter().max_by_key(|it| it.records));
    let mut line: Vec<Value> = peaks.map(|it| json!([it.at_ms, it.records, it.age_ms])).collect();
    line.reverse();
    line
}

/// One group as it is now, with all its history.
pub(super) async fn one(console: &Console, mut asked: Parameters) -> Result<Value, Refusal> {
    let name = asked.needed("name")?;
    asked.end()?;
    let mut client = console.clients.take().await?;
    let group = client.group(&name).await?;
    let committed = client.committed(&name).await?;
    console.clients.give_back(client);
    if group.state == DEAD && committed.is_empty() {
        return Err(Refusal::missing(format!("there is no group {name}")));
    }
    let assigned = group.members.iter().flat_map(|member| member.partitions.iter().cloned());
    let partitions: BTreeSet<PartitionKey> = assigned.chain(committed.keys().cloned()).collect();
    let place = |(topic, number): &PartitionKey| TopicPartition::new(topic.clone(), *number);
    let shown = partitions.iter().take(PARTITIONS_MAX);
    let asked: Asked = shown.map(|key| (place(key), committed.get(key).map(|it| it.offset))).collect();
    let mut client = GroupClient::new("taffrail-console", BROKER_TIMEOUT);
    client.set_places(places(&console.image()));
    let ends = client.ends(&asked).await?;
    let readers = readers(&group);
    let partition = |key: &PartitionKey| {
        let (committed, ends, reader) = (committed.get(key), ends.get(&place(key)), readers.get(key));
        let lag = committed.zip(ends).map(|(committed, ends): (&CommittedOffset, _)| lag(committed.offset, ends));
        json!({
            "topic": key.0,
            "partition": key.1,
            "committed": committed.map(|it| it.offset),
            "startOffset": ends.map(|it| it.start),
            "endOffset": ends.map(|it| it.end),
            "lag": lag,
            "lagMs": if lag == Some(0) { Some(0) } else { ends.and_then(|it| it.age_ms).filter(|_| committed.is_some()) },
            "member": reader.map(|member| &member.id),
        })
    };
    let partitions_data: Vec<Value> = partitions.iter().take(PARTITIONS_MAX).map(partition).collect();
    let history = console.history.look().groups.get(&name).map(|known| line(&known.points, super::history::POINTS_MAX));
    Ok(json!({
        "atMs": time::unix_ms(),
        "name": name,
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "memberCount": group.members.len(),
        "members": group.members.iter().take(MEMBERS_MAX).map(member_data).collect::<Vec<_>>(),
        "partitionCount": partitions.len(),
        "partitions": partitions_data,
        "history": history.unwrap_or_default(),
    }))
}

/// Who reads each partition.
fn readers(group: &Group) -> BTreeMap<&PartitionKey, &GroupMember> {
    group.members.iter().flat_map(|member| member.partitions.iter().map(move |partition| (partition, member))).collect()
}

fn member_data(member: &GroupMember) -> Value {
    json!({
        "id": member.id,
        "instanceId": member.instance_id,
        "clientId": member.client_id,
        "host": member.host,
        "partitions": member.partitions.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(points: &[(i64, Option<i64>)]) -> Known {
        let point = |(at, (records, age_ms)): (i64, &(i64, Option<i64>))| Point {
            at_ms: at,
            records: *records,
            age_ms: *age_ms,
        };
        Known { state: "Stable".to_owned(), points: (0..).zip(points).map(point).collect(), ..Known::default() }
    }

    #[test]
    fn those_that_lag_longest_come_first_and_those_that_do_not_last() {
        let groups = [
            ("calm", known(&[(0, Some(0))])),
            ("new", known(&[])),
            ("unknown", known(&[(9_000, None)])),
            ("<i>late</i>", known(&[(7, Some(5)), (3, Some(60_000))])),
        ];
        let all = Groups { groups: groups.map(|(name, known)| (name.to_owned(), known)).into(), ..Groups::default() };
        let answer = page(&all, None, 0, 3);
        let names: Vec<&Value> = answer["groups"].as_array().unwrap().iter().map(|group| &group["name"]).collect();
        assert_eq!(json!(names), json!(["<i>late</i>", "unknown", "calm"]));
        assert_eq!(answer["total"], 4);
        let late = &answer["groups"][0];
        assert_eq!(
            (&late["lag"], &late["lagMs"], &late["history"]),
            (&json!(3), &json!(60_000), &json!([[0, 7, 5], [1, 3, 60_000]]))
        );
        assert_eq!(page(&all, Some("LATE"), 0, 3)["total"], 0, "filters are small letters by then");
        assert_eq!(page(&all, Some("late"), 0, 3)["total"], 1);
    }

    #[test]
    fn a_line_keeps_every_peak_and_the_newest_stretch() {
        let points: VecDeque<Point> =
            (0..10).map(|at| Point { at_ms: at, records: if at == 3 { 99 } else { at }, age_ms: None }).collect();
        assert_eq!(
            line(&points, 4),
            [json!([0, 0, null]), json!([3, 99, null]), json!([6, 6, null]), json!([9, 9, null])]
        );
        assert_eq!(line(&points, 60).len(), 10);
        assert!(line(&VecDeque::new(), 4).is_empty());
    }
}
