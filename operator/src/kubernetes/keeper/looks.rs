//! What is looked up beside the Kubernetes API's watches and the metadata: lost records, and where brokers stand.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use taffrail_runtime::time;

use super::super::caches::cluster_key;
use super::super::claims::Claim;
use super::super::losses::{self, Loss};
use super::super::names::{METRICS_PORT, RACK_ANNOTATION, Role};
use super::super::observed::place;
use super::{Keeper, KeeperError, Scene};
use crate::crd::Topic;
use crate::crd::reasons::EventReason;

/// How often brokers are asked what was lost.
const LOSSES_EVERY: Duration = Duration::from_secs(15);

impl Keeper {
    /// Tells of lost records that brokers know of.
    pub(super) async fn tell_losses(&mut self, scene: &Scene) {
        let now = time::monotonic();
        let is_early = self.losses.1.is_some_and(|asked| now.duration_since(asked) < LOSSES_EVERY);
        if is_early || scene.wanted.stopped {
            return;
        }
        self.losses.1 = Some(now);
        let brokers = scene.observed.pods.iter().filter(|(node, _)| node.role == Role::Broker);
        let places = brokers.filter_map(|(_, pod)| place(pod, METRICS_PORT)).collect();
        for loss in self.losses.0.news(losses::ask(places).await) {
            tracing::warn!(
                topic = loss.topic,
                partition = loss.partition,
                from = loss.from,
                to = loss.to,
                "records are lost"
            );
            match self.topic_of(&loss) {
                Some(topic) => self.events.tell(&*topic, EventReason::DataLost, loss.note()).await,
                None => self.events.tell(&*scene.resource, EventReason::DataLost, loss.note()).await,
            }
        }
    }

    /// The resource that is about the topic.
    fn topic_of(&self, loss: &Loss) -> Option<Arc<Topic>> {
        let is_about = |topic: &Topic| {
            cluster_key(&topic.spec.cluster_ref, topic.namespace()) == self.key && topic.claimed() == loss.topic
        };
        self.caches.topics.select(is_about).into_iter().next()
    }

    /// Writes to brokers' pods where their nodes stand, once they have one: a broker waits for that word.
    pub(super) async fn racks(&self, scene: &Scene) -> Result<(), KeeperError> {
        let Some(key) = scene.wanted.topology_key.as_ref().filter(|_| !scene.wanted.paused) else { return Ok(()) };
        let waits = |pod: &Pod| pod.annotations().get(RACK_ANNOTATION).is_none_or(String::is_empty);
        let brokers = scene.observed.pods.iter().filter(|(node, pod)| node.role == Role::Broker && waits(pod));
        for (node, pod) in brokers {
            let Some(machine) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) else { continue };
            let note = match self.kube.label_of_node(machine, key).await {
                Ok(Some(rack)) => {
                    self.caches.pods.put(self.kube.annotate(&**pod, RACK_ANNOTATION, &rack).await?);
                    continue;
                }
                Ok(None) => format!("{node} waits for its rack: the Kubernetes node {machine} has no label {key}"),
                Err(error) => format!("{node} waits for its rack: {error}; install the chart with rbac.readNodes=true"),
            };
            self.events.tell(&*scene.resource, EventReason::RackUnknown, note).await;
        }
        Ok(())
    }
}
