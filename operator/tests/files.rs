//! Files of resources are taken whole, or refused with the place and name of every mistake.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::path::Path;

use taffrail_core::config::{Kind, Scope};
use taffrail_operator::crd::settings;
use taffrail_operator::local::load;
use taffrail_operator::reconcile::{self, Desired};
use taffrail_operator::yaml::load_texts;

fn take(text: &str) -> Result<Desired, String> {
    let resources = load_texts(&[("a.yaml".to_owned(), text.to_owned())]).map_err(|problems| problems.to_string())?;
    reconcile::validate(&resources).map_err(|problems| problems.to_string())
}

/// A topic document whose `spec` goes on with these lines, which start at line 8.
fn topic(spec: &str) -> String {
    let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: taffrail.dev/v1alpha1\nkind: Topic\nmetadata:\n  name: orders\nspec:\n  clusterRef:\n    name: dev\n{spec}"
    )
}

#[test]
fn a_whole_file_is_taken() {
    let text = "apiVersion: taffrail.dev/v1alpha1\nkind: Cluster\nmetadata: {name: dev}\nspec:\n  config:\n    \
                log.retention.hours: 24\n    num.partitions: 3\n    group.initial.rebalance.delay.ms: '0'\n    \
                log.cleaner.threads: 2\n  brokers:\n    replicas: 3\n    rack: {zones: [a, b]}\n  controllers: {replicas: \
                3}\n---\n"
        .to_owned()
        + &topic(
            "topicName: Orders_1\npartitions: 6\nconfig:\n  retention.ms: 3600000\n  cleanup.policy: compact,delete",
        );
    let desired = take(&text).unwrap();
    let cluster = desired.cluster.unwrap();
    assert_eq!(cluster.name, "dev");
    assert_eq!((cluster.brokers, cluster.controllers), (Some(3), Some(3)));
    assert_eq!(cluster.zones, ["a", "b"]);
    assert_eq!(cluster.settings.dynamic.keys().collect::<Vec<_>>(), ["log.cleaner.threads"]);
    assert_eq!(cluster.settings.at_start["log.retention.hours"], "24");
    let topic = &desired.topics["Orders_1"];
    assert_eq!((topic.partitions, topic.replicas), (Some(6), None));
    assert_eq!(topic.config["retention.ms"], "3600000");
    assert_eq!(topic.origin.place.line, 15);
}

#[test]
fn mistakes_in_a_topic_are_told_with_place_field_and_nearest_name() {
    let cases = [
        ("partitons: 3", "a.yaml:8:3: spec.partitons: unknown field (did you mean partitions?)"),
        ("partitions: three", "a.yaml:8:15: spec.partitions: expected a whole number, found the text \"three\""),
        ("partitions: 0", "a.yaml:8:15: spec.partitions: 0 is less than 1"),
        (
            "partitions: 20000",
            "a.yaml:8:15: spec.partitions: more than the 10000 partitions that one request may create",
        ),
        (
            "partitions: 200000",
            "a.yaml:8:15: spec.partitions: more than the 10000 partitions that one request may create",
        ),
        ("topicName: a b", "a.yaml:8:14: spec.topicName: \"a b\" does not match ^[a-zA-Z0-9._-]+$"),
        (
            "topicName: __consumer_offsets",
            "a.yaml:8:3: spec.topicName: __consumer_offsets belongs to the cluster itself",
        ),
        ("deletionPolicy: Keep", "a.yaml:8:19: spec.deletionPolicy: \"Keep\" is none of Retain, Delete"),
        (
            "deletionPolicy: delete",
            "a.yaml:8:19: spec.deletionPolicy: \"delete\" is none of Retain, Delete (did you mean Delete?)",
        ),
        ("deleteDeadline: 2026-01-01T00:00:00Z", "a.yaml:8:3: spec.deleteDeadline: not acted on yet: take it out"),
        (
            "config:\n  retention.msec: 5",
            "a.yaml:9:5: spec.config[retention.msec]: unknown setting (did you mean retention.ms?)",
        ),
        (
            "config:\n  retention.ms: -5",
            "a.yaml:9:19: spec.config[retention.ms]: Invalid value -5 for configuration retention.ms: Value must be at least -1",
        ),
        ("config:\n  retention.ms: [1]", "a.yaml:9:19: spec.config[retention.ms]: expected one value, found a list"),
        ("config:\n  cleanup.policy: compct", "a.yaml:9:21: spec.config[cleanup.policy]: Invalid value compct"),
        (
            "replicas: 1\nconfig:\n  min.insync.replicas: 2",
            "a.yaml:6:3: spec: replicas must be at or over config['min.insync.replicas']",
        ),
        (
            "config:\n  min.compaction.lag.ms: 9\n  max.compaction.lag.ms: 3",
            "a.yaml:8:3: spec.config: conflict topic config setting",
        ),
        ("config: none", "a.yaml:8:11: spec.config: expected a map, found the text \"none\""),
        ("partitions: 1\npartitions: 2", "a.yaml:9:3: \"partitions\" is given twice"),
        ("partitions: [1", "not YAML"),
    ];
    for (spec, expected) in cases {
        let said = take(&topic(spec)).unwrap_err();
        assert!(said.contains(expected), "{spec}\n  said:     {said}\n  expected: {expected}");
    }
}

