//! What is wrong with a cluster, worst first, in sentences: what it is, and why.

use serde_json::{Value, json};
use taffrail_core::control::RestartVerdict;
use taffrail_core::event::PartitionState;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;

use crate::cli::{Report, circumstances, ids};

/// Troubles of one kind that are named; the rest is counted.
const NAMED_MAX: usize = 20;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Somebody is not served.
    Down,
    /// One more failure, and somebody may not be.
    Warning,
    /// Under way as it should be.
    Notice,
}

/// One trouble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    level: Level,
    what: String,
    why: String,
    /// The topic and partition that it is about, if it is about one.
    partition: Option<(String, i32)>,
}

impl Trouble {
    fn new(level: Level, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { level, what: what.into(), why: why.into(), partition: None }
    }

    fn at(mut self, topic: &str, partition: i32) -> Self {
        self.partition = Some((topic.to_owned(), partition));
        self
    }

    /// The trouble for the page.
    pub(super) fn data(&self) -> Value {
        let level = match self.level {
            Level::Down => "down",
            Level::Warning => "warning",
            Level::Notice => "notice",
        };
        let (topic, partition) = self.partition.as_ref().map(|(topic, number)| (topic, number)).unzip();
        json!({ "level": level, "what": self.what, "why": self.why, "topic": topic, "partition": partition })
    }
}

/// All of them. `below` names the partitions below their minimum; `unreachable` is why no controller answers.
pub(super) fn of(
    image: &MetadataImage,
    report: &Report,
    below: &RestartVerdict,
    unreachable: Option<&str>,
    now_ms: i64,
) -> Vec<Trouble> {
    let mut troubles = controllers(report, unreachable);
    let no_leader = |_: &str, _: i32, state: &PartitionState| !state.has_leader();
    troubles.extend(partitions(image, no_leader, report.leaderless, |name, state| {
        let why = format!("Nobody can lead it. Its replicas: {}.", who_is_away(image, &state.replicas));
        Trouble::new(Level::Down, format!("{name} has no leader"), why)
    }));
    let led: Vec<_> = below.blocking.iter().filter(|it| it.leader != BrokerId::NONE).take(NAMED_MAX).collect();
    troubles.extend(led.iter().map(|it| {
        let what = format!("{}-{} is below its minimum and takes no acks=all writes", it.topic, it.partition);
        Trouble::new(Level::Down, what, sentence(&circumstances(it))).at(&it.topic, it.partition)
    }));
    let below_count = below.blocking_count.saturating_sub(report.leaderless);
    troubles.extend(more(Level::Down, "below their minimum", below_count, led.len()));
    troubles.extend(away(image));
    let is_below = |topic: &str, number| led.iter().any(|it| &*it.topic == topic && it.partition == number);
    let lacks = |topic: &str, number, state: &PartitionState| {
        state.has_leader() && state.is_under_replicated() && !is_below(topic, number)
    };
    let lacking = report.under_replicated.saturating_sub(below.blocking_count.max(report.leaderless));
    troubles.extend(partitions(image, lacks, lacking, |name, state| {
        let missing: Vec<BrokerId> = state.replicas.iter().copied().filter(|id| !state.isr.contains(id)).collect();
        let why = format!("In sync: {}; {}.", ids(state.isr.iter().copied()), who_is_away(image, &missing));
        Trouble::new(Level::Warning, format!("{name} lacks replicas in sync"), why)
    }));
    troubles.extend(under_way(image, report, now_ms));
    troubles.sort_by_key(|trouble| trouble.level);
    troubles
}

/// Brokers that do not serve.
fn away(image: &MetadataImage) -> Vec<Trouble> {
    let fenced = image.brokers().values().filter(|broker| broker.fenced);
    let trouble = fenced.map(|broker| {
        let kept = image.replica_index().load(broker.id).replicas;
        let why = format!("The controllers do not hear from it. Its {kept} replicas serve nobody until it is back.");
        Trouble::new(Level::Warning, format!("Broker {} is away", broker.id), why)
    });
    trouble.collect()
}

fn controllers(report: &Report, unreachable: Option<&str>) -> Vec<Trouble> {
    if let Some(why) = unreachable {
        let what = "No controller answers: topics, settings and leaders cannot change";
        return vec![Trouble::new(Level::Down, what, sentence(why))];
    }
    let mut troubles = Vec::new();
    if report.active.is_none() {
        let why = format!("{} of {} controllers are missing.", report.missing_voters.len(), report.voters);
        troubles.push(Trouble::new(Level::Down, "No controller is active", why));
    }
    troubles.extend(report.missing_voters.iter().map(|id| {
        let why = "It has not answered the active controller for 5 seconds. A majority goes on without it.";
        Trouble::new(Level::Warning, format!("Controller {id} is missing"), why)
    }));
    troubles
}

fn under_way(image: &MetadataImage, report: &Report, now_ms: i64) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    if report.moving > 0 {
        let what = format!("{} partitions are moving", report.moving);
        troubles.push(Trouble::new(Level::Notice, what, "New replicas are catching up before old ones go."));
    }
    if !report.draining.is_empty() {
        let what = format!("Draining: broker {}", ids(report.draining.iter().copied()));
        troubles.push(Trouble::new(Level::Notice, what, format!("{} replicas are still to move.", report.to_drain)));
    }
    if let Some(grant) = image.grant().filter(|grant| grant.is_open(now_ms)) {
        let what = format!("Somebody may take down broker {}", ids(grant.brokers.iter().copied()));
        let seconds = (grant.expires_ms - now_ms) / 1_000;
        troubles.push(Trouble::new(Level::Notice, what, format!("The permission ends in {seconds} seconds.")));
    }
    troubles
}

