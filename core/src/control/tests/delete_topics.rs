use super::*;

fn delete(cluster: &mut Cluster, topics: Vec<TopicRef>) -> Vec<(Option<ErrorCode>, String)> {
    match cluster.run(&Command::DeleteTopics(DeleteTopics { topics })) {
        Ok(Reply::TopicsDeleted(results)) => results
            .into_iter()
            .map(|topic| match topic.outcome {
                Ok(()) => (None, topic.name.unwrap().to_string()),
                Err(error) => (Some(error.code), error.message.unwrap_or_default()),
            })
            .collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn topics_go_by_name_or_by_id_with_all_they_had() {
    let mut cluster = Cluster::with_brokers(1);
    let configs = vec![(text("retention.ms"), Some(text("1")))];
    cluster.create(NewTopic { configs, ..NewTopic::sized("a.b", 2, 1) }).unwrap();
    let id = cluster.create(NewTopic::sized("c", 2, 1)).unwrap().id;
    assert_eq!(delete(&mut cluster, vec![TopicRef::named("a.b")]), [(None, "a.b".to_owned())]);
    assert_eq!(delete(&mut cluster, vec![TopicRef::identified(id)]), [(None, "c".to_owned())]);
    assert!(cluster.image.topics().is_empty());
    assert_eq!(cluster.image.topics().partition_count(), 0);
    assert_eq!(cluster.image.all_overrides().count(), 0);
    let again = cluster.create(NewTopic::new("a_b")).unwrap();
    assert_ne!(again.id, id, "the name is free again, and a new life has a new id");
}

#[test]
fn references_that_name_no_topic_or_name_one_twice_are_refused() {
    use ErrorCode::{InvalidRequest, UnknownTopicId, UnknownTopicOrPartition};
    let mut cluster = Cluster::with_brokers(1);
    let id = cluster.create(NewTopic::new("a")).unwrap().id;
    cluster.create(NewTopic::new("b")).unwrap();
    let both = TopicRef { name: Some(text("a")), id };
    let cases = [
        (vec![TopicRef::named("x")], vec![(UnknownTopicOrPartition, UnknownTopicOrPartition.message())]),
        (vec![TopicRef::identified(Uuid([99; 16]))], vec![(UnknownTopicId, UnknownTopicId.message())]),
        (
            vec![TopicRef { name: None, id: Uuid::ZERO }],
            vec![(InvalidRequest, "Neither topic name nor id were specified.")],
        ),
        (vec![both], vec![(InvalidRequest, "You may not specify both topic name and topic id.")]),
        (vec![TopicRef::named("a"); 2], vec![(InvalidRequest, "Duplicate topic name.")]),
        (vec![TopicRef::identified(id); 3], vec![(InvalidRequest, "Duplicate topic id.")]),
        (
            vec![TopicRef::named("a"), TopicRef::identified(id)],
            vec![(InvalidRequest, "The provided topic name maps to an ID that was already supplied."); 2],
        ),
    ];
    for (topics, expected) in cases {
        let expected: Vec<_> = expected.into_iter().map(|(code, text)| (Some(code), text.to_owned())).collect();
        assert_eq!(delete(&mut cluster, topics.clone()), expected, "{topics:?}");
    }
    assert_eq!(cluster.image.topics().len(), 2);
}

#[test]
fn deletion_can_be_forbidden() {
    let mut cluster = Cluster::with_brokers(1);
    cluster.create(NewTopic::new("a")).unwrap();
    cluster.static_config.insert("delete.topic.enable".into(), "false".into());
    let command = Command::DeleteTopics(DeleteTopics { topics: vec![TopicRef::named("a")] });
    assert_eq!(cluster.run(&command).unwrap_err().code, ErrorCode::TopicDeletionDisabled);
}