fn group(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: taffrail.dev/v1alpha1\nkind: ConsumerGroup\nmetadata: {{name: {name}}}\nspec: {{clusterRef: {{name: dev}}, {spec}}}\n"
    )
}

#[test]
fn mistakes_around_a_resource_are_told() {
    let head = "apiVersion: taffrail.dev/v1alpha1\n";
    let cluster = format!("{head}kind: Cluster\nmetadata: {{name: dev}}\nspec: ");
    let cases = [
        ("kind: Topic\nmetadata: {name: a}\nspec: {}".to_owned(), "a.yaml:1:1: apiVersion: is missing"),
        ("apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic".to_owned(), "apiVersion: expected taffrail.dev/v1alpha1"),
        (
            "apiVersion: taffrail.dev/v1\nkind: Topic".to_owned(),
            "apiVersion: this release knows taffrail.dev/v1alpha1 only",
        ),
        (
            format!("{head}kind: Topics"),
            "kind: the text \"Topics\" is none of Cluster, Topic, ConsumerGroup (did you mean Topic?)",
        ),
        (
            format!("{head}kind: Topic\nmetadata: {{name: Big}}\nspec: {{}}"),
            "metadata.name: the text \"Big\" is no name of a resource",
        ),
        (
            format!("{head}kind: Topic\nmetadata: {{nam: a}}\nspec: {{}}"),
            "metadata.nam: unknown field (did you mean name?)",
        ),
        (format!("{head}kind: Topic\nmetadata: {{name: a}}\nspec: {{}}"), "spec.clusterRef: is missing"),
        (format!("{head}kind: Topic\nmetadata: {{name: a}}\nspce: {{}}"), "spce: unknown field (did you mean spec?)"),
        ("- a\n- b".to_owned(), "expected a resource, found a list"),
        (
            format!("{cluster}{{config: {{num.partition: 3}}}}"),
            "spec.config[num.partition]: unknown setting (did you mean num.partitions?)",
        ),
        (format!("{cluster}{{config: {{node.id: 3}}}}"), "spec.config[node.id]: is not set here"),
        (format!("{cluster}{{rollout: {{windows: []}}}}"), "spec.rollout: not acted on yet"),
        (
            format!("{cluster}{{brokers: {{replicas: 10}}}}"),
            "spec.brokers.replicas: one process runs 1 to 9 brokers, not 10",
        ),
        (
            format!("{cluster}{{controllers: {{replicas: 2}}}}"),
            "spec.controllers.replicas: controllers.replicas must be 1, 3 or 5",
        ),
        (
            format!("{cluster}{{brokers: {{replicas: 2}}}}\n---\n{}", topic("replicas: 3")),
            "spec.replicas: 3 replicas need as many brokers, and the Cluster has 2",
        ),
        (format!("{cluster}{{brokers: {{storage: {{size: 1Gi}}}}}}"), "spec.brokers.storage: not acted on yet"),
        (
            format!("{cluster}{{}}\n---\n{cluster}{{}}"),
            "metadata.name: Cluster default/dev is written twice, first at a.yaml:1",
        ),
        (format!("{cluster}{{}}\n---\n{}", topic("").replace("dev", "deb")), "apiVersion: "),
        (
            group("a", "groupConfig: {sessionTimeoutMs: 5000}"),
            "a.yaml:4:33: spec.groupConfig: settings of a group: not yet",
        ),
        (group("a", "reset: {requestId: a, to: Offset}"), "spec.reset: to: Offset needs offset, and only it"),
        (
            group("a", "reset: {requestId: a, to: Latest, offset: 3}"),
            "spec.reset: to: Offset needs offset, and only it",
        ),
        (group("a", "reset: {requestId: a, to: Latest}"), "spec.reset: management: Observe only watches"),
        (group("a", "lag: {warn: 5, critical: 2}"), "spec.lag: lag.warn must be at or under lag.critical"),
        (
            format!("{}---\n{}", group("a", "groupId: g"), group("b", "groupId: g")),
            "spec.groupId: the group g has a resource already, at a.yaml:1",
        ),
        (
            format!("{cluster}{{}}\n---\n{}", group("a", "").replace("name: dev", "name: deb")),
            "there is no Cluster deb",
        ),
    ];
    for (text, expected) in cases {
        let said = take(&text).unwrap_err();
        assert!(said.contains(expected), "{text}\n  said:     {said}\n  expected: {expected}");
    }
}

