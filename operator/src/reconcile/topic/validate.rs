//! From the raw spec to one that makes sense.

use std::collections::{BTreeMap, BTreeSet};

use taffrail_core::config::{self, BrokerLayers, Overrides, Scope};
use taffrail_core::control::PARTITIONS_PER_COMMAND_MAX;
use taffrail_core::ids::BrokerId;
use taffrail_core::topic_name;

use crate::crd::parts::{DeletionPolicy, Management};
use crate::crd::topic::DriftPolicy;
use crate::crd::{Topic, TopicSpec};
use crate::reconcile::cluster::ValidCluster;
use crate::yaml::{Loaded, Origin, Problem};

/// A Topic that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidTopic {
    /// Name of the topic.
    pub name: String,
    /// Partitions that it is to have; the cluster's default if `None`.
    pub partitions: Option<i32>,
    /// Replicas that each is to have; the cluster's default if `None`.
    pub replicas: Option<i16>,
    /// Replicas that it gets if it says nothing about them; `None` leaves that to the controllers.
    pub default_replicas: Option<i16>,
    /// Whether another number of replicas is acted on.
    pub moves_replicas: bool,
    /// Brokers of each partition, first the preferred leader; empty leaves that to the controllers.
    pub assignment: Vec<Vec<BrokerId>>,
    /// When it is deleted by itself, in milliseconds since 1970.
    pub delete_deadline_ms: Option<i64>,
    /// Whether partitions may be added although keys then land elsewhere.
    pub allows_keyed_expansion: bool,
    /// Settings that it is to have.
    pub config: Overrides,
    /// Whether we make it so, or only watch.
    pub management: Management,
    /// What happens when it differs.
    pub drift_policy: DriftPolicy,
    /// What happens when its resource goes.
    pub deletion_policy: DeletionPolicy,
    /// Where its resource was written.
    pub origin: Origin,
}

