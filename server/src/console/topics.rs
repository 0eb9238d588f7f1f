//! Topics: all of them in pages, and one with its partitions in pages. Who leads and who is in sync comes from the metadata,
//! where partitions begin and end from their leaders, and only for what a page shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join;
use serde_json::{Value, json};
use taffrail_client::kafka::{KafkaError, PartitionKey, TopicSetting};
use taffrail_core::event::PartitionState;
use taffrail_core::image::TopicImage;
use taffrail_core::topic_name;
use taffrail_runtime::time;

use super::Console;
use super::parameters::Parameters;
use super::refusal::Refusal;
use super::sizes::{self, Sizes};
use crate::exit::told;

/// Topics of a page.
const TOPICS_MAX: usize = 200;
const TOPICS_DEFAULT: usize = 100;

/// Partitions of a page.
const PARTITIONS_MAX: usize = 500;
const PARTITIONS_DEFAULT: usize = 100;

/// Partitions whose ends are asked for to answer a question about topics.
const ENDS_MAX: usize = 10_000;

/// Where partitions begin and end.
type Bounds = BTreeMap<PartitionKey, (i64, i64)>;

/// What topics are put in order by; those with the same stay in the order of their names.
type Order = fn(&Summary) -> (usize, usize);

fn order(sort: Option<&str>) -> Result<Order, Refusal> {
    match sort {
        None | Some("name") => Ok(|_| (0, 0)),
        Some("partitions") => Ok(|it| (usize::MAX - it.partitions(), 0)),
        Some("trouble") => Ok(|it| (usize::MAX - it.leaderless, usize::MAX - it.under_replicated)),
        Some(other) => Err(Refusal::wrong(format!("sort is '{other}', and name, partitions or trouble is needed"))),
    }
}

/// A topic, and how its partitions are.
struct Summary {
    topic: Arc<TopicImage>,
    leaderless: usize,
    under_replicated: usize,
}

impl Summary {
    fn of(topic: &Arc<TopicImage>) -> Self {
        let count = |is_meant: fn(&PartitionState) -> bool| topic.numbered().filter(|(_, it)| is_meant(it)).count();
        Self {
            topic: Arc::clone(topic),
            leaderless: count(|state| !state.has_leader()),
            under_replicated: count(PartitionState::is_under_replicated),
        }
    }

    fn partitions(&self) -> usize {
        usize::try_from(self.topic.partition_count()).unwrap_or(0)
    }

    fn data(&self, bounds: &Bounds, sizes: &Sizes) -> Value {
        let known = self.topic.numbered().filter_map(|(number, _)| bounds.get(&key(&self.topic, number)));
        let (count, records, end) =
            known.fold((0, 0, 0), |(count, records, end), (from, to)| (count + 1, records + (to - from), end + to));
        let is_known = count == self.partitions();
        let bytes: Option<i64> = self.topic.numbered().map(|(number, _)| sizes.of(&key(&self.topic, number))).sum();
        json!({
            "name": &*self.topic.name,
            "internal": topic_name::is_internal(&self.topic.name),
            "partitions": self.partitions(),
            "replicationFactor": self.topic.replication_factor(),
            "leaderless": self.leaderless,
            "underReplicated": self.under_replicated,
            // Of a part of the partitions these would mislead.
            "records": is_known.then_some(records),
            "endSum": is_known.then_some(end),
            "bytes": bytes,
        })
    }
}

fn key(topic: &TopicImage, number: i32) -> PartitionKey {
    (topic.name.to_string(), number)
}

/// A page of topics.
pub(super) async fn list(console: &Console, mut asked: Parameters) -> Result<Value, Refusal> {
    let filter = asked.text("filter").map(|filter| filter.to_lowercase());
    let order = order(asked.text("sort").as_deref())?;
    let shows_internal = asked.parsed("internal", "true or false")?.unwrap_or(false);
    let (skip, limit) = (asked.count("offset", 0, usize::MAX)?, asked.count("limit", TOPICS_DEFAULT, TOPICS_MAX)?);
    asked.end()?;
    let image = console.image();
    let is_shown = |topic: &&Arc<TopicImage>| {
        (shows_internal || !topic_name::is_internal(&topic.name))
            && filter.as_ref().is_none_or(|filter| topic.name.to_lowercase().contains(filter))
    };
    let mut topics: Vec<Summary> = image.topics().iter().filter(is_shown).map(Summary::of).collect();
    // They are by name, and stay so among equals.
    topics.sort_by_key(order);
    let total = topics.len();
    let page: Vec<Summary> = topics.into_iter().skip(skip).take(limit).collect();
    let mut keys: Vec<PartitionKey> = Vec::new();
    for summary in &page {
        if keys.len() + summary.partitions() <= ENDS_MAX {
            keys.extend(summary.topic.numbered().map(|(number, _)| key(&summary.topic, number)));
        }
    }
    let ((bounds, error), sizes) = join(bounds(console, &keys), console.sizes.get(sizes::look(console))).await;
    Ok(json!({
        "atMs": time::unix_ms(),
        "bytesAtMs": sizes.at_ms(),
        "all": image.topics().len(),
        "total": total,
        "offset": skip,
        "topics": page.iter().map(|summary| summary.data(&bounds, &sizes)).collect::<Vec<_>>(),
        "error": error,
    }))
}

