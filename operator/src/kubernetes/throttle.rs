//! How fast replicas move: Kafka's replication throttles (KIP-73), set while partitions move and taken away afterwards.
//!
//! The rates are settings of all brokers; which replicas they hold for is a setting of each topic: those that are being
//! made, and those that they are copied from. Followers that are merely behind are not slowed down. What is set is read back
//! from the metadata, so that whoever goes on after a crash takes it away too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use taffrail_core::config::Overrides;
use taffrail_core::control::{ConfigAlteration, ConfigChanges, ConfigOp, ConfigOperation};
use taffrail_core::event::{ConfigResource, ResourceKind};
use taffrail_core::image::MetadataImage;

use crate::crd::ClusterSpec;
/// Those copied from, and those that are made.
use crate::reconcile::topic::THROTTLED as REPLICAS;

/// The rates: bytes a second that a broker sends to replicas that are made, and fetches for them.
pub const RATES: [&str; 2] = ["leader.replication.throttled.rate", "follower.replication.throttled.rate"];

/// How fast replicas may move, in bytes a second of each broker; `None` = as fast as they can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttle {
    /// While brokers are drained.
    pub drain: Option<i64>,
    /// At other times.
    pub rebalance: Option<i64>,
}

impl Throttle {
    /// What a Cluster asks for. One place for the rates is enough: in two they would contradict each other.
    pub fn read(spec: &ClusterSpec, problems: &mut Vec<String>) -> Self {
        let drain = spec.scale_down.as_ref().and_then(|it| it.throttle_bytes_per_second);
        let rebalance = spec.rebalance.as_ref().and_then(|it| it.throttle_bytes_per_second);
        let throttle = Self { drain, rebalance };
        if let Some(rate) = RATES.iter().find(|rate| throttle.is_any() && spec.config.0.contains_key(**rate)) {
            problems.push(format!("spec.config: {rate}: give it either here or as throttleBytesPerSecond"));
        }
        throttle
    }

    /// Whether anything is asked for.
    pub fn is_any(&self) -> bool {
        self.drain.is_some() || self.rebalance.is_some()
    }

    /// The rate that holds now.
    pub fn rate(&self, is_draining: bool) -> Option<i64> {
        if is_draining { self.drain } else { self.rebalance }
    }
}

/// The settings to change so that moves go at `rate`; all that was set is taken away where there is none, or nothing moves.
pub fn changes(image: &MetadataImage, rate: Option<i64>) -> Vec<ConfigAlteration> {
    let needed = if rate.is_some() { moving(image) } else { BTreeMap::new() };
    let rate = rate.filter(|_| !needed.is_empty()).map(|rate| rate.to_string());
    let mut alterations = Vec::new();
    let brokers = ConfigResource::broker_default();
    let present = image.overrides(&brokers);
    let wanted = RATES.map(|name| (name, rate.clone()));
    let rates = alteration(brokers, present.map(Arc::as_ref), &wanted);
    for (resource, overrides) in image.all_overrides() {
        let is_set = REPLICAS.iter().any(|name| overrides.contains_key(*name));
        if resource.kind == ResourceKind::Topic && is_set && !needed.contains_key(&resource.name) {
            alterations.extend(alteration(resource.clone(), Some(overrides), &REPLICAS.map(|name| (name, None))));
        }
    }
    for (topic, replicas) in needed {
        let resource = ConfigResource::topic(topic);
        let present = image.overrides(&resource).map(Arc::as_ref);
        // A list that holds for more than what moves now does no harm, and need not be written at every step.
        let lists = REPLICAS.into_iter().zip(replicas).filter(|(name, wanted)| !includes(present, name, wanted));
        let lists: Vec<(&str, Option<String>)> = lists.map(|(name, wanted)| (name, Some(listed(&wanted)))).collect();
        alterations.extend(alteration(resource, present, &lists));
    }
    // The rates come first and go last: replicas that are listed while there is none are not slowed down.
    let at = if rate.is_some() { 0 } else { alterations.len() };
    rates.into_iter().for_each(|rates| alterations.insert(at, rates));
    alterations
}

/// Pairs of partition and broker.
type Replicas = BTreeSet<(i32, i32)>;

/// For each topic with partitions that move: the replicas that are copied from, and those that are made.
fn moving(image: &MetadataImage) -> BTreeMap<Arc<str>, [Replicas; 2]> {
    let mut found: BTreeMap<Arc<str>, [Replicas; 2]> = BTreeMap::new();
    for key in image.replica_index().reassigning() {
        let Some((topic, state)) = image.topic_by_id(key.0).zip(image.partition(key)) else { continue };
        let [leaders, followers] = found.entry(Arc::clone(&topic.name)).or_default();
        for id in &state.replicas {
            let side = if state.adding.contains(id) { &mut *followers } else { &mut *leaders };
            side.insert((key.1, id.0));
        }
    }
    found
}

