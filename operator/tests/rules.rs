//! What an API server refuses by a rule of the schema is refused without one too, in the same words.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::collections::BTreeSet;

use serde_json::Value;
use taffrail_operator::crd::{Kind, spec_schema};
use taffrail_operator::yaml::{RULES, load_texts};

/// A rule: kind, path, message.
type Named = (&'static str, String, String);

/// The rules of a schema that need no older value, with their paths as [`RULES`] writes them.
fn rules_of(kind: Kind) -> BTreeSet<Named> {
    fn walk(kind: Kind, schema: &Value, path: &str, found: &mut BTreeSet<Named>) {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            if !rule["rule"].as_str().unwrap().contains("oldSelf") {
                found.insert((kind.name(), path.to_owned(), rule["message"].as_str().unwrap().to_owned()));
            }
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            walk(kind, property, &path, found);
        }
        if schema["items"].is_object() {
            walk(kind, &schema["items"], &format!("{path}[]"), found);
        }
    }
    let mut found = BTreeSet::new();
    walk(kind, &spec_schema(kind), "", &mut found);
    found
}

#[test]
fn every_rule_of_the_schemas_is_checked_without_an_api_server_and_no_other() {
    let schemas: BTreeSet<Named> = Kind::ALL.into_iter().flat_map(rules_of).collect();
    let here = RULES.iter().map(|rule| (rule.kind.name(), rule.path.to_owned(), rule.message.to_owned()));
    assert_eq!(here.collect::<BTreeSet<Named>>(), schemas);
}

/// Kind, spec, what is said of it.
const BROKEN: &[(Kind, &str, &str)] = &[
    (
        Kind::Cluster,
        "{config: {default.replication.factor: 1, min.insync.replicas: 2}}",
        "spec: config['default.replication.factor'] must be at or over config['min.insync.replicas']",
    ),
    (
        Kind::Cluster,
        "{config: {default.replication.factor: '1', min.insync.replicas: '2'}}",
        "spec: config['default.replication.factor'] must be at or over config['min.insync.replicas']",
    ),
    (
        Kind::Cluster,
        "{brokers: {replicas: 3}, listeners: [{name: a, port: 9092}, {name: b, port: 9094, advertised: {host: kafka.example.com}}]}",
        "spec: listeners[].advertised needs {id} in host or port, as each broker has an address of its own",
    ),
    (Kind::Cluster, "{rollout: {strategy: RackParallel}}", "spec: rollout.strategy: RackParallel needs brokers.rack"),
    (Kind::Cluster, "{metrics: {podMonitor: true}}", "spec.metrics: metrics: not yet"),
    (Kind::Cluster, "{brokers: {rack: {}}}", "spec.brokers.rack: give either rack.zones or rack.topologyKey"),
    (
        Kind::Cluster,
        "{brokers: {rack: {zones: [a], topologyKey: zone}}}",
        "spec.brokers.rack: give either rack.zones or rack.topologyKey",
    ),
    (Kind::Cluster, "{brokers: {storage: {size: ten}}}", "spec.brokers.storage.size: not a quantity such as 10Gi"),
    (
        Kind::Cluster,
        "{brokers: {storage: {size: 10}}}",
        "spec.brokers.storage.size: a disk of less than 64Mi holds no log",
    ),
    (
        Kind::Cluster,
        "{brokers: {storage: {size: 63Mi}}}",
        "spec.brokers.storage.size: a disk of less than 64Mi holds no log",
    ),
    (
        Kind::Cluster,
        "{brokers: {storage: {volumes: [{id: 0, size: 1Gi}]}}}",
        "spec.brokers.storage.volumes: several volumes a broker: not yet",
    ),
    (
        Kind::Cluster,
        "{controllers: {replicas: 2}}",
        "spec.controllers.replicas: controllers.replicas must be 1, 3 or 5",
    ),
    (
        Kind::Cluster,
        "{controllers: {storage: {size: '1 Gi'}}}",
        "spec.controllers.storage.size: not a quantity such as 10Gi",
    ),
    (
        Kind::Cluster,
        "{controllers: {storage: {size: 1M}}}",
        "spec.controllers.storage.size: a disk of less than 64Mi holds no log",
    ),
    (
        Kind::Cluster,
        "{controllers: {storage: {volumes: [{id: 0, size: 1Gi}]}}}",
        "spec.controllers.storage.volumes: several volumes a broker: not yet",
    ),
    (
        Kind::Cluster,
        "{listeners: [{name: a, port: 9092}, {name: b, port: 9094}, {name: c, port: 9094}]}",
        "spec.listeners: two listeners cannot have the same port",
    ),
    (
        Kind::Cluster,
        "{listeners: [{name: a, port: 9094}]}",
        "spec.listeners: by the first listener brokers reach each other: port 9092, type Internal, nothing advertised",
    ),
    (
        Kind::Cluster,
        "{listeners: [{name: a, port: 9092, type: NodePort}]}",
        "spec.listeners: by the first listener brokers reach each other: port 9092, type Internal, nothing advertised",
    ),
    (
        Kind::Cluster,
        "{listeners: [{name: a, port: 9092}, {name: b, port: 9094, advertised: {host: '::'}}]}",
        "spec.listeners[1].advertised.host: nobody can connect to an address that stands for all",
    ),
    (Kind::Cluster, "{listeners: [{name: a, port: 9092, tls: true}]}", "spec.listeners[0].tls: TLS: not yet"),
    (
        Kind::Cluster,
        "{listeners: [{name: a, port: 9092, auth: ScramSha512}]}",
        "spec.listeners[0].auth: authentication: not yet",
    ),
    (
        Kind::Topic,
        "{replicas: 2, config: {min.insync.replicas: 3}}",
        "spec: replicas must be at or over config['min.insync.replicas']",
    ),
    (Kind::Topic, "{topicName: ..}", "spec.topicName: topicName cannot be . or .."),
    (Kind::Topic, "{partitions: 10001}", "spec.partitions: more than the 10000 partitions that one request may create"),
    (
        Kind::ConsumerGroup,
        "{management: Managed, initialOffsets: {from: Latest}}",
        "spec: initialOffsets needs topics: a group that was never used has none",
    ),
    (
        Kind::ConsumerGroup,
        "{topics: [a], initialOffsets: {from: Latest}}",
        "spec: initialOffsets needs management: Managed",
    ),
    (
        Kind::ConsumerGroup,
        "{topics: [a], management: Managed, initialOffsets: {from: Timestamp}}",
        "spec.initialOffsets: from: Timestamp needs timestamp, and only it does",
    ),
    (Kind::ConsumerGroup, "{groupConfig: {sessionTimeoutMs: 5000}}", "spec.groupConfig: settings of a group: not yet"),
    (Kind::ConsumerGroup, "{lag: {warn: 5, critical: 2}}", "spec.lag: lag.warn must be at or under lag.critical"),
    (
        Kind::ConsumerGroup,
        "{reset: {requestId: a, to: Latest, timestamp: '2026-01-01T00:00:00Z'}}",
        "spec.reset: to: Timestamp needs timestamp, and only it does",
    ),
    (
        Kind::ConsumerGroup,
        "{reset: {requestId: a, to: Earliest, offset: 5}}",
        "spec.reset: to: Offset needs offset, and only it does",
    ),
    (
        Kind::ConsumerGroup,
        "{reset: {requestId: a, to: ShiftBy}}",
        "spec.reset: to: ShiftBy needs shiftBy, and only it does",
    ),
    (
        Kind::ConsumerGroup,
        "{reset: {requestId: a, to: Latest, ifActive: Park}}",
        "spec.reset: ifActive: Park needs workloadRef",
    ),
];

