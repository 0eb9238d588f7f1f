//! Clusters and Topics against a small Kubernetes API in this process, which fails when it is told to.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod fake_api;
mod memory_controller;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use taffrail_core::ids::BrokerId;
use taffrail_operator::crd::{Cluster, Topic};
use taffrail_operator::kubernetes::api::{Kube, Namespaced};
use taffrail_operator::kubernetes::cache::{Cache, Key};
use taffrail_operator::kubernetes::caches::Caches;
use taffrail_operator::kubernetes::events::Events;
use taffrail_operator::kubernetes::keeper::{Defaults, Inbox, Keeper};
use taffrail_operator::kubernetes::metrics::Metrics;
use taffrail_operator::kubernetes::topics;
use taffrail_operator::kubernetes::wanted::{Wanted, validate};
use taffrail_operator::platform::Platform;
use taffrail_operator::platform::local::LocalPlatform;

use fake_api::{Failure, FakeApi};

const CLUSTERS: &str = "/apis/taffrail.dev/v1alpha1/namespaces/shop/clusters";
const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies";
const TOPICS: &str = "/apis/taffrail.dev/v1alpha1/namespaces/shop/topics";

fn object<K: DeserializeOwned>(value: &Value) -> K {
    serde_json::from_value(value.clone()).unwrap()
}

/// An operator's view of one Cluster.
struct Stage {
    api: FakeApi,
    caches: Arc<Caches>,
    keeper: Keeper,
}

impl Stage {
    fn new(spec: Value) -> Self {
        let api = FakeApi::default();
        api.put(
            CLUSTERS,
            json!({
                "apiVersion": "taffrail.dev/v1alpha1", "kind": "Cluster",
                "metadata": {"name": "log", "generation": 1}, "spec": spec,
            }),
        );
        Self::over(api)
    }

    /// An operator that was just started.
    fn over(api: FakeApi) -> Self {
        let caches = Arc::new(Caches::default());
        let (key, client) = (Key::new("shop", "log"), api.client());
        let defaults = Defaults { image: Some("taffrail:1".to_owned()), epoch: 1 };
        let events = Events::new(client.clone(), "test");
        let metrics = Metrics::new(Arc::clone(&caches)).unwrap();
        let keeper = Keeper::new(
            key,
            Kube::new(client),
            Arc::clone(&caches),
            events,
            Arc::new(Inbox::default()),
            defaults,
            metrics,
        );
        Self { api, caches, keeper }
    }

    /// What watches would bring.
    fn sync(&self) {
        fn fill<K: Namespaced>(api: &FakeApi, collection: &str, cache: &Cache<K>) {
            api.list(collection).iter().for_each(|value| cache.put(object(value)));
        }
        let core = |plural: &str| format!("/api/v1/namespaces/shop/{plural}");
        fill(&self.api, CLUSTERS, &self.caches.clusters);
        fill(&self.api, &core("pods"), &self.caches.pods);
        fill(&self.api, &core("persistentvolumeclaims"), &self.caches.claims);
        fill(&self.api, &core("services"), &self.caches.services);
        fill(&self.api, &core("configmaps"), &self.caches.maps);
        fill(&self.api, &core("serviceaccounts"), &self.caches.accounts);
        fill(&self.api, "/apis/policy/v1/namespaces/shop/poddisruptionbudgets", &self.caches.budgets);
        fill(&self.api, POLICIES, &self.caches.policies);
    }

    /// One pass after the watches have brought everything; whether it came through.
    async fn pass(&mut self) -> bool {
        self.sync();
        let cluster = self.caches.clusters.get("shop", "log").unwrap();
        self.keeper.pass(&cluster).await.is_ok()
    }

    fn cluster(&self) -> Cluster {
        object(&self.api.list(CLUSTERS)[0])
    }

    fn condition(&self, type_: &str) -> Option<(String, String)> {
        let status = self.cluster().status.unwrap_or_default();
        let found = status.conditions.into_iter().find(|found| found.type_ == type_)?;
        Some((found.status, found.reason))
    }

    fn identity(&self) -> Value {
        let maps = self.api.list("/api/v1/namespaces/shop/configmaps");
        assert_eq!(maps.len(), 1);
        maps[0]["data"].clone()
    }
}

