//! The table against what a running Kafka 4.4 says.

use serde_json::Value;

use super::*;

const TOPIC: &str = include_str!("../../../e2e/cases/golden/describe_configs_topic.json");
const BROKER: &str = include_str!("../../../e2e/cases/golden/describe_configs_broker.json");
/// What Kafka 4.4's `ConfigDef` says of single values.
const VALUES: &str = include_str!("golden/values.json");

/// The layers of the broker that was asked: its static values are hidden in the file, and Kafka itself had set
/// min.insync.replicas for the cluster (KIP-966).
fn oracle_layers() -> BrokerLayers {
    let mut layers = BrokerLayers::default();
    let golden: Value = serde_json::from_str(BROKER).unwrap();
    for (name, entry) in golden.as_object().unwrap() {
        for synonym in entry["synonyms"].as_array().unwrap().iter().filter(|s| s["name"] == name.as_str()) {
            let value = synonym["value"].as_str().unwrap_or_default().to_owned();
            match synonym["source"].as_i64() {
                Some(3) => layers.dynamic_default.insert(name.clone(), value),
                Some(4) => layers.static_broker.insert(name.clone(), value),
                _ => None,
            };
        }
    }
    layers
}

fn as_golden(described: &Described) -> Value {
    let synonyms: Vec<Value> = described
        .synonyms
        .iter()
        .map(|s| serde_json::json!({"name": s.name, "value": s.value, "source": s.source as i8}))
        .collect();
    serde_json::json!({
        "type": described.setting.kind as i8,
        "value": described.value,
        "source": described.source as i8,
        "read_only": described.setting.read_only(),
        "sensitive": described.setting.sensitive(),
        "synonyms": synonyms,
    })
}

fn assert_same(golden: &str, ours: impl Iterator<Item = Described>) {
    let golden: Value = serde_json::from_str(golden).unwrap();
    let golden = golden.as_object().unwrap();
    let mut count = 0;
    for described in ours {
        let name = described.setting.name;
        assert_eq!(Some(&as_golden(&described)), golden.get(name), "{name}");
        count += 1;
    }
    assert_eq!(count, golden.len(), "settings that Kafka lists and we do not");
}

#[test]
fn topics_are_described_as_kafka_describes_them() {
    assert_same(TOPIC, describe_topic(&Overrides::new(), &oracle_layers()));
}

#[test]
fn brokers_are_described_as_kafka_describes_them() {
    assert_same(BROKER, describe_broker(&oracle_layers()));
}

#[test]
fn values_are_taken_and_refused_as_kafka_does() {
    let cases: Vec<Value> = serde_json::from_str(VALUES).unwrap();
    assert!(cases.len() > 80);
    for case in cases {
        let text = |key: &str| case[key].as_str().unwrap();
        let scope = if case["scope"] == "topic" { Scope::Topic } else { Scope::Broker };
        let answer = validate(scope, text("name"), text("value"));
        let label = format!("{}={:?}", text("name"), text("value"));
        let Some(theirs) = case["error"].as_str() else {
            // Kafka takes a NaN ratio, which would stop compaction for good; we do not.
            assert!(answer.is_ok() || text("value") == "NaN", "{label}: {answer:?}");
            continue;
        };
        let ours = answer.expect_err(&label).to_string();
        // Ours says the same, and may add a hint. Kafka prints the items of a list in brackets; voters have other words.
        let theirs = theirs
            .replace(&format!("value [{}]", text("value").replace(',', ", ")), &format!("value {}", text("value")));
        assert!(ours.starts_with(&theirs) || text("name") == "controller.quorum.voters", "{label}:\n{ours}\n{theirs}");
    }
}

#[test]
fn rows_are_sorted_and_their_defaults_are_valid() {
    for scope in [Scope::Topic, Scope::Broker, Scope::Process] {
        for setting in settings(scope) {
            assert!(find(scope, setting.name).is_some(), "{} is out of order", setting.name);
            assert!(!setting.doc.is_empty(), "{} has no documentation", setting.name);
            // Kafka's default of controller.quorum.* is an empty list, which its own check takes too.
            if let Some(default) = setting.default {
                assert_eq!(check(setting, default), Ok(()), "{}", setting.name);
            }
        }
    }
}

#[test]
fn whatever_is_said_to_be_acted_on_is_read() {
    for setting in settings(Scope::Topic).filter(|setting| setting.acted_on) {
        assert!(TopicConfig::KEYS.contains(&setting.name), "{}", setting.name);
    }
    for (topic, synonyms) in TOPIC_SYNONYMS {
        assert!(find(Scope::Topic, topic).is_some(), "{topic}");
        for synonym in *synonyms {
            assert!(find(Scope::Broker, synonym.name).is_some(), "{}", synonym.name);
        }
    }
    for key in BrokerConfig::KEYS {
        assert!(find(Scope::Broker, key).is_some_and(|setting| setting.acted_on), "{key}");
    }
}