/// What is said of a resource with this spec; `None` if nothing is.
fn said(kind: Kind, spec: &str) -> Option<String> {
    let spec = match kind {
        Kind::Cluster => spec.to_owned(),
        Kind::Topic | Kind::ConsumerGroup => spec.replacen('{', "{clusterRef: {name: dev}, ", 1),
    };
    let head = format!("apiVersion: taffrail.dev/v1alpha1\nkind: {}\nmetadata: {{name: dev}}\n", kind.name());
    load_texts(&[("a.yaml".to_owned(), format!("{head}spec: {spec}\n"))]).err().map(|problems| problems.to_string())
}

#[test]
fn what_breaks_a_rule_is_refused_in_the_words_of_the_schema() {
    for (kind, spec, expected) in BROKEN {
        let said = said(*kind, spec).unwrap_or_else(|| panic!("{spec} was taken"));
        assert!(said.contains(expected), "{spec}\n  said:     {said}\n  expected: {expected}");
    }
    let is_tried =
        |kind: Kind, message: &str| BROKEN.iter().any(|(of, _, said)| *of == kind && said.ends_with(message));
    for rule in RULES {
        assert!(is_tried(rule.kind, rule.message), "{} {}: {}", rule.kind.name(), rule.path, rule.message);
    }
}

#[test]
fn what_keeps_the_rules_is_taken() {
    for (kind, spec) in [
        (Kind::Cluster, "{}"),
        (Kind::Cluster, "{config: {min.insync.replicas: 2}, rollout: {strategy: OneByOne}}"),
        (Kind::Cluster, "{brokers: {storage: {size: 1e9}, resources: {limits: {cpu: 1}}}}"),
        (Kind::Cluster, "{brokers: {storage: {size: 68719476736}}}"),
        (Kind::Cluster, "{brokers: {rack: {topologyKey: zone}}, rollout: {strategy: RackParallel}}"),
        (
            Kind::Cluster,
            "{brokers: {replicas: 3}, listeners: [{name: a, port: 9092}, {name: b, port: 9094, advertised: {host: h, port: '3{id}'}}]}",
        ),
        (Kind::Topic, "{replicas: 3, config: {min.insync.replicas: '2'}, deleteDeadline: '2100-01-01T00:00:00Z'}"),
        (Kind::ConsumerGroup, "{reset: {requestId: a, to: ShiftBy, shiftBy: -5}, lag: {warn: 5, critical: 5}}"),
    ] {
        assert_eq!(said(kind, spec), None, "{spec}");
    }
}

#[test]
fn patterns_times_and_keys_of_lists_are_checked_too() {
    for (kind, spec, expected) in [
        (Kind::Topic, "{topicName: a/b}", "spec.topicName: \"a/b\" does not match ^[a-zA-Z0-9._-]+$"),
        (Kind::Topic, "{deleteDeadline: tomorrow}", "spec.deleteDeadline: \"tomorrow\" is no time such as"),
        (
            Kind::Cluster,
            "{listeners: [{name: a, port: 9092}, {name: a, port: 9094}]}",
            "spec.listeners[1]: name: \"a\" is there twice, first at spec.listeners[0]",
        ),
        (Kind::Cluster, "{brokers: {remove: [3, 3]}}", "spec.brokers.remove[1]: 3 is there twice"),
        (
            Kind::Cluster,
            "{rollout: {windows: [{cron: '0 2 * * *', duration: two}]}}",
            "spec.rollout.windows[0].duration: \"two\" does not match",
        ),
    ] {
        let said = said(kind, spec).unwrap_or_else(|| panic!("{spec} was taken"));
        assert!(said.contains(expected), "{spec}\n  said:     {said}\n  expected: {expected}");
    }
}
