use super::*;
use crate::config::Source;
use crate::event::{ConfigResource, ResourceKind};

fn op(name: &str, op: ConfigOp, value: Option<&str>) -> ConfigOperation {
    ConfigOperation { name: text(name), op, value: value.map(text) }
}

fn set(name: &str, value: &str) -> ConfigOperation {
    op(name, ConfigOp::Set, Some(value))
}

fn alter(cluster: &mut Cluster, resource: ConfigResource, changes: ConfigChanges) -> Outcome<()> {
    let resources = vec![ConfigAlteration { resource, changes }];
    match cluster.run(&Command::AlterConfigs(AlterConfigs { resources, validate_only: false }))? {
        Reply::ConfigsAltered(mut results) => results.remove(0).outcome,
        other => panic!("{other:?}"),
    }
}

fn overrides(cluster: &Cluster, resource: &ConfigResource) -> Vec<(String, String)> {
    let overrides = cluster.image.overrides(resource).map(|it| Overrides::clone(it)).unwrap_or_default();
    overrides.into_iter().collect()
}

fn cluster_with_topic() -> Cluster {
    let mut cluster = Cluster::with_brokers(1);
    let configs = [("cleanup.policy", "compact"), ("retention.ms", "1"), ("segment.bytes", "1048576")];
    let configs = configs.map(|(name, value)| (text(name), Some(text(value)))).to_vec();
    cluster.create(NewTopic { configs, ..NewTopic::new("t") }).unwrap();
    cluster
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn the_incremental_form_touches_only_what_it_names() {
    let topic = ConfigResource::topic("t");
    let (append, subtract, delete) = (ConfigOp::Append, ConfigOp::Subtract, ConfigOp::Delete);
    type Step = (Vec<ConfigOperation>, &'static [(&'static str, &'static str)]);
    let base = ("segment.bytes", "1048576");
    let steps: [Step; 7] = [
        (
            vec![set("retention.ms", "5")],
            &[("cleanup.policy", "compact"), ("retention.ms", "5"), ("segment.bytes", "1048576")],
        ),
        (vec![op("retention.ms", delete, None)], &[("cleanup.policy", "compact"), ("segment.bytes", "1048576")]),
        (
            vec![op("cleanup.policy", append, Some("delete"))],
            &[("cleanup.policy", "compact,delete"), ("segment.bytes", "1048576")],
        ),
        (
            vec![op("cleanup.policy", append, Some("delete"))],
            &[("cleanup.policy", "compact,delete"), ("segment.bytes", "1048576")],
        ),
        (
            vec![op("cleanup.policy", subtract, Some("compact"))],
            &[("cleanup.policy", "delete"), ("segment.bytes", "1048576")],
        ),
        (
            vec![op("cleanup.policy", subtract, Some("compact"))],
            &[("cleanup.policy", "delete"), ("segment.bytes", "1048576")],
        ),
        (vec![op("cleanup.policy", delete, None), op("never.set", delete, None)], &[("segment.bytes", "1048576")]),
    ];
    let mut cluster = cluster_with_topic();
    for (operations, expected) in steps {
        let shown = format!("{operations:?}");
        alter(&mut cluster, topic.clone(), ConfigChanges::Incremental(operations)).unwrap();
        assert_eq!(overrides(&cluster, &topic), pairs(expected), "{shown}");
    }
    let from_default = vec![op("cleanup.policy", append, Some("compact"))];
    alter(&mut cluster, topic.clone(), ConfigChanges::Incremental(from_default)).unwrap();
    assert_eq!(
        overrides(&cluster, &topic),
        pairs(&[("cleanup.policy", "delete,compact"), base]),
        "a list that was not set starts from its default"
    );
}

#[test]
fn the_old_form_drops_what_it_does_not_name() {
    let topic = ConfigResource::topic("t");
    let mut cluster = cluster_with_topic();
    let settings = vec![(text("retention.ms"), Some(text("7")))];
    alter(&mut cluster, topic.clone(), ConfigChanges::Replace(settings)).unwrap();
    assert_eq!(overrides(&cluster, &topic), pairs(&[("retention.ms", "7")]));
    alter(&mut cluster, topic.clone(), ConfigChanges::Replace(Vec::new())).unwrap();
    assert_eq!(cluster.image.overrides(&topic), None);
}

#[test]
fn an_explicit_value_that_equals_the_default_is_an_event_and_repeating_it_is_none() {
    let mut cluster = cluster_with_topic();
    let ask = |validate_only| {
        let changes = ConfigChanges::Incremental(vec![set("segment.ms", "604800000")]);
        let resources = vec![ConfigAlteration { resource: ConfigResource::topic("t"), changes }];
        Command::AlterConfigs(AlterConfigs { resources, validate_only })
    };
    assert_eq!(cluster.decide(&ask(true)).unwrap().events, [], "only validated");
    assert_eq!(cluster.decide(&ask(false)).unwrap().events.len(), 1);
    cluster.run(&ask(false)).unwrap();
    assert_eq!(cluster.decide(&ask(false)).unwrap().events, []);
}

#[test]
fn settings_are_refused_with_kafkas_codes_and_words() {
    use ErrorCode::{
        BrokerIdNotRegistered, InvalidConfig, InvalidRequest, InvalidTopicException, UnknownTopicOrPartition,
    };
    let topic = || ConfigResource::topic("t");
    let all = ConfigResource::broker_default;
    let named = |name: &str| ConfigResource { kind: ResourceKind::Broker, name: text(name) };
    let cases = [
        (
            ConfigResource::topic("x"),
            set("retention.ms", "1"),
            UnknownTopicOrPartition,
            "The topic 'x' does not exist.",
        ),
        (
            ConfigResource::topic(""),
            set("retention.ms", "1"),
            InvalidRequest,
            "Default topic resources are not allowed.",
        ),
        (
            ConfigResource::topic("a b"),
            set("retention.ms", "1"),
            InvalidTopicException,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and \
             '-'",
        ),
        (topic(), set("no.such.key", "1"), InvalidConfig, "Unknown topic config name: no.such.key"),
        (
            topic(),
            set("retention.ms", "soon"),
            InvalidConfig,
            "Invalid value soon for configuration retention.ms: Not a number of type LONG",
        ),
        (
            topic(),
            op("retention.ms", ConfigOp::Set, None),
            InvalidRequest,
            "Null value not supported for : retention.ms",
        ),
        (
            topic(),
            op("retention.ms", ConfigOp::Append, Some("1")),
            InvalidConfig,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            topic(),
            op("retention.ms", ConfigOp::Subtract, Some("1")),
            InvalidConfig,
            "Can't SUBTRACT to key retention.ms because its type is not LIST.",
        ),
        (
            all(),
            op("message.max.bytes", ConfigOp::Append, Some("1")),
            InvalidConfig,
            "Config value append is not allowed for config key: message.max.bytes",
        ),
        (all(), op("plugin.list", ConfigOp::Append, Some("1")), InvalidConfig, "Unknown config name: plugin.list"),
        (
            all(),
            set(&"n".repeat(2_000), "1"),
            InvalidRequest,
            "A setting that no broker knows may have a name of 1024 and a value of 65536 bytes.",
        ),
        (all(), set("broker.id", "1"), InvalidRequest, "Cannot update these configs dynamically: [broker.id]"),
        (
            all(),
            set("max.connections.per.ip", "0"),
            InvalidRequest,
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        ),
        (named("-1"), set("message.max.bytes", "1"), InvalidRequest, "Invalid negative broker ID."),
        (
            named("one"),
            set("message.max.bytes", "1"),
            InvalidRequest,
            "Unable to parse broker name as a base 10 number.",
        ),
        (named("8"), set("message.max.bytes", "1"), BrokerIdNotRegistered, "No node with id 8 found."),
    ];
    let mut cluster = cluster_with_topic();
    for (resource, operation, code, message) in cases {
        let offset = cluster.image.offset();
        let refused = refusal(alter(&mut cluster, resource.clone(), ConfigChanges::Incremental(vec![operation])));
        assert_eq!(refused.0, code, "{resource}: {refused:?}");
        assert!(refused.1.starts_with(message), "{resource}: {refused:?}");
        assert_eq!(cluster.image.offset(), offset, "a refused change leaves nothing behind");
    }
}

#[test]
fn brokers_may_be_given_settings_that_only_a_plugin_knows() {
    let mut cluster = cluster_with_topic();
    let all = ConfigResource::broker_default();
    let changes = ConfigChanges::Incremental(vec![set("plugin.key", "1"), set("message.max.bytes", "2000000")]);
    alter(&mut cluster, all.clone(), changes).unwrap();
    assert_eq!(overrides(&cluster, &all), pairs(&[("message.max.bytes", "2000000"), ("plugin.key", "1")]));
    let layers = cluster.image.broker_layers(None, &Overrides::new());
    assert_eq!(layers.custom().into_iter().collect::<Vec<_>>(), [("plugin.key", vec![Source::DynamicDefault])]);
    let many: Vec<_> = (0..1_001).map(|index| set(&format!("plugin.{index}"), "1")).collect();
    assert!(alter(&mut cluster, all.clone(), ConfigChanges::Incremental(many)).is_err());
    let changes = ConfigChanges::Incremental(vec![op("plugin.key", ConfigOp::Delete, None)]);
    alter(&mut cluster, all.clone(), changes).unwrap();
    assert_eq!(overrides(&cluster, &all), pairs(&[("message.max.bytes", "2000000")]));
}

#[test]
fn one_bad_setting_refuses_its_resource_and_no_other() {
    let mut cluster = cluster_with_topic();
    let change = |resource, operations| ConfigAlteration { resource, changes: ConfigChanges::Incremental(operations) };
    let resources = vec![
        change(ConfigResource::topic("t"), vec![set("retention.ms", "9"), set("segment.ms", "never")]),
        change(ConfigResource::broker_default(), vec![set("message.max.bytes", "2000000")]),
    ];
    let reply = cluster.run(&Command::AlterConfigs(AlterConfigs { resources, validate_only: false })).unwrap();
    let Reply::ConfigsAltered(results) = reply else { panic!("{reply:?}") };
    assert!(results[0].outcome.is_err());
    assert!(results[1].outcome.is_ok());
    let topic = overrides(&cluster, &ConfigResource::topic("t"));
    assert!(topic.contains(&("retention.ms".to_owned(), "1".to_owned())), "{topic:?}");
    let brokers = overrides(&cluster, &ConfigResource::broker_default());
    assert_eq!(brokers, pairs(&[("message.max.bytes", "2000000")]));
}

#[test]
fn resources_and_keys_may_be_named_once() {
    let mut cluster = cluster_with_topic();
    let twice = ConfigChanges::Incremental(vec![set("retention.ms", "1"), set("retention.ms", "2")]);
    let refused = refusal(alter(&mut cluster, ConfigResource::topic("t"), twice));
    assert_eq!(refused, (ErrorCode::InvalidRequest, "Error due to duplicate config keys".to_owned()));
    let changes = ConfigChanges::Incremental(vec![set("retention.ms", "2")]);
    let alteration = ConfigAlteration { resource: ConfigResource::topic("t"), changes };
    let resources = vec![alteration.clone(), alteration];
    let reply = cluster.run(&Command::AlterConfigs(AlterConfigs { resources, validate_only: false })).unwrap();
    let Reply::ConfigsAltered(results) = reply else { panic!("{reply:?}") };
    for result in results {
        let expected = (ErrorCode::InvalidRequest, "Each resource must appear at most once.".to_owned());
        assert_eq!(refusal(result.outcome), expected);
    }
}