#[test]
fn a_topic_of_another_cluster_and_a_second_claim_to_a_topic_are_refused() {
    let cluster = "apiVersion: taffrail.dev/v1alpha1\nkind: Cluster\nmetadata: {name: prod}\nspec: {}\n---\n";
    let said = take(&format!("{cluster}{}", topic(""))).unwrap_err();
    assert!(said.contains("a.yaml:12:5: spec.clusterRef.name: there is no Cluster dev"), "{said}");
    let second = topic("topicName: orders").replace("name: orders\nspec", "name: other\nspec");
    let said = take(&format!("{}---\n{second}", topic(""))).unwrap_err();
    assert!(said.contains("the topic orders has a resource already, at a.yaml:1"), "{said}");
}

#[test]
fn every_setting_that_the_schema_has_is_taken_with_its_default() {
    for (scope, kind) in [(Scope::Topic, "Topic"), (Scope::Broker, "Cluster")] {
        let cluster_ref = if kind == "Topic" { "\n  clusterRef: {name: dev}" } else { "" };
        let mut text = format!(
            "apiVersion: taffrail.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: a}}\nspec:{cluster_ref}\n  config:\n"
        );
        for setting in settings::all_taken(scope) {
            let Some(default) = setting.default else { continue };
            let bare = matches!(setting.kind, Kind::Boolean | Kind::Int | Kind::Short | Kind::Long);
            let value = if bare { default.to_owned() } else { format!("\"{default}\"") };
            text.push_str(&format!("    {}: {value}\n", setting.name));
        }
        assert_eq!(take(&text).err(), None);
    }
}

#[test]
fn of_the_quickstarts_settings_one_waits_for_a_restart_as_its_comments_say() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/quickstart.yaml");
    let cluster = load(&[file]).unwrap().cluster.unwrap();
    assert_eq!(cluster.settings.at_start.keys().collect::<Vec<_>>(), ["group.initial.rebalance.delay.ms"]);
    assert_eq!(cluster.settings.dynamic.keys().collect::<Vec<_>>(), ["log.retention.bytes", "log.retention.ms"]);
}