/// The partitions that `is_meant`, of which there are about `count`: the first ones by name, the rest by number.
fn partitions(
    image: &MetadataImage,
    is_meant: impl Fn(&str, i32, &PartitionState) -> bool,
    count: usize,
    trouble: impl Fn(&str, &PartitionState) -> Trouble,
) -> Vec<Trouble> {
    let mut named = Vec::new();
    // Most of the time there are none, and then nothing is looked at.
    let topics = image.topics().iter().take(if count == 0 { 0 } else { usize::MAX });
    for topic in topics {
        let meant = topic.numbered().filter(|(number, state)| is_meant(&topic.name, *number, state));
        for (number, state) in meant.take(NAMED_MAX - named.len()) {
            named.push(trouble(&format!("{}-{number}", topic.name), state).at(&topic.name, number));
        }
        if named.len() == NAMED_MAX {
            break;
        }
    }
    let level = named.first().map_or(Level::Warning, |first: &Trouble| first.level);
    let words = if level == Level::Down { "without a leader" } else { "without all replicas in sync" };
    named.extend(more(level, words, count, named.len()));
    named
}

fn more(level: Level, words: &str, count: usize, named: usize) -> Option<Trouble> {
    (count > named).then(|| Trouble::new(level, format!("And {} more {words}", count - named), ""))
}

fn who_is_away(image: &MetadataImage, replicas: &[BrokerId]) -> String {
    let of_each = replicas.iter().map(|id| match image.is_active(*id) {
        true => format!("broker {id} is catching up"),
        false => format!("broker {id} is away"),
    });
    of_each.collect::<Vec<_>>().join(", ")
}

/// A text that begins with a capital letter and ends with a full stop.
fn sentence(text: &str) -> String {
    let mut rest = text.trim_end_matches('.').chars();
    let first = rest.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", rest.as_str())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use taffrail_core::control::{AffectedPartition, Behind};
    use taffrail_core::event::MetadataEvent;
    use taffrail_core::ids::Uuid;

    use super::*;

    const TOPIC: Uuid = Uuid([9; 16]);

    /// A cluster whose brokers have all gone, with three partitions: one led and in sync, one that lacks a replica, one that
    /// nobody leads.
    fn image() -> MetadataImage {
        let mut image = MetadataImage::default();
        let state = |isr: &[i32]| {
            let ids = |ids: &[i32]| ids.iter().map(|id| BrokerId(*id)).collect();
            Arc::new(PartitionState::new(ids(&[1, 2]), ids(isr)))
        };
        let mut events = vec![
            MetadataEvent::ClusterCreated { cluster_id: Uuid([7; 16]) },
            MetadataEvent::TopicCreated { name: "<b>".into(), topic_id: TOPIC },
        ];
        for (partition, isr) in (0..).zip([&[1, 2][..], &[1], &[]]) {
            events.push(MetadataEvent::PartitionCreated { topic_id: TOPIC, partition, state: state(isr) });
        }
        events.iter().for_each(|event| image.apply(event).unwrap());
        image
    }

    fn report(image: &MetadataImage, below: usize) -> Report {
        let quorum = taffrail_protocol::rpc::Quorum {
            active: Some(taffrail_protocol::rpc::ControllerAddress { id: 1, address: "a:1".to_owned() }),
            term: 1,
            committed_log_end: 1,
            voters: Vec::new(),
            observers: Vec::new(),
        };
        Report::of(image, &quorum, 0, below)
    }

    fn told(troubles: &[Trouble]) -> Vec<(Level, &str, &str)> {
        troubles.iter().map(|it| (it.level, it.what.as_str(), it.why.as_str())).collect()
    }

    #[test]
    fn what_is_wrong_is_told_worst_first_and_why() {
        let image = image();
        let affected = |partition, leader, isr: &[i32]| AffectedPartition {
            topic: "<b>".into(),
            partition,
            leader: BrokerId(leader),
            isr: isr.iter().map(|id| BrokerId(*id)).collect(),
            min_in_sync: 2,
            behind: vec![Behind { broker: BrokerId(2), is_away: true, records: None }],
        };
        let below = RestartVerdict {
            blocking_count: 2,
            blocking: vec![affected(1, 1, &[1]), affected(2, -1, &[])],
            ..RestartVerdict::default()
        };
        let troubles = of(&image, &report(&image, 2), &below, None, 0);
        let expected = [
            (
                Level::Down,
                "<b>-2 has no leader",
                "Nobody can lead it. Its replicas: broker 1 is away, broker 2 is away.",
            ),
            (
                Level::Down,
                "<b>-1 is below its minimum and takes no acks=all writes",
                "Led by 1, in sync 1, minimum 2; broker 2 is away.",
            ),
        ];
        assert_eq!(told(&troubles), expected);
        assert_eq!(troubles[0].data()["topic"], "<b>", "the page shows it as text");
    }

    #[test]
    fn without_controllers_the_metadata_that_are_known_are_judged() {
        let image = image();
        let troubles = of(&image, &report(&image, 0), &RestartVerdict::default(), Some("nobody answers"), 0);
        let whats: Vec<&str> = troubles.iter().map(|it| it.what.as_str()).collect();
        assert_eq!(
            whats,
            [
                "No controller answers: topics, settings and leaders cannot change",
                "<b>-2 has no leader",
                "<b>-1 lacks replicas in sync",
            ]
        );
        assert_eq!(troubles[2].why, "In sync: 1; broker 2 is away.");
        let empty = MetadataImage::default();
        assert!(of(&empty, &report(&empty, 0), &RestartVerdict::default(), None, 0).is_empty());
    }
}