#[tokio::test]
async fn a_cluster_is_all_there_after_one_pass_and_nothing_is_written_again() {
    let mut stage = Stage::new(json!({"brokers": {"replicas": 2}, "controllers": {"replicas": 1}}));
    assert!(stage.pass().await);
    let expected = [
        "configmaps/log-identity",
        "persistentvolumeclaims/data-log-broker-0",
        "persistentvolumeclaims/data-log-broker-1",
        "persistentvolumeclaims/data-log-controller-0",
        "pods/log-broker-0",
        "pods/log-broker-1",
        "pods/log-controller-0",
        "secrets/log-trust",
        "serviceaccounts/log-nodes",
        "services/log-bootstrap",
        "services/log-brokers",
        "services/log-controllers",
        "networkpolicies/log-brokers",
        "networkpolicies/log-controllers",
        "poddisruptionbudgets/log-brokers",
        "poddisruptionbudgets/log-controllers",
        "clusters/log",
    ];
    assert_eq!(stage.api.names(), expected);
    assert_eq!(stage.condition("Ready"), Some(("False".to_owned(), "NoQuorum".to_owned())));
    assert_eq!(stage.cluster().status.unwrap().observed_generation, None, "it is not done");
    // The second pass says that pods start; from then on there is no news.
    assert!(stage.pass().await);
    stage.api.take_writes();
    assert!(stage.pass().await);
    assert_eq!(stage.api.take_writes(), Vec::<String>::new());
    // Neither does an operator that starts anew write anything.
    let mut again = Stage::over(stage.api.clone());
    assert!(again.pass().await);
    let writes = again.api.take_writes();
    let statuses = writes.iter().filter(|write| write.ends_with("/clusters/log/status")).count();
    assert_eq!(writes.len(), statuses, "nothing but since when it waits: {writes:?}");
}

#[tokio::test]
async fn whichever_call_fails_the_cluster_comes_out_the_same() {
    let spec = json!({"brokers": {"replicas": 1}, "controllers": {"replicas": 1}});
    let mut whole = Stage::new(spec.clone());
    assert!(whole.pass().await && whole.pass().await);
    let (names, calls) = (whole.api.names(), whole.api.calls());
    for failure in [Failure::Before, Failure::After] {
        for call in 0..calls {
            let mut stage = Stage::new(spec.clone());
            stage.api.fail_at(call, failure);
            // The operator dies at a failed call, and starts anew: nothing is remembered.
            let mut failed = 0;
            for _ in 0..4 {
                failed += usize::from(!stage.pass().await);
                stage = Stage::over(stage.api.clone());
            }
            assert_eq!(stage.api.names(), names, "call {call}, {failure:?}");
            assert!(failed <= 1, "call {call}, {failure:?}");
            let secrets: BTreeSet<String> = stage
                .api
                .list("/api/v1/namespaces/shop/secrets")
                .iter()
                .map(|secret| secret["data"]["secret"].as_str().unwrap().to_owned())
                .collect();
            assert_eq!(secrets.len(), 1);
            let identity = stage.identity();
            assert!(stage.pass().await);
            assert_eq!(stage.identity(), identity, "the identity is written once");
        }
    }
}

#[tokio::test]
async fn what_somebody_took_away_or_changed_is_put_right() {
    let mut stage = Stage::new(json!({"brokers": {"replicas": 1}, "controllers": {"replicas": 1}}));
    assert!(stage.pass().await);
    let services = "/api/v1/namespaces/shop/services";
    let mut service = stage.api.list(services).into_iter().find(|it| it["metadata"]["name"] == "log-brokers").unwrap();
    service["spec"]["publishNotReadyAddresses"] = false.into();
    stage.api.put(services, service);
    stage.api.take_writes();
    assert!(stage.pass().await);
    assert!(stage.api.take_writes().contains(&format!("PATCH {services}/log-brokers")));
}

#[tokio::test]
async fn a_disk_grows_with_the_spec_and_is_not_made_smaller() {
    let mut stage =
        Stage::new(json!({"brokers": {"replicas": 1, "storage": {"size": "2Gi"}}, "controllers": {"replicas": 1}}));
    assert!(stage.pass().await);
    let claims = "/api/v1/namespaces/shop/persistentvolumeclaims";
    let size = |stage: &Stage| {
        let claims = stage.api.list(claims);
        let broker = claims.iter().find(|claim| claim["metadata"]["name"] == "data-log-broker-0").unwrap();
        broker["spec"]["resources"]["requests"]["storage"].as_str().unwrap().to_owned()
    };
    for (wanted, expected) in [("3Gi", "3Gi"), ("1Gi", "3Gi")] {
        let mut cluster = stage.api.list(CLUSTERS)[0].clone();
        cluster["spec"]["brokers"]["storage"]["size"] = wanted.into();
        stage.api.put(CLUSTERS, cluster);
        assert!(stage.pass().await);
        assert_eq!(size(&stage), expected);
    }
}

