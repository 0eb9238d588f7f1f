use super::*;

fn with_configs(name: &str, configs: &[(&str, Option<&str>)]) -> NewTopic {
    let configs = configs.iter().map(|(name, value)| (text(name), value.map(text))).collect();
    NewTopic { configs, ..NewTopic::new(name) }
}

fn with_assignments(name: &str, assignments: &[(i32, &[i32])]) -> NewTopic {
    let assignments = assignments
        .iter()
        .map(|(partition, replicas)| ReplicaAssignment {
            partition: *partition,
            replicas: replicas.iter().copied().map(BrokerId).collect(),
        })
        .collect();
    NewTopic { assignments, ..NewTopic::new(name) }
}

#[test]
fn topics_are_refused_with_kafkas_codes_and_words() {
    use ErrorCode::{
        InvalidConfig, InvalidPartitions, InvalidReplicaAssignment, InvalidReplicationFactor, InvalidRequest,
        InvalidTopicException, TopicAlreadyExists,
    };
    let placed = "The manual partition assignment includes";
    let cases = [
        (NewTopic::new(""), InvalidTopicException, "Topic name is invalid: the empty string is not allowed".to_owned()),
        (NewTopic::new(".."), InvalidTopicException, "Topic name is invalid: '..' is not allowed".into()),
        (NewTopic::new("taken"), TopicAlreadyExists, "Topic 'taken' already exists.".into()),
        (NewTopic::new("a.b"), InvalidTopicException, "Topic 'a.b' collides with existing topic: a_b".into()),
        (
            NewTopic::new("__cluster_metadata"),
            InvalidRequest,
            "Creation of internal topic __cluster_metadata is prohibited.".into(),
        ),
        (
            NewTopic::sized("t", 0, 1),
            InvalidPartitions,
            "Number of partitions was set to an invalid non-positive value.".into(),
        ),
        (
            NewTopic::sized("t", -2, 1),
            InvalidPartitions,
            "Number of partitions was set to an invalid non-positive value.".into(),
        ),
        (
            NewTopic::sized("t", 1, 0),
            InvalidReplicationFactor,
            "Replication factor must be larger than 0, or -1 to use the default value.".into(),
        ),
        (
            NewTopic::sized("t", 1, 4),
            InvalidReplicationFactor,
            "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached because \
             only 3 broker(s) are registered."
                .into(),
        ),
        (
            with_configs("t", &[("retention.ms", None), ("segment.ms", None)]),
            InvalidConfig,
            "Null value not supported for topic configs: retention.ms,segment.ms".into(),
        ),
        (
            with_configs("t", &[("retention.ms", Some("soon"))]),
            InvalidConfig,
            "Invalid value soon for configuration retention.ms: Not a number of type LONG".into(),
        ),
        (
            NewTopic { partitions: 1, ..with_assignments("t", &[(0, &[0])]) },
            InvalidRequest,
            "A manual partition assignment was specified, but numPartitions was not set to -1.".into(),
        ),
        (
            NewTopic { replication_factor: 1, ..with_assignments("t", &[(0, &[0])]) },
            InvalidRequest,
            "A manual partition assignment was specified, but replication factor was not set to -1.".into(),
        ),
        (with_assignments("t", &[(0, &[])]), InvalidReplicaAssignment, format!("{placed} an empty replica list.")),
        (
            with_assignments("t", &[(0, &[5])]),
            InvalidReplicaAssignment,
            format!("{placed} broker 5, but no such broker is registered."),
        ),
        (
            with_assignments("t", &[(0, &[1, 1])]),
            InvalidReplicaAssignment,
            format!("{placed} the broker 1 more than once."),
        ),
        (
            with_assignments("t", &[(0, &[1]), (1, &[0, 2])]),
            InvalidReplicaAssignment,
            format!(
                "{placed} a partition with 2 replica(s), but this is not consistent with previous partitions, which \
                 have 1 replica(s)."
            ),
        ),
        (
            with_assignments("t", &[(0, &[1]), (0, &[0])]),
            InvalidReplicaAssignment,
            "Found multiple manual partition assignments for partition 0".into(),
        ),
        (
            with_assignments("t", &[(0, &[1]), (2, &[0])]),
            InvalidReplicaAssignment,
            "partitions should be a consecutive 0-based integer sequence".into(),
        ),
        (
            with_assignments("t", &[(-1, &[1])]),
            InvalidReplicaAssignment,
            "partitions should be a consecutive 0-based integer sequence".into(),
        ),
    ];
    let mut cluster = Cluster::with_brokers(3);
    cluster.create(NewTopic::new("taken")).unwrap();
    cluster.create(NewTopic::new("a_b")).unwrap();
    for (topic, code, message) in cases {
        let offset = cluster.image.offset();
        assert_eq!(refusal(cluster.create(topic.clone())), (code, message), "{topic:?}");
        assert_eq!(cluster.image.offset(), offset, "a refused topic leaves nothing behind");
    }
}

#[test]
fn names_that_differ_in_case_only_are_two_topics() {
    let mut cluster = Cluster::with_brokers(1);
    let lower = cluster.create(NewTopic::new("orders")).unwrap();
    let upper = cluster.create(NewTopic::new("Orders")).unwrap();
    assert_ne!(lower.id, upper.id);
}