/// The topics of these resources, by name.
pub fn validate(
    topics: &[Loaded<Topic>],
    cluster: Option<&ValidCluster>,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, ValidTopic> {
    let mut valid: BTreeMap<String, ValidTopic> = BTreeMap::new();
    let layers = BrokerLayers {
        static_broker: cluster.map(|cluster| cluster.settings.at_start.clone()).unwrap_or_default(),
        dynamic_default: cluster.map(|cluster| cluster.settings.dynamic.clone()).unwrap_or_default(),
        ..BrokerLayers::default()
    };
    let brokers = cluster.and_then(|cluster| cluster.brokers);
    let cluster = cluster.map(|cluster| cluster.name.as_str()).or_else(|| {
        // Without a Cluster among the resources, all topics must name the same one.
        topics.first().map(|topic| topic.resource.spec.cluster_ref.name.as_str())
    });
    for topic in topics {
        let spec = &topic.resource.spec;
        let before = problems.len();
        let name = spec.topic_name.clone().or_else(|| topic.resource.metadata.name.clone()).unwrap_or_default();
        let field: &[&str] = if spec.topic_name.is_some() { &["spec", "topicName"] } else { &["metadata", "name"] };
        if let Err(error) = topic_name::validate(&name) {
            problems.push(topic.problem(field, error.to_string()));
        }
        if name.starts_with("__") && spec.management == Management::Managed {
            problems
                .push(topic.problem(field, format!("{name} belongs to the cluster itself: it can only be observed")));
        }
        if let Some(first) = valid.get(&name) {
            let at = format!("{}:{}", first.origin.file, first.origin.place.line);
            problems.push(topic.problem(field, format!("the topic {name} has a resource already, at {at}")));
        }
        if let Some(cluster) = cluster.filter(|cluster| *cluster != spec.cluster_ref.name) {
            let hint = config::hint(&spec.cluster_ref.name, [cluster]);
            let message = format!("there is no Cluster {}{hint}", spec.cluster_ref.name);
            problems.push(topic.problem(&["spec", "clusterRef", "name"], message));
        }
        check_sizes(topic, brokers, problems);
        let assignment = assignment(spec).unwrap_or_else(|message| {
            problems.push(topic.problem(&["spec", "assignment"], message));
            Vec::new()
        });
        if let Err(error) = config::validate_topic(&spec.config.0, &layers) {
            problems.push(topic.problem(&["spec", "config"], error.to_string()));
        }
        if problems.len() == before {
            let topic = ValidTopic {
                name: name.clone(),
                partitions: spec.partitions.or_else(|| some_len(assignment.len())),
                replicas: spec
                    .replicas
                    .or_else(|| some_len(assignment.first().map_or(0, Vec::len)))
                    .and_then(|replicas| i16::try_from(replicas).ok()),
                default_replicas: None,
                moves_replicas: false,
                assignment,
                delete_deadline_ms: spec.delete_deadline.as_ref().map(|deadline| deadline.0.as_millisecond()),
                allows_keyed_expansion: spec.allow_keyed_expansion,
                config: spec.config.0.clone(),
                management: spec.management,
                drift_policy: spec.drift_policy,
                deletion_policy: spec.deletion_policy,
                origin: topic.origin.clone(),
            };
            valid.insert(name, topic);
        }
    }
    valid
}

/// A length, unless there is nothing.
fn some_len(length: usize) -> Option<i32> {
    i32::try_from(length).ok().filter(|length| *length > 0)
}

/// The brokers of each partition: all partitions from 0 on, each once, with as many replicas as the others.
fn assignment(spec: &TopicSpec) -> Result<Vec<Vec<BrokerId>>, String> {
    let by_partition: BTreeMap<i32, &Vec<i32>> = spec.assignment.iter().map(|it| (it.partition, &it.brokers)).collect();
    let count = spec.assignment.len();
    if by_partition.len() != count || !by_partition.keys().copied().eq(0..i32::try_from(count).unwrap_or(i32::MAX)) {
        return Err(format!("must name each of the {count} partitions from 0 on once"));
    }
    let is = |said: Option<i32>, length: usize| said.is_none_or(|said| usize::try_from(said) == Ok(length));
    let replicas = by_partition.values().next().map_or(0, |brokers| brokers.len());
    if count > 0 && !(is(spec.partitions, count) && is(spec.replicas, replicas)) {
        return Err(format!("has {count} partitions of {replicas} replicas, and spec says otherwise"));
    }
    for (partition, brokers) in &by_partition {
        let distinct: BTreeSet<&i32> = brokers.iter().collect();
        if brokers.len() != replicas || distinct.len() != replicas {
            return Err(format!("partition {partition} needs {replicas} brokers that differ, as partition 0 has"));
        }
    }
    Ok(by_partition.into_values().map(|brokers| brokers.iter().map(|id| BrokerId(*id)).collect()).collect())
}

/// Refuses sizes that cannot be. `brokers` = how many there are, if the Cluster says so; where it does not, the controllers
/// have the word.
fn check_sizes(topic: &Loaded<Topic>, brokers: Option<i32>, problems: &mut Vec<Problem>) {
    let spec = &topic.resource.spec;
    if let Some(partitions) = spec.partitions.filter(|partitions| *partitions > PARTITIONS_PER_COMMAND_MAX as i32) {
        // Kubernetes says the same by a rule of the schema.
        let limit = PARTITIONS_PER_COMMAND_MAX;
        let message = format!("{partitions} is more than the {limit} partitions that one request may create");
        problems.push(topic.problem(&["spec", "partitions"], message));
    }
    if let (Some(replicas), Some(brokers)) = (spec.replicas, brokers)
        && replicas > brokers
    {
        let message = format!("{replicas} replicas need as many brokers, and the Cluster has {brokers}");
        problems.push(topic.problem(&["spec", "replicas"], message));
    }
    let min_insync = spec.config.0.get("min.insync.replicas").and_then(|value| value.trim().parse::<i32>().ok());
    // A topic without a word about replicas gets no more than there are brokers.
    if let (Some(min), Some(replicas)) = (min_insync, spec.replicas.or(brokers))
        && min > replicas
    {
        let message =
            format!("{min} is more than the topic's {replicas} replicas: no acks=all produce could ever succeed");
        problems.push(topic.problem(&["spec", "config", "min.insync.replicas"], message));
    }
    // Known to the table, so that it is stored, but without effect: worth a word in the log, not a refusal.
    for name in spec.config.0.keys() {
        if let Some(setting) = config::find(Scope::Topic, name).filter(|setting| !setting.acted_on) {
            tracing::debug!(setting = setting.name, "{}", setting.doc);
        }
    }
}