#[tokio::test]
async fn a_spec_that_makes_no_sense_is_reported_and_nothing_is_built() {
    let mut stage = Stage::new(json!({"controllers": {"replicas": 2}}));
    assert!(stage.pass().await);
    assert_eq!(stage.api.names(), ["clusters/log"]);
    assert_eq!(stage.condition("Stalled"), Some(("True".to_owned(), "InvalidSpec".to_owned())));
}

#[tokio::test]
async fn a_paused_cluster_is_reported_and_left_alone() {
    let mut stage = Stage::new(json!({"paused": true}));
    assert!(stage.pass().await);
    assert_eq!(stage.api.names(), ["configmaps/log-identity", "clusters/log"]);
    assert_eq!(stage.condition("Paused"), Some(("True".to_owned(), "Asked".to_owned())));
}

#[tokio::test]
async fn a_stopped_cluster_loses_its_pods_and_keeps_disks_and_identity() {
    let mut stage = Stage::new(json!({"brokers": {"replicas": 1}, "controllers": {"replicas": 1}}));
    assert!(stage.pass().await);
    let identity = stage.identity();
    let mut cluster = stage.api.list(CLUSTERS)[0].clone();
    cluster["spec"]["lifecycle"] = "Stopped".into();
    stage.api.put(CLUSTERS, cluster);
    let mut stage = Stage::over(stage.api.clone());
    for _ in 0..3 {
        assert!(stage.pass().await);
        stage = Stage::over(stage.api.clone());
    }
    let names = stage.api.names();
    assert!(!names.iter().any(|name| name.starts_with("pods/")), "{names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with("persistentvolumeclaims/")).count(), 2);
    assert_eq!(stage.condition("Ready"), Some(("True".to_owned(), "Stopped".to_owned())));
    let mut cluster = stage.api.list(CLUSTERS)[0].clone();
    cluster["spec"]["lifecycle"] = "Running".into();
    stage.api.put(CLUSTERS, cluster);
    assert!(stage.pass().await);
    assert_eq!(stage.api.names().iter().filter(|name| name.starts_with("pods/")).count(), 2);
    assert_eq!(stage.identity(), identity);
}

/// Topics of one cluster.
struct Shop {
    api: FakeApi,
    platform: LocalPlatform,
    wanted: Wanted,
}

impl Shop {
    async fn new() -> Self {
        let mut cluster = Cluster::new("log", serde_json::from_value(json!({"brokers": {"replicas": 1}})).unwrap());
        cluster.metadata.namespace = Some("shop".to_owned());
        Self {
            api: FakeApi::default(),
            platform: memory_controller::with_broker(BrokerId(0)).await,
            wanted: validate(&cluster).unwrap(),
        }
    }

    fn put(&self, name: &str, mut spec: Value) {
        spec["clusterRef"] = json!({"name": "log"});
        let (api, kind) = ("taffrail.dev/v1alpha1", "Topic");
        let metadata = json!({"name": name, "generation": 1});
        self.api.put(TOPICS, json!({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}));
    }

    fn topics(&self) -> Vec<Arc<Topic>> {
        self.api.list(TOPICS).iter().map(|topic| Arc::new(object(topic))).collect()
    }

    fn topic(&self, name: &str) -> Arc<Topic> {
        self.topics().into_iter().find(|topic| topic.metadata.name.as_deref() == Some(name)).unwrap()
    }

    /// Takes a resource away; what a watch would tell of it.
    fn delete(&self, name: &str) -> Arc<Topic> {
        let gone = self.topic(name);
        self.api.remove(TOPICS, name);
        gone
    }

    async fn pass(&self, removed: Vec<Arc<Topic>>) -> bool {
        let kube = Kube::new(self.api.client());
        topics::pass(&kube, &self.wanted, &self.platform, &self.topics(), removed).await.is_ok()
    }

    fn condition(&self, name: &str, type_: &str) -> Option<(String, String)> {
        let status = self.topic(name).status.clone().unwrap_or_default();
        let found = status.conditions.into_iter().find(|found| found.type_ == type_)?;
        Some((found.status, found.reason))
    }

    fn partitions(&self, topic: &str) -> Option<i32> {
        self.platform.metadata().topic(topic).map(|topic| topic.partition_count())
    }
}

fn text(status: &str, reason: &str) -> Option<(String, String)> {
    Some((status.to_owned(), reason.to_owned()))
}

#[tokio::test]
async fn a_topic_is_made_reported_and_not_written_again() {
    let shop = Shop::new().await;
    shop.put("orders", json!({"partitions": 3, "replicas": 1}));
    assert!(shop.pass(vec![]).await);
    assert_eq!(shop.partitions("orders"), Some(3));
    assert_eq!(shop.condition("orders", "Ready"), text("True", "Serving"));
    shop.api.take_writes();
    assert!(shop.pass(vec![]).await);
    assert_eq!(shop.api.take_writes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_topic_whose_report_was_lost_is_not_made_twice() {
    for failure in [Failure::Before, Failure::After] {
        let shop = Shop::new().await;
        shop.put("orders", json!({"partitions": 3}));
        shop.api.fail_at(0, failure);
        assert!(!shop.pass(vec![]).await);
        let id = shop.platform.metadata().topic("orders").unwrap().id;
        assert!(shop.pass(vec![]).await);
        assert_eq!(shop.platform.metadata().topic("orders").unwrap().id, id);
        assert_eq!(shop.condition("orders", "Ready"), text("True", "Serving"));
    }
}

#[tokio::test]
async fn of_two_resources_for_one_topic_the_older_owns_and_hands_over_when_it_goes() {
    let shop = Shop::new().await;
    let spec = json!({"topicName": "orders", "partitions": 1, "deletionPolicy": "Delete"});
    shop.put("a", spec.clone());
    shop.put("b", spec);
    assert!(shop.pass(vec![]).await);
    assert_eq!(shop.condition("a", "Ready"), text("True", "Serving"));
    assert_eq!(shop.condition("b", "Conflict"), text("True", "OwnedByAnother"));
    let id = shop.platform.metadata().topic("orders").unwrap().id;
    let gone = shop.delete("a");
    assert!(shop.pass(vec![gone]).await);
    assert_eq!(shop.platform.metadata().topic("orders").unwrap().id, id, "the data stay");
    assert_eq!(shop.condition("b", "Ready"), text("True", "Serving"));
    assert_eq!(shop.condition("b", "Conflict"), None);
    let gone = shop.delete("b");
    assert!(shop.pass(vec![gone]).await);
    assert_eq!(shop.partitions("orders"), None, "the last one takes the topic along");
}

#[tokio::test]
async fn a_deleted_resource_takes_only_the_very_topic_along_that_it_was_about() {
    let shop = Shop::new().await;
    for (name, policy, is_kept) in [("kept", "Retain", true), ("gone", "Delete", false)] {
        shop.put(name, json!({"partitions": 1, "deletionPolicy": policy}));
        assert!(shop.pass(vec![]).await);
        let gone = shop.delete(name);
        assert!(shop.pass(vec![gone]).await);
        assert_eq!(shop.partitions(name).is_some(), is_kept, "{name}");
    }
    shop.put("new", json!({"partitions": 1, "deletionPolicy": "Delete"}));
    assert!(shop.pass(vec![]).await);
    let mut stale = Topic::clone(&shop.delete("new"));
    stale.status.as_mut().unwrap().topic_id = Some("AAAAAAAAAAAAAAAAAAAAAA".to_owned());
    assert!(shop.pass(vec![Arc::new(stale)]).await);
    assert_eq!(shop.partitions("new"), Some(1), "a topic of another life is not touched");
}

#[tokio::test]
async fn what_cannot_be_is_a_condition() {
    let shop = Shop::new().await;
    shop.put("wide", json!({"partitions": 1, "replicas": 2}));
    shop.put("watched", json!({"management": "Observe"}));
    assert!(shop.pass(vec![]).await);
    assert_eq!(shop.condition("wide", "Stalled"), text("True", "InvalidSpec"));
    assert_eq!(shop.condition("watched", "Ready"), text("False", "NotFound"));
}

#[tokio::test]
async fn policies_and_budgets_go_when_the_cluster_wants_none() {
    let mut stage = Stage::new(json!({"brokers": {"replicas": 1}, "controllers": {"replicas": 1}}));
    assert!(stage.pass().await);
    assert_eq!(stage.api.list(POLICIES).len(), 2);
    let mut cluster = stage.api.list(CLUSTERS).remove(0);
    cluster["spec"]["networkPolicy"] = json!({"disabled": true});
    cluster["spec"]["pdb"] = json!({"disabled": true});
    stage.api.put(CLUSTERS, cluster);
    assert!(stage.pass().await);
    let left: Vec<String> = stage.api.names().into_iter().filter(|name| name.contains("log-brokers")).collect();
    assert_eq!(left, ["services/log-brokers"]);
}

#[tokio::test]
async fn every_broker_of_a_further_listener_has_a_service_and_tells_what_that_was_given() {
    const SERVICES: &str = "/api/v1/namespaces/shop/services";
    const PODS: &str = "/api/v1/namespaces/shop/pods";
    let listeners = json!([{"name": "plain", "port": 9092}, {"name": "ext", "port": 9094, "type": "NodePort"}]);
    let mut stage =
        Stage::new(json!({"brokers": {"replicas": 2}, "controllers": {"replicas": 1}, "listeners": listeners}));
    let labels = json!({"taffrail.dev/cluster": "log", "taffrail.dev/listener": "ext"});
    stage.api.put(SERVICES, json!({"metadata": {"name": "log-broker-7-ext", "labels": labels}, "spec": {}}));
    assert!(stage.pass().await);
    let mut services: Vec<Value> = stage.api.list(SERVICES);
    services.retain(|service| service["spec"]["type"] == "NodePort");
    let names: Vec<&str> = services.iter().map(|service| service["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["log-broker-0-ext", "log-broker-1-ext"]);
    assert!(!stage.api.names().contains(&"services/log-broker-7-ext".to_owned()), "its broker is not there");
    // The second one's is given a port, and pods are made anew.
    services[1]["spec"]["ports"][0]["nodePort"] = 30123.into();
    stage.api.put(SERVICES, services[1].clone());
    stage.api.list(PODS).iter().for_each(|pod| stage.api.remove(PODS, pod["metadata"]["name"].as_str().unwrap()));
    let mut stage = Stage::over(stage.api.clone());
    assert!(stage.pass().await);
    let pods = stage.api.list(PODS);
    let args = |name: &str| {
        let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name).unwrap();
        pod["spec"]["containers"][0]["args"].to_string()
    };
    assert!(args("log-broker-1").contains("EXT=0.0.0.0:9094,$(HOST_IP):30123"), "{}", args("log-broker-1"));
    assert!(!args("log-broker-0").contains("--listener"));
}

#[tokio::test]
async fn a_compacted_topic_is_not_grown_without_a_word() {
    let shop = Shop::new().await;
    let spec = |partitions: i32, allows: bool| json!({"partitions": partitions, "replicas": 1, "config": {"cleanup.policy": "compact"}, "allowKeyedExpansion": allows});
    shop.put("orders", spec(1, false));
    assert!(shop.pass(vec![]).await);
    shop.put("orders", spec(2, false));
    assert!(shop.pass(vec![]).await);
    assert_eq!(
        (shop.partitions("orders"), shop.condition("orders", "Stalled")),
        (Some(1), text("True", "KeysWouldMove"))
    );
    shop.put("orders", spec(2, true));
    assert!(shop.pass(vec![]).await);
    assert_eq!((shop.partitions("orders"), shop.condition("orders", "Stalled")), (Some(2), None));
}

#[tokio::test]
async fn a_topic_whose_deadline_is_over_goes_and_stays_away() {
    let shop = Shop::new().await;
    shop.put("orders", json!({"replicas": 1, "deleteDeadline": "2100-01-01T00:00:00Z"}));
    assert!(shop.pass(vec![]).await);
    assert_eq!(shop.condition("orders", "Ready"), text("True", "Serving"));
    shop.put("orders", json!({"replicas": 1, "deleteDeadline": "2026-01-01T00:00:00Z"}));
    for _ in 0..2 {
        assert!(shop.pass(vec![]).await);
        assert_eq!((shop.partitions("orders"), shop.condition("orders", "Ready")), (None, text("False", "Expired")));
    }
}

#[tokio::test]
async fn an_assignment_is_taken_as_it_is_or_refused_with_what_is_wrong() {
    let shop = Shop::new().await;
    let broker = shop.platform.metadata().brokers().keys().next().unwrap().0;
    let assign = |assignment: Value| json!({"assignment": assignment});
    shop.put("orders", assign(json!([{"partition": 0, "brokers": [broker]}, {"partition": 1, "brokers": [broker]}])));
    shop.put("lost", assign(json!([{"partition": 0, "brokers": [broker + 1]}])));
    shop.put("holed", assign(json!([{"partition": 1, "brokers": [broker]}])));
    shop.put("twice", assign(json!([{"partition": 0, "brokers": [broker, broker]}])));
    assert!(shop.pass(vec![]).await);
    assert_eq!((shop.partitions("orders"), shop.condition("orders", "Ready")), (Some(2), text("True", "Serving")));
    assert_eq!(shop.condition("lost", "Stalled"), text("True", "Refused"));
    assert_eq!(shop.condition("holed", "Stalled"), text("True", "InvalidSpec"));
    assert_eq!(shop.condition("twice", "Stalled"), text("True", "InvalidSpec"));
}
