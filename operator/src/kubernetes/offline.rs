//! Resources judged as the operator would judge them, without a cluster.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::caches::cluster_key;
use super::wanted::{Wanted, validate};
use crate::crd::Topic;
use crate::crd::parts::ClusterRef;
use crate::reconcile::{consumer_group, topic};
use crate::yaml::{Loaded, Problem, Resources};

/// Namespace of what names none, as `kubectl` has it.
const NAMESPACE: &str = "default";

/// Everything that the operator would say against these resources. Clusters that are not among them are believed in.
pub fn problems(resources: &Resources) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut clusters: BTreeMap<_, Wanted> = BTreeMap::new();
    for cluster in &resources.clusters {
        match validate(&cluster.resource) {
            Ok(wanted) => {
                let name = ClusterRef { name: cluster.resource.name_any(), namespace: None };
                clusters.insert(cluster_key(&name, namespace(cluster.resource.namespace())), wanted);
            }
            Err(said) => problems.extend(said.into_iter().map(|text| placed(cluster, &text))),
        }
    }
    for loaded in &resources.topics {
        let named = &loaded.resource.spec.cluster_ref;
        let wanted = clusters.get(&cluster_key(named, namespace(loaded.resource.namespace())));
        let valid = wanted.map(Wanted::for_topics);
        topic::validate(std::slice::from_ref(loaded), valid.as_ref(), &mut problems);
        problems.extend(stranger(loaded, wanted));
    }
    for loaded in &resources.groups {
        if let Err(flaws) = consumer_group::validate(&loaded.resource) {
            problems.extend(
                flaws.into_iter().map(|flaw| loaded.problem(&flaw.field.split('.').collect::<Vec<_>>(), flaw.message)),
            );
        }
    }
    problems
}

fn namespace(given: Option<String>) -> Option<String> {
    given.or_else(|| Some(NAMESPACE.to_owned()))
}

/// A Topic of a namespace that its Cluster does not allow.
fn stranger(topic: &Loaded<Topic>, wanted: Option<&Wanted>) -> Option<Problem> {
    let own = namespace(topic.resource.namespace()).unwrap_or_default();
    let is_allowed = wanted.is_none_or(|wanted| {
        let of_cluster = namespace(Some(wanted.names.namespace.clone()).filter(|name| !name.is_empty()));
        of_cluster.as_ref() == Some(&own) || wanted.allows(&own)
    });
    let message = "the Cluster does not list this namespace in spec.allowedNamespaces";
    (!is_allowed).then(|| topic.problem(&["metadata", "namespace"], message))
}

/// A text such as `spec.rollout.windows[0]: why` at its place.
fn placed<T>(loaded: &Loaded<T>, text: &str) -> Problem {
    let (field, message) = text.split_once(": ").unwrap_or(("", text));
    let steps: Vec<&str> = field.split(['.', '[']).filter(|step| !step.ends_with(']')).collect();
    Problem { field: field.to_owned(), ..loaded.problem(&steps, message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::load_texts;

    fn said(text: &str) -> Vec<String> {
        let resources = load_texts(&[("a.yaml".to_owned(), text.to_owned())]).unwrap();
        problems(&resources).iter().map(ToString::to_string).collect()
    }

    fn document(kind: &str, name: &str, spec: &str) -> String {
        format!("apiVersion: taffrail.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  {spec}\n---\n")
    }

    #[test]
    fn what_only_kubernetes_acts_on_is_taken() {
        let spec = "rollout: {strategy: OneByOne, windows: [{cron: 0 2 * * *, duration: 2h}]}\n  brokers: {storage: {size: 1Gi}}";
        let topic = "clusterRef: {name: log}\n  deleteDeadline: 2100-01-01T00:00:00Z";
        let text = document("Cluster", "log", spec) + &document("Topic", "orders", topic);
        assert_eq!(said(&text), Vec::<String>::new());
    }

    #[test]
    fn what_the_operator_would_refuse_is_told_with_its_place() {
        let log = |spec: &str| document("Cluster", "log", spec);
        for (text, expected) in [
            (
                log("rollout: {windows: [{cron: 0 25 * * *, duration: 2h}]}"),
                "a.yaml:5:13: spec.rollout.windows[0]: 25 is",
            ),
            (document("Cluster", &"x".repeat(41), "paused: false"), "a.yaml:3:12: metadata.name: "),
            (
                log("brokers: {replicas: 2}") + &document("Topic", "orders", "clusterRef: {name: log}\n  replicas: 3"),
                "a.yaml:12:3: spec.replicas: 3 replicas need as many brokers, and the Cluster has 2",
            ),
            (
                log("paused: false")
                    + &document("Topic", "orders", "clusterRef: {name: log, namespace: default}")
                        .replace("name: orders", "name: orders, namespace: shop"),
                "a.yaml:9:26: metadata.namespace: the Cluster does not list",
            ),
            (
                document(
                    "ConsumerGroup",
                    "billing",
                    "clusterRef: {name: log}\n  reset: {requestId: initialOffsets, to: Latest}",
                ),
                "a.yaml:6:11: spec.reset.requestId: this one stands for",
            ),
        ] {
            let said = said(&text);
            assert!(said.len() == 1 && said[0].starts_with(expected), "{said:?}, expected {expected}");
        }
    }
}