/// One topic and a page of its partitions.
pub(super) async fn one(console: &Console, mut asked: Parameters) -> Result<Value, Refusal> {
    let name = asked.needed("name")?;
    let (skip, limit) =
        (asked.count("offset", 0, usize::MAX)?, asked.count("limit", PARTITIONS_DEFAULT, PARTITIONS_MAX)?);
    asked.end()?;
    let image = console.image();
    let topic = image.topic(&name).ok_or_else(|| Refusal::missing(format!("there is no topic {name}")))?;
    let page: Vec<(i32, &Arc<PartitionState>)> = topic.numbered().skip(skip).take(limit).collect();
    let keys: Vec<PartitionKey> = page.iter().map(|(number, _)| key(topic, *number)).collect();
    let ((bounds, error), sizes) = join(bounds(console, &keys), console.sizes.get(sizes::look(console))).await;
    let partition = |(number, state): &(i32, &Arc<PartitionState>)| {
        let bounds = bounds.get(&key(topic, *number));
        json!({
            "partition": number,
            "leader": state.has_leader().then_some(state.leader.0),
            "leaderEpoch": state.leader_epoch,
            "replicas": ids(&state.replicas),
            "isr": ids(&state.isr),
            "adding": ids(&state.adding),
            "removing": ids(&state.removing),
            "startOffset": bounds.map(|(start, _)| start),
            "endOffset": bounds.map(|(_, end)| end),
            "bytes": sizes.of(&key(topic, *number)),
        })
    };
    Ok(json!({
        "atMs": time::unix_ms(),
        "bytesAtMs": sizes.at_ms(),
        "name": name,
        "id": topic.id.to_string(),
        "internal": topic_name::is_internal(&name),
        "partitionCount": topic.partition_count(),
        "replicationFactor": topic.replication_factor(),
        "states": topic.numbered().map(|(_, state)| letter(state)).collect::<String>(),
        "offset": skip,
        "partitions": page.iter().map(partition).collect::<Vec<_>>(),
        "error": error,
    }))
}

/// How a partition is, in a letter: `n`obody leads, `u`nder-replicated, led by another than the preferred (`p`), `o`rderly.
fn letter(state: &PartitionState) -> char {
    match () {
        () if !state.has_leader() => 'n',
        () if state.is_under_replicated() => 'u',
        () if state.replicas.first() != Some(&state.leader) => 'p',
        () => 'o',
    }
}

fn ids(brokers: &[taffrail_core::ids::BrokerId]) -> Vec<i32> {
    brokers.iter().map(|id| id.0).collect()
}

/// The settings that hold for a topic.
pub(super) async fn settings(console: &Console, mut asked: Parameters) -> Result<Value, Refusal> {
    let name = asked.needed("topic")?;
    asked.end()?;
    let mut client = console.clients.take().await?;
    let settings = client.topic_settings(std::slice::from_ref(&name)).await?.pop().unwrap_or_default();
    console.clients.give_back(client);
    let setting = |setting: &TopicSetting| {
        json!({
            "name": setting.name,
            "value": setting.value.as_ref().filter(|_| !setting.sensitive),
            "own": setting.is_own(),
            "sensitive": setting.sensitive,
        })
    };
    Ok(json!({ "topic": name, "settings": settings.iter().map(setting).collect::<Vec<_>>() }))
}

/// Where these partitions begin and end, or why nobody tells: what the metadata say is shown all the same.
async fn bounds(console: &Console, keys: &[PartitionKey]) -> (Bounds, Option<String>) {
    if keys.is_empty() {
        return (Bounds::new(), None);
    }
    match leaders_say(console, keys).await {
        Ok(bounds) => (bounds, None),
        Err(error) => (Bounds::new(), Some(told(&error.into()))),
    }
}

async fn leaders_say(console: &Console, keys: &[PartitionKey]) -> Result<Bounds, KafkaError> {
    let mut client = console.clients.take().await?;
    let bounds = client.bounds(keys).await?;
    console.clients.give_back(client);
    Ok(bounds)
}

#[cfg(test)]
mod tests {
    use taffrail_core::ids::BrokerId;

    use super::*;

    #[test]
    fn a_partition_is_told_by_the_worst_that_is_wrong_with_it() {
        let state = |leader: i32, isr: &[i32]| {
            let ids = |ids: &[i32]| ids.iter().map(|id| BrokerId(*id)).collect();
            let mut state = PartitionState::new(ids(&[1, 2]), ids(isr));
            state.leader = BrokerId(leader);
            state
        };
        assert_eq!(letter(&state(1, &[1, 2])), 'o');
        assert_eq!(letter(&state(2, &[1, 2])), 'p');
        assert_eq!(letter(&state(2, &[2])), 'u');
        assert_eq!(letter(&state(-1, &[])), 'n');
    }

    #[test]
    fn an_unknown_order_is_refused_with_those_that_there_are() {
        assert_eq!(order(Some("size")).unwrap_err().text, "sort is 'size', and name, partitions or trouble is needed");
        assert!(["name", "partitions", "trouble"].iter().all(|sort| order(Some(sort)).is_ok()));
    }
}
