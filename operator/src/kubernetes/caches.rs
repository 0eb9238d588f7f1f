//! Everything that is watched.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::task;

use super::api::Namespaced;
use super::cache::{Cache, Change, Key};
use super::names::{CLUSTER_LABEL, MANAGED_BY_LABEL, MANAGER, Names, Node, node_of};
use crate::crd::parts::ClusterRef;
use crate::crd::{Cluster, ConsumerGroup, Topic};

/// What the watches have brought.
#[derive(Debug, Default)]
pub struct Caches {
    /// Clusters.
    pub clusters: Cache<Cluster>,
    /// Topics.
    pub topics: Cache<Topic>,
    /// ConsumerGroups.
    pub groups: Cache<ConsumerGroup>,
    /// Pods of Clusters; the same holds for what follows.
    pub pods: Cache<Pod>,
    /// Disks.
    pub claims: Cache<PersistentVolumeClaim>,
    /// Services.
    pub services: Cache<Service>,
    /// ConfigMaps.
    pub maps: Cache<ConfigMap>,
    /// ServiceAccounts.
    pub accounts: Cache<ServiceAccount>,
    /// PodDisruptionBudgets.
    pub budgets: Cache<PodDisruptionBudget>,
    /// NetworkPolicies.
    pub policies: Cache<NetworkPolicy>,
}

/// What a watch tells.
#[derive(Clone, Debug)]
pub enum News {
    /// A Cluster changed, or something that belongs to it.
    Cluster(Key),
    /// A Topic of this Cluster changed.
    Topic(Key),
    /// A Topic of this Cluster was deleted.
    TopicDeleted(Key, Arc<Topic>),
    /// A ConsumerGroup of this Cluster changed.
    Group(Key),
    /// A ConsumerGroup of this Cluster was deleted.
    GroupDeleted(Key, Arc<ConsumerGroup>),
}

impl Caches {
    /// Whether everything that there is has been listed once.
    pub fn is_synced(&self) -> bool {
        self.clusters.is_synced()
            && self.topics.is_synced()
            && self.groups.is_synced()
            && self.pods.is_synced()
            && self.claims.is_synced()
            && self.services.is_synced()
            && self.maps.is_synced()
            && self.accounts.is_synced()
            && self.budgets.is_synced()
            && self.policies.is_synced()
    }

    /// The pods of a Cluster, by their nodes.
    pub fn pods_of(&self, names: &Names) -> BTreeMap<Node, Arc<Pod>> {
        let is_own = |pod: &Pod| {
            pod.metadata.namespace.as_ref() == Some(&names.namespace)
                && pod.labels().get(CLUSTER_LABEL) == Some(&names.cluster)
        };
        self.pods.select(is_own).into_iter().filter_map(|pod| Some((node_of(pod.labels())?, pod))).collect()
    }

    /// Watches everything in a namespace (all if `None`) until `stop`. `told` hears of every change.
    pub fn watch(
        self: &Arc<Self>,
        client: &Client,
        namespace: Option<&str>,
        told: &Arc<dyn Fn(News) + Send + Sync>,
        stop: &Shutdown,
    ) {
        let all = watcher::Config::default();
        let ours = watcher::Config::default().labels(&format!("{MANAGED_BY_LABEL}={MANAGER}"));
        let watched = Watched { caches: Arc::clone(self), client, namespace, stop };
        watched.start(
            |caches| &caches.clusters,
            all.clone(),
            told,
            |cluster: &Arc<Cluster>, _| Some(News::Cluster(Key::new(cluster.namespace()?, cluster.name_any()))),
        );
        watched.start(
            |caches| &caches.topics,
            all.clone(),
            told,
            |topic: &Arc<Topic>, change| {
                let key = cluster_key(&topic.spec.cluster_ref, topic.namespace());
                Some(match change {
                    Change::Deleted => News::TopicDeleted(key, Arc::clone(topic)),
                    Change::Applied | Change::Missed => News::Topic(key),
                })
            },
        );
        watched.start(
            |caches| &caches.groups,
            all,
            told,
            |group: &Arc<ConsumerGroup>, change| {
                let key = cluster_key(&group.spec.cluster_ref, group.namespace());
                let seen = group.status.as_ref().and_then(|status| status.observed_generation);
                if change == Change::Applied && seen == group.metadata.generation {
                    // Our own report.
                    return None;
                }
                Some(match change {
                    Change::Deleted => News::GroupDeleted(key, Arc::clone(group)),
                    Change::Applied | Change::Missed => News::Group(key),
                })
            },
        );
        watched.start(|caches| &caches.pods, ours.clone(), told, belongs::<Pod>);
        watched.start(|caches| &caches.claims, ours.clone(), told, belongs::<PersistentVolumeClaim>);
        watched.start(|caches| &caches.services, ours.clone(), told, belongs::<Service>);
        watched.start(|caches| &caches.maps, ours.clone(), told, belongs::<ConfigMap>);
        watched.start(|caches| &caches.accounts, ours.clone(), told, belongs::<ServiceAccount>);
        watched.start(|caches| &caches.budgets, ours.clone(), told, belongs::<PodDisruptionBudget>);
        watched.start(|caches| &caches.policies, ours, told, belongs::<NetworkPolicy>);
    }
}

/// The Cluster that a resource of `namespace` refers to.
pub fn cluster_key(reference: &ClusterRef, namespace: Option<String>) -> Key {
    let namespace = reference.namespace.clone().or(namespace).unwrap_or_default();
    Key::new(namespace, reference.name.clone())
}

/// The Cluster that an object belongs to, by its label.
fn belongs<K: Namespaced>(object: &Arc<K>, _: Change) -> Option<News> {
    let cluster = object.labels().get(CLUSTER_LABEL)?.clone();
    Some(News::Cluster(Key::new(object.namespace()?, cluster)))
}

/// Where to watch.
struct Watched<'a> {
    caches: Arc<Caches>,
    client: &'a Client,
    namespace: Option<&'a str>,
    stop: &'a Shutdown,
}

impl Watched<'_> {
    fn start<K: Namespaced>(
        &self,
        cache: fn(&Caches) -> &Cache<K>,
        selector: watcher::Config,
        told: &Arc<dyn Fn(News) + Send + Sync>,
        news: fn(&Arc<K>, Change) -> Option<News>,
    ) {
        let client = self.client.clone();
        let api: Api<DeserializeGuard<K>> = match self.namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        };
        let namespace = self.namespace.map(str::to_owned);
        let (caches, told) = (Arc::clone(&self.caches), Arc::clone(told));
        cache(&caches).expect_list();
        task::spawn_until(self.stop.clone(), async move {
            let tell = |object: &Arc<K>, change| news(object, change).into_iter().for_each(|news| told(news));
            cache(&caches).watch(api, namespace, selector, tell).await;
        });
    }
}
