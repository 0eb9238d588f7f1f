//! A shop whose operator looks after one cluster: a small Kubernetes API and groups in this process.

use std::sync::Arc;

use serde_json::{Value, json};
use taffrail_operator::crd::{Cluster, ConsumerGroup, ConsumerGroupStatus};
use taffrail_operator::kubernetes::api::Kube;
use taffrail_operator::kubernetes::caches::Caches;
use taffrail_operator::kubernetes::events::Events;
use taffrail_operator::kubernetes::groups::{GroupsPass, Reports, pass};
use taffrail_operator::kubernetes::wanted::{Wanted, validate};

use crate::fake_api::FakeApi;
use crate::memory_groups::MemoryGroups;

pub(crate) const GROUPS: &str = "/apis/taffrail.dev/v1alpha1/namespaces/shop/consumergroups";
pub(crate) const MAPS: &str = "/api/v1/namespaces/shop/configmaps";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/shop/deployments";
pub(crate) const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/shop/events";

/// The groups of one cluster, with a group `billing` that has read some of `orders`.
pub(crate) struct Shop {
    pub(crate) api: FakeApi,
    pub(crate) reports: Reports,
    pub(crate) wanted: Wanted,
    pub(crate) groups: MemoryGroups,
}

impl Shop {
    pub(crate) fn new() -> Self {
        let mut cluster = Cluster::new("log", serde_json::from_value(json!({})).unwrap());
        cluster.metadata.namespace = Some("shop".to_owned());
        let mut groups = MemoryGroups::default();
        groups.topic("orders", 2);
        groups.group("billing", "orders", &[40, 50]);
        let api = FakeApi::default();
        Self { reports: reports(&api), api, wanted: validate(&cluster).unwrap(), groups }
    }

    /// The operator starts anew.
    pub(crate) fn restart(&mut self) {
        self.reports = reports(&self.api);
    }

    pub(crate) fn put(&self, name: &str, mut spec: Value) {
        spec["clusterRef"] = json!({"name": "log"});
        let mut group = self.api.list(GROUPS).into_iter().find(|group| group["metadata"]["name"] == name);
        let generation = group.as_ref().map_or(0, |group| group["metadata"]["generation"].as_i64().unwrap());
        let group = group.get_or_insert_with(
            || json!({"apiVersion": "taffrail.dev/v1alpha1", "kind": "ConsumerGroup", "metadata": {"name": name}}),
        );
        group["metadata"]["generation"] = (generation + 1).into();
        group["spec"] = spec;
        self.api.put(GROUPS, group.clone());
    }

    fn resources(&self) -> Vec<Arc<ConsumerGroup>> {
        self.api.list(GROUPS).into_iter().map(|group| Arc::new(serde_json::from_value(group).unwrap())).collect()
    }

    pub(crate) fn status(&self, name: &str) -> ConsumerGroupStatus {
        let is_it = |group: &&Arc<ConsumerGroup>| group.metadata.name.as_deref() == Some(name);
        self.resources().iter().find(is_it).unwrap().status.clone().unwrap_or_default()
    }

    pub(crate) async fn pass(&mut self) -> GroupsPass {
        self.pass_after(&[]).await
    }

    /// A pass that is told of resources that are gone.
    pub(crate) async fn pass_after(&mut self, removed: &[Arc<ConsumerGroup>]) -> GroupsPass {
        let resources = self.resources();
        pass(&mut self.reports, &self.wanted, &mut self.groups, &resources, removed).await
    }

    /// Takes a resource away, and has the operator see it.
    pub(crate) async fn delete(&mut self, name: &str) -> GroupsPass {
        let resources = self.resources();
        let gone = resources.iter().find(|group| group.metadata.name.as_deref() == Some(name)).unwrap();
        self.api.remove(GROUPS, name);
        self.pass_after(&[Arc::clone(gone)]).await
    }

    pub(crate) fn condition(&self, name: &str, type_: &str) -> Option<(String, String)> {
        let found = self.status(name).conditions.into_iter().find(|found| found.type_ == type_)?;
        Some((found.status, found.reason))
    }

    pub(crate) fn events(&self) -> Vec<String> {
        let events = self.api.list(EVENTS);
        events.iter().map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
    }
}

/// As after a start of the operator, which has listed everything.
fn reports(api: &FakeApi) -> Reports {
    let caches = Arc::new(Caches::default());
    api.list(MAPS).into_iter().for_each(|map| caches.maps.put(serde_json::from_value(map).unwrap()));
    Reports::new(Kube::new(api.client()), Events::new(api.client(), "test"), caches)
}

pub(crate) fn state(status: &str, reason: &str) -> Option<(String, String)> {
    Some((status.to_owned(), reason.to_owned()))
}

pub(crate) fn reset(id: &str, to: Value) -> Value {
    let mut reset = to;
    reset["requestId"] = id.into();
    json!({"management": "Managed", "reset": reset})
}

pub(crate) fn earliest(id: &str) -> Value {
    reset(id, json!({"to": "Earliest"}))
}
