//! Which fields are acted on.
//!
//! The types and schemas are whole from the first release on; what stands behind them grows. A field that nothing acts
//! on is refused by name, so that nobody believes in a window or a deadline that is not kept.

use crate::yaml::{Loaded, Node, Problem, Resources, Value};

/// Fields of a Cluster that are acted on, below `spec`.
const CLUSTER: [&[&str]; 4] =
    [&["config"], &["controllers", "replicas"], &["brokers", "replicas"], &["brokers", "rack", "zones"]];

/// Fields of a Topic that are acted on, below `spec`.
const TOPIC: [&[&str]; 10] = [
    &["clusterRef", "name"],
    &["clusterRef", "namespace"],
    &["topicName"],
    &["partitions"],
    &["replicas"],
    &["config"],
    &["management"],
    &["driftPolicy"],
    &["deletionPolicy"],
    &["allowKeyedExpansion"],
];

/// A mistake for each field that is given and not acted on.
pub(super) fn refused(resources: &Resources) -> Vec<Problem> {
    let mut problems = Vec::new();
    resources.clusters.iter().for_each(|cluster| refuse(cluster, &CLUSTER, &mut problems));
    resources.topics.iter().for_each(|topic| refuse(topic, &TOPIC, &mut problems));
    problems
}

fn refuse<T>(loaded: &Loaded<T>, acted: &[&[&str]], problems: &mut Vec<Problem>) {
    if let Some(spec) = loaded.node.get("spec") {
        let mut path = vec!["spec"];
        descend(loaded, spec, &mut path, acted, problems);
    }
}

fn descend<'n, T>(
    loaded: &Loaded<T>,
    node: &'n Node,
    path: &mut Vec<&'n str>,
    acted: &[&[&str]],
    problems: &mut Vec<Problem>,
) {
    for entry in node.entries() {
        path.push(&entry.key);
        let below_spec = &path[1..];
        let whole = acted.iter().any(|field| below_spec.starts_with(field));
        let part = acted.iter().any(|field| field.starts_with(below_spec));
        if !whole {
            if part && matches!(entry.node.value, Value::Map(_)) {
                descend(loaded, &entry.node, path, acted, problems);
            } else {
                problems.push(loaded.problem(path, "not acted on yet: take it out"));
            }
        }
        path.pop();
    }
}