fn includes(present: Option<&Overrides>, name: &str, wanted: &Replicas) -> bool {
    let Some(text) = present.and_then(|present| present.get(name)) else { return wanted.is_empty() };
    let listed: BTreeSet<&str> = text.split(',').map(str::trim).collect();
    listed.contains("*") || wanted.iter().all(|(partition, id)| listed.contains(format!("{partition}:{id}").as_str()))
}

fn listed(replicas: &Replicas) -> String {
    replicas.iter().map(|(partition, id)| format!("{partition}:{id}")).collect::<Vec<_>>().join(",")
}

/// What makes `present` say what is wanted; `None` if it does.
fn alteration(
    resource: ConfigResource,
    present: Option<&Overrides>,
    wanted: &[(&str, Option<String>)],
) -> Option<ConfigAlteration> {
    let differs = |(name, value): &&(&str, Option<String>)| present.and_then(|it| it.get(*name)) != value.as_ref();
    let operation = |(name, value): &(&str, Option<String>)| ConfigOperation {
        name: (*name).into(),
        op: if value.is_some() { ConfigOp::Set } else { ConfigOp::Delete },
        value: value.as_deref().map(Arc::from),
    };
    let operations: Vec<ConfigOperation> = wanted.iter().filter(differs).map(operation).collect();
    (!operations.is_empty()).then_some(ConfigAlteration { resource, changes: ConfigChanges::Incremental(operations) })
}

#[cfg(test)]
mod tests {
    use taffrail_core::event::{MetadataEvent, PartitionState};
    use taffrail_core::ids::BrokerId;

    use super::*;
    use crate::kubernetes::fixtures;

    /// A topic of two partitions, of which the first gets a replica on broker 2 if it moves.
    fn image(moves: bool) -> MetadataImage {
        let mut image = fixtures::image(&[None; 3], &[&[0, 1], &[1, 0]]);
        if moves {
            let ids = |ids: &[i32]| ids.iter().map(|id| BrokerId(*id)).collect::<Vec<_>>();
            let topic_id = image.topic("t").unwrap().id;
            let mut state = PartitionState::new(ids(&[0, 1, 2]), ids(&[0, 1]));
            (state.adding, state.removing) = (ids(&[2]), ids(&[1]));
            let state = Arc::new(state);
            image.apply(&MetadataEvent::PartitionChanged { topic_id, partition: 0, state }).unwrap();
        }
        image
    }

    /// Carries out what is to be changed; gives it as `resource name=value`.
    fn run(image: &mut MetadataImage, rate: Option<i64>) -> Vec<String> {
        let mut told = Vec::new();
        for ConfigAlteration { resource, changes } in changes(image, rate) {
            let ConfigChanges::Incremental(operations) = changes else { panic!("{changes:?}") };
            for operation in operations {
                told.push(format!("{resource} {}={}", operation.name, operation.value.as_deref().unwrap_or("")));
                let (name, value) = (operation.name, operation.value);
                image.apply(&MetadataEvent::ConfigChanged { resource: resource.clone(), name, value }).unwrap();
            }
        }
        told
    }

    #[test]
    fn what_moves_is_slowed_down_and_nothing_else_and_all_is_taken_away_when_it_is_over() {
        let mut before = image(false);
        assert_eq!(run(&mut before, Some(1000)), Vec::<String>::new(), "nothing moves");
        let mut moving = image(true);
        assert_eq!(
            run(&mut moving, Some(1000)),
            [
                "all brokers leader.replication.throttled.rate=1000",
                "all brokers follower.replication.throttled.rate=1000",
                "topic 't' leader.replication.throttled.replicas=0:0,0:1",
                "topic 't' follower.replication.throttled.replicas=0:2",
            ]
        );
        assert_eq!(run(&mut moving, Some(1000)), Vec::<String>::new(), "it is set already");
        assert_eq!(run(&mut moving, Some(2000)).len(), 2, "only the rates change");
        let topic_id = moving.topic("t").unwrap().id;
        let ids: Vec<BrokerId> = [0, 2].into_iter().map(BrokerId).collect();
        let state = Arc::new(PartitionState::new(ids.clone(), ids));
        moving.apply(&MetadataEvent::PartitionChanged { topic_id, partition: 0, state }).unwrap();
        assert_eq!(
            run(&mut moving, Some(2000)),
            [
                "topic 't' leader.replication.throttled.replicas=",
                "topic 't' follower.replication.throttled.replicas=",
                "all brokers leader.replication.throttled.rate=",
                "all brokers follower.replication.throttled.rate=",
            ]
        );
        assert_eq!(run(&mut moving, None), Vec::<String>::new());
    }

    #[test]
    fn lists_that_hold_for_more_are_left_as_they_are() {
        for (text, is_left) in [("*", true), ("0:0,0:1,5:7", true), ("0:0", false)] {
            let mut image = image(true);
            let (resource, name) = (ConfigResource::topic("t"), REPLICAS[0]);
            let set = MetadataEvent::ConfigChanged { resource, name: name.into(), value: Some(text.into()) };
            image.apply(&set).unwrap();
            assert_eq!(!run(&mut image, Some(5)).iter().any(|change| change.contains(name)), is_left, "{text}");
        }
    }
}