#[test]
fn a_topic_gets_what_it_asks_for_or_the_brokers_defaults() {
    let mut cluster = Cluster::with_brokers(3);
    cluster.static_config.insert("num.partitions".into(), "5".into());
    cluster.static_config.insert("default.replication.factor".into(), "2".into());
    let cases = [
        (NewTopic::new("defaults"), (5, 2)),
        (NewTopic::sized("own", 7, 3), (7, 3)),
        (NewTopic::sized("mixed", -1, 1), (5, 1)),
        (with_assignments("assigned", &[(1, &[2, 0]), (0, &[1, 2])]), (2, 2)),
    ];
    for (topic, (partitions, replication_factor)) in cases {
        let name = Arc::clone(&topic.name);
        let created = cluster.create(topic).unwrap();
        assert_eq!((created.partitions, created.replication_factor), (partitions, replication_factor), "{name}");
        let image = cluster.image.topic(&name).unwrap();
        assert_eq!(image.id, created.id);
        assert_eq!(image.partition_count(), partitions);
        for state in &image.partitions {
            assert_eq!(state.isr, state.replicas);
            assert_eq!((state.leader, state.leader_epoch, state.partition_epoch), (state.replicas[0], 0, 0));
        }
    }
    assert_eq!(cluster.replicas("assigned"), [[1, 2], [2, 0]]);
}

#[test]
fn a_value_that_equals_the_default_is_kept_as_set() {
    let mut cluster = Cluster::with_brokers(1);
    let settings = [("cleanup.policy", Some("delete")), ("retention.ms", Some("604800000"))];
    cluster.create(with_configs("t", &settings)).unwrap();
    let overrides = cluster.image.overrides(&crate::event::ConfigResource::topic("t")).unwrap();
    let expected = settings.map(|(name, value)| (name.to_owned(), value.unwrap().to_owned()));
    assert_eq!(**overrides, Overrides::from(expected));
}

#[test]
fn topics_of_one_request_are_judged_one_after_the_other() {
    let mut cluster = Cluster::with_brokers(1);
    let names = ["a.b", "twice", "a_b", "twice", "c"];
    let topics = names.map(|name| NewTopic::sized(name, 2, 1)).to_vec();
    let reply = cluster.run(&Command::CreateTopics(CreateTopics { topics, validate_only: false })).unwrap();
    let Reply::TopicsCreated(results) = reply else { panic!("{reply:?}") };
    let codes: Vec<_> =
        results.iter().map(|(name, outcome)| (&**name, outcome.as_ref().err().map(|error| error.code))).collect();
    let expected = [
        ("a.b", None),
        ("twice", Some(ErrorCode::InvalidRequest)),
        ("a_b", Some(ErrorCode::InvalidTopicException)),
        ("c", None),
    ];
    assert_eq!(codes, expected);
    assert_eq!(cluster.image.topics().len(), 2);
    assert_eq!(cluster.image.topics().partition_count(), 4);
}

#[test]
fn validating_only_tells_the_outcome_and_changes_nothing() {
    let mut cluster = Cluster::with_brokers(1);
    let topics = vec![NewTopic::sized("t", 3, 1), NewTopic::sized("u", 1, 2)];
    let decision = cluster.decide(&Command::CreateTopics(CreateTopics { topics, validate_only: true })).unwrap();
    assert_eq!(decision.events, []);
    let Reply::TopicsCreated(results) = decision.reply else { panic!("{:?}", decision.reply) };
    assert_eq!(results[0].1.as_ref().unwrap().partitions, 3);
    assert_eq!(results[1].1.as_ref().unwrap_err().code, ErrorCode::InvalidReplicationFactor);
}

#[test]
fn a_request_for_too_many_partitions_is_refused_as_a_whole() {
    let mut cluster = Cluster::with_brokers(1);
    for (sizes, allowed) in [(vec![9_999, 1], true), (vec![9_999, 1, 1], false), (vec![i32::MAX; 3], false)] {
        let topics = (0..).zip(&sizes).map(|(n, size)| NewTopic::sized(format!("t{n}"), *size, 1)).collect();
        let outcome = cluster.decide(&Command::CreateTopics(CreateTopics { topics, validate_only: true }));
        match outcome {
            Ok(_) => assert!(allowed, "{sizes:?}"),
            Err(error) => {
                assert!(!allowed, "{sizes:?}");
                assert_eq!(error.code, ErrorCode::PolicyViolation);
            }
        }
    }
}

#[test]
fn fenced_brokers_get_replicas_but_neither_lead_nor_count_as_in_sync() {
    let mut cluster = Cluster::with_brokers(1);
    cluster.register(1, 1);
    cluster.create(NewTopic::sized("t", 1, 2)).unwrap();
    let state = &cluster.image.topic("t").unwrap().partitions[0];
    assert_eq!(state.replicas, [BrokerId(0), BrokerId(1)]);
    assert_eq!(state.isr, [BrokerId(0)]);
    let refused = refusal(cluster.create(with_assignments("u", &[(0, &[1])])));
    let message = "All brokers specified in the manual partition assignment for partition 0 are fenced or in \
                   controlled shutdown.";
    assert_eq!(refused, (ErrorCode::InvalidReplicaAssignment, message.to_owned()));
    let mut none_serve = Cluster::with_brokers(0);
    none_serve.register(0, 1);
    let message = "Unable to replicate the partition 1 time(s): All brokers are currently fenced.";
    assert_eq!(
        refusal(none_serve.create(NewTopic::sized("t", 1, 1))),
        (ErrorCode::InvalidReplicationFactor, message.to_owned())
    );
}

#[test]
fn a_topic_that_is_adopted_keeps_its_id_and_nobody_gets_it_twice() {
    let mut cluster = Cluster::with_brokers(1);
    let id = Uuid([9; 16]);
    let created = cluster.create(NewTopic { id: Some(id), ..NewTopic::sized("adopted", 1, 1) }).unwrap();
    assert_eq!(created.id, id);
    let refused = cluster.create(NewTopic { id: Some(id), ..NewTopic::sized("other", 1, 1) }).unwrap_err();
    assert_eq!(refused.code, ErrorCode::TopicAlreadyExists);
}
