//! The schemas in `crds/` are what the types say.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::path::{Path, PathBuf};

use serde_json::Value;
use taffrail_operator::crd::{self, Kind};

/// Where the schema of a kind is kept: for people, and for the chart, which cannot read what lies outside of it.
fn paths(kind: Kind) -> [PathBuf; 2] {
    let name = format!("taffrail.dev_{}s.yaml", kind.name().to_lowercase());
    ["../crds", "../charts/taffrail/files/crds"].map(|folder| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        folder.join(&name)
    })
}

#[test]
fn checked_in_schemas_are_current() {
    for kind in Kind::ALL {
        let text = format!(
            "# Generated from operator/src/crd by `UPDATE=1 cargo test -p taffrail-operator --test crds`; do not edit.\n{}",
            serde_saphyr::to_string(&crd::document(kind)).unwrap()
        );
        for path in paths(kind) {
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(found == text, "{} is stale: run with UPDATE=1", path.display());
        }
    }
}

/// Calls `visit` with every schema object below `value` and its path.
fn walk(value: &Value, path: &str, visit: &mut dyn FnMut(&str, &serde_json::Map<String, Value>)) {
    if let Value::Object(map) = value {
        visit(path, map);
        for (key, value) in map {
            walk(value, &format!("{path}.{key}"), visit);
        }
    } else if let Value::Array(items) = value {
        for item in items {
            walk(item, &format!("{path}[]"), visit);
        }
    }
}

#[test]
fn schemas_are_structural_and_without_floats() {
    for kind in Kind::ALL {
        let document = crd::document(kind);
        let schema = &document["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        walk(schema, kind.name(), &mut |path, map| {
            if path.ends_with(".properties") {
                return;
            }
            assert!(!map.contains_key("$ref"), "{path}");
            assert!(map.get("type") != Some(&"number".into()), "{path} is a float");
            assert!(!(map.contains_key("properties") && map.contains_key("additionalProperties")), "{path}");
            for keyword in ["oneOf", "const"] {
                assert!(!map.contains_key(keyword), "{path} has {keyword}");
            }
        });
    }
}

#[test]
fn names_columns_and_subresources_are_as_designed() {
    let cases = [
        (Kind::Cluster, "tfc", "clusters"),
        (Kind::Topic, "tft", "topics"),
        (Kind::ConsumerGroup, "tfg", "consumergroups"),
    ];
    for (kind, short, plural) in cases {
        let document = crd::document(kind);
        assert_eq!(document["metadata"]["name"], format!("{plural}.taffrail.dev"));
        assert_eq!(document["spec"]["scope"], "Namespaced");
        let names = &document["spec"]["names"];
        assert_eq!((&names["shortNames"][0], &names["categories"][0]), (&short.into(), &"taffrail".into()));
        let version = &document["spec"]["versions"][0];
        assert_eq!(version["name"], crd::VERSION);
        assert!(version["subresources"]["status"].is_object());
        let columns = version["additionalPrinterColumns"].as_array().unwrap();
        assert!(columns.iter().any(|column| column["name"] == "Ready"));
        assert_eq!(columns.last().unwrap()["name"], "Age");
    }
    let scale = crd::document(Kind::Cluster).pointer("/spec/versions/0/subresources/scale").cloned().unwrap();
    assert_eq!(scale["specReplicasPath"], ".spec.brokers.replicas");
    assert_eq!(scale["labelSelectorPath"], ".status.selector");
}

#[test]
fn config_is_closed_by_the_table_of_settings() {
    let topic = crd::spec_schema(Kind::Topic);
    let config = topic["properties"]["config"]["properties"].as_object().unwrap();
    assert_eq!(config.len(), 37);
    assert_eq!(config["preallocate"]["type"], "boolean");
    assert_eq!(config["retention.ms"]["minimum"], -1);
    assert_eq!(config["compression.type"]["enum"][0], "uncompressed");
    let cluster = crd::spec_schema(Kind::Cluster);
    let config = cluster["properties"]["config"]["properties"].as_object().unwrap();
    assert!(config.contains_key("log.retention.hours") && config.contains_key("auto.create.topics.enable"));
    for given_otherwise in ["listeners", "node.id", "ssl.keystore.password", "controller.quorum.voters"] {
        assert!(!config.contains_key(given_otherwise), "{given_otherwise}");
    }
}

#[test]
fn fields_that_a_later_release_brings_keep_no_resource_from_being_read() {
    let spec = serde_json::json!({"clusterRef": {"name": "log", "zone": "a"}, "partitions": 3, "purpose": "audit"});
    let topic: crd::TopicSpec = serde_json::from_value(spec).unwrap();
    assert_eq!((topic.partitions, topic.cluster_ref.name.as_str()), (Some(3), "log"));
    let spec = serde_json::json!({"brokers": {"replicas": 5, "shape": "wide"}, "color": "blue"});
    let cluster: crd::ClusterSpec = serde_json::from_value(spec).unwrap();
    assert_eq!(cluster.brokers.replicas, Some(5));
}