fn overrides(pairs: &[(&str, &str)]) -> Overrides {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn the_finest_unit_that_has_a_value_wins() {
    let cases: [(&[(&str, &str)], i64); 6] = [
        (&[], 604_800_000),
        (&[("log.retention.hours", "2")], 7_200_000),
        (&[("log.retention.hours", "2"), ("log.retention.minutes", "3")], 180_000),
        (&[("log.retention.minutes", "3"), ("log.retention.ms", "7")], 7),
        (&[("log.retention.hours", "-1")], -1),
        (&[("log.retention.minutes", "-1"), ("log.retention.hours", "1")], -1),
    ];
    for (given, expected) in cases {
        let layers = BrokerLayers { static_broker: overrides(given), ..BrokerLayers::default() };
        let config = TopicConfig::resolve(&Overrides::new(), &layers).unwrap();
        assert_eq!(config.retention_ms, expected, "{given:?}");
    }
}

#[test]
fn a_topic_wins_over_its_broker_and_a_dynamic_value_over_a_static_one() {
    let layers = BrokerLayers {
        dynamic_broker: overrides(&[("log.segment.bytes", "3000000")]),
        dynamic_default: overrides(&[("log.segment.bytes", "2000000"), ("log.cleanup.policy", "compact")]),
        static_broker: overrides(&[("log.segment.bytes", "1100000"), ("message.max.bytes", "77")]),
    };
    let config = TopicConfig::resolve(&overrides(&[("cleanup.policy", "compact, delete")]), &layers).unwrap();
    assert_eq!(config.segment_bytes, 3_000_000);
    assert_eq!(config.max_message_bytes, 77);
    assert_eq!(config.cleanup_policy, CleanupPolicy { delete: true, compact: true });
    let bare = TopicConfig::resolve(&Overrides::new(), &layers).unwrap();
    assert_eq!(bare.cleanup_policy, CleanupPolicy { delete: false, compact: true });
}

#[test]
fn a_topics_own_value_is_described_above_its_brokers() {
    let layers = BrokerLayers { static_broker: overrides(&[("log.retention.ms", "9")]), ..BrokerLayers::default() };
    let topic = overrides(&[("retention.ms", "5")]);
    let described = describe_topic(&topic, &layers).find(|d| d.setting.name == "retention.ms").unwrap();
    assert_eq!((described.value.as_deref(), described.source), (Some("5"), Source::Topic));
    let names: Vec<_> = described.synonyms.iter().map(|s| (s.name, s.value.as_deref(), s.source)).collect();
    let expected = [
        ("retention.ms", Some("5"), Source::Topic),
        ("log.retention.ms", Some("9"), Source::Static),
        ("log.retention.hours", Some("168"), Source::Default),
    ];
    assert_eq!(names, expected);
}

#[test]
fn wrong_settings_are_refused_with_a_hint() {
    let broker = BrokerLayers::default();
    let cases: [(&[(&str, &str)], &str); 5] = [
        (&[("retention.msec", "5")], "Unknown topic config name: retention.msec (did you mean retention.ms?)"),
        (&[("log.retention.ms", "5")], "Unknown topic config name: log.retention.ms"),
        (
            &[("cleanup.policy", "compct")],
            "Invalid value compct for configuration cleanup.policy: String must be one of: compact, delete (did you mean compact?)",
        ),
        (
            &[("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "3")],
            "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (3)",
        ),
        (&[("remote.storage.enable", "true")], "Tiered Storage functionality is disabled in the broker."),
    ];
    for (given, expected) in cases {
        let error = validate_topic(&overrides(given), &broker).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let secret = validate(Scope::Broker, "ssl.key.password", &"x".repeat(VALUE_BYTES_MAX + 1)).unwrap_err();
    assert!(secret.to_string().contains("[hidden]"));
}

#[test]
fn wrong_brokers_are_refused() {
    let cases: [(&[(&str, &str)], &str); 3] = [
        (&[("log.retention.ms", "0")], "log.retention.ms must be unlimited"),
        (&[("group.min.session.timeout.ms", "2000000")], "group.min.session.timeout.ms (2000000)"),
        (&[("num.partition", "3")], "Unknown broker config name: num.partition (did you mean num.partitions?)"),
    ];
    for (given, expected) in cases {
        let layers = BrokerLayers { static_broker: overrides(given), ..BrokerLayers::default() };
        let error = validate_broker(&layers).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
