//! What needs a restart when it changes, and why: a pod's revision.
//!
//! The hash is over what a Cluster asks for, not over the pod that is made of it: another release of the operator may write
//! pods otherwise, and rolls nothing by that. What follows from the number of nodes is not in it either, so that scaling
//! touches no old pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use ring::digest;
use serde::Serialize;

use super::names::{Node, PARTS_ANNOTATION, REVISION_LABEL, Role};
use super::wanted::Wanted;

/// Hexadecimal digits of a hash that are kept.
const DIGITS: usize = 10;

/// Why a pod is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Another image, or release.
    Image,
    /// A setting that is read at the start.
    Config,
    /// Processors and memory.
    Resources,
    /// What pods look like besides.
    Template,
    /// The zone that it is pinned to.
    Rack,
    /// Its disk.
    Storage,
    /// Somebody asked for a restart.
    Restart,
    /// What clients of further listeners are told.
    Listeners,
    /// The cluster is to stop.
    Stop,
    /// It was written by a release whose revisions cannot be read.
    Unknown,
}

impl Cause {
    const ALL: [Self; 7] =
        [Self::Image, Self::Config, Self::Resources, Self::Template, Self::Rack, Self::Storage, Self::Restart];

    /// Its name in status, events and annotations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Image => "Image",
            Self::Config => "Config",
            Self::Resources => "Resources",
            Self::Template => "Template",
            Self::Rack => "Rack",
            Self::Storage => "Storage",
            Self::Restart => "Restart",
            Self::Listeners => "Listeners",
            Self::Stop => "Stop",
            Self::Unknown => "Unknown",
        }
    }
}

/// Hashes of the parts of what a pod is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revision(BTreeMap<Cause, String>);

impl Revision {
    /// The revision that a node is to have, with this image. What its broker is told of further listeners is not in it: that
    /// is known bit by bit, and compared with the pod itself.
    pub fn of(wanted: &Wanted, node: Node, image: &str) -> Self {
        let is_broker = node.role == Role::Broker;
        let resources = if is_broker { &wanted.broker_resources } else { &wanted.controller_resources };
        let zone = is_broker.then(|| zone(wanted, node.id).or(wanted.topology_key.as_ref())).flatten();
        let replaced = is_broker.then(|| wanted.replace.get(&node.id)).flatten();
        // The template's image is the pod's, which counts by itself.
        let template = crate::crd::cluster::Template { image: None, ..wanted.template.clone() };
        let parts = [
            (Cause::Image, hash(&image)),
            (Cause::Config, hash(&wanted.settings.at_start)),
            (Cause::Resources, hash(resources)),
            (Cause::Template, hash(&template)),
            (Cause::Rack, hash(&zone)),
            (Cause::Storage, hash(&replaced)),
            (Cause::Restart, hash(&wanted.rollout.restart_nonce)),
        ];
        Self(parts.into())
    }

    /// The revision that a pod was made with.
    pub fn read(pod: &Pod) -> Self {
        let text = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(PARTS_ANNOTATION));
        let parts: BTreeMap<String, String> = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let known = Cause::ALL.into_iter().filter_map(|cause| Some((cause, parts.get(cause.name())?.clone())));
        Self(known.collect())
    }

    /// Label and annotation that a pod carries.
    pub fn write(&self, labels: &mut BTreeMap<String, String>, annotations: &mut BTreeMap<String, String>) {
        let parts: BTreeMap<&str, &String> = self.0.iter().map(|(cause, hash)| (cause.name(), hash)).collect();
        labels.insert(REVISION_LABEL.to_owned(), hash(&parts));
        annotations.insert(PARTS_ANNOTATION.to_owned(), serde_json::to_string(&parts).unwrap_or_default());
    }

    /// Why a pod of this revision has to be replaced by one of `other`; empty if it need not be.
    pub fn causes(&self, other: &Self) -> Vec<Cause> {
        if self.0.is_empty() {
            return vec![Cause::Unknown];
        }
        // A part that a release does not know is no reason to restart anything.
        let differs = |cause: &Cause| matches!((self.0.get(cause), other.0.get(cause)), (Some(a), Some(b)) if a != b);
        Cause::ALL.into_iter().filter(differs).collect()
    }
}

/// Zone that broker `id` is pinned to, where there are zones.
pub fn zone(wanted: &Wanted, id: i32) -> Option<&String> {
    let count = wanted.zones.len();
    usize::try_from(id).ok().filter(|_| count > 0).map(|id| &wanted.zones[id % count])
}

/// Short hash of anything that has a JSON form; maps are ordered, so equal things have equal hashes.
fn hash(value: &impl Serialize) -> String {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    let digest = digest::digest(&digest::SHA256, &bytes);
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    hex[..DIGITS].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd::Cluster;
    use crate::kubernetes::wanted;

    fn wanted(spec: &str) -> Wanted {
        let mut cluster = Cluster::new("log", serde_json::from_str(spec).unwrap());
        cluster.metadata.namespace = Some("shop".to_owned());
        wanted::validate(&cluster).unwrap()
    }

    fn causes(before: &str, after: &str, node: Node) -> Vec<Cause> {
        let revision = |spec| Revision::of(&wanted(spec), node, "image:1");
        revision(before).causes(&revision(after))
    }

    #[test]
    fn only_what_needs_a_restart_is_a_reason_for_one() {
        let broker = Node::broker(1);
        for (after, expected) in [
            (r#"{"brokers":{"replicas":5},"controllers":{"replicas":5}}"#, vec![]),
            (r#"{"config":{"log.retention.ms":"1000"}}"#, vec![]),
            (r#"{"config":{"group.initial.rebalance.delay.ms":"10"}}"#, vec![Cause::Config]),
            (r#"{"brokers":{"storage":{"size":"20Gi"}}}"#, vec![]),
            (r#"{"brokers":{"resources":{"limits":{"memory":"1Gi"}}}}"#, vec![Cause::Resources]),
            (r#"{"rollout":{"restartNonce":"a"}}"#, vec![Cause::Restart]),
            (r#"{"template":{"labels":{"team":"a"}}}"#, vec![Cause::Template]),
            (r#"{"brokers":{"rack":{"zones":["a","b"]}}}"#, vec![Cause::Rack]),
            (r#"{"brokers":{"replace":[{"id":1,"nonce":"a"}]}}"#, vec![Cause::Storage]),
            (r#"{"brokers":{"replace":[{"id":2,"nonce":"a"}]}}"#, vec![]),
        ] {
            assert_eq!(causes("{}", after, broker), expected, "{after}");
        }
        assert_eq!(causes("{}", r#"{"brokers":{"rack":{"zones":["a"]}}}"#, Node::controller(0)), vec![]);
    }

    #[test]
    fn a_pod_tells_its_revision_and_one_that_cannot_be_read_is_replaced() {
        let revision = Revision::of(&wanted("{}"), Node::broker(0), "image:1");
        let mut pod = Pod::default();
        assert_eq!(Revision::read(&pod).causes(&revision), [Cause::Unknown]);
        let (mut labels, mut annotations) = (BTreeMap::new(), BTreeMap::new());
        revision.write(&mut labels, &mut annotations);
        assert_eq!(labels[REVISION_LABEL].len(), DIGITS);
        pod.metadata.annotations = Some(annotations);
        assert_eq!(Revision::read(&pod), revision);
    }
}
