use super::*;

fn grow(cluster: &mut Cluster, name: &str, count: i32, assignments: Option<&[&[i32]]>) -> Outcome<()> {
    let assignments = assignments
        .map(|all| all.iter().map(|replicas| replicas.iter().copied().map(BrokerId).collect()).collect::<Vec<_>>());
    let topics = vec![NewPartitions { name: text(name), count, assignments }];
    match cluster.run(&Command::CreatePartitions(CreatePartitions { topics, validate_only: false }))? {
        Reply::PartitionsCreated(mut results) => results.remove(0).1,
        other => panic!("{other:?}"),
    }
}

#[test]
fn topics_only_grow() {
    use ErrorCode::{InvalidPartitions, InvalidReplicaAssignment, UnknownTopicOrPartition};
    let mut cluster = Cluster::with_brokers(3);
    cluster.create(NewTopic::sized("t", 3, 2)).unwrap();
    type Case<'a> = (&'a str, i32, Option<&'a [&'a [i32]]>, ErrorCode, &'a str);
    let cases: [Case<'_>; 7] = [
        ("unknown", 4, None, UnknownTopicOrPartition, ""),
        ("t", 3, None, InvalidPartitions, "Topic already has 3 partition(s)."),
        ("t", 2, None, InvalidPartitions, "The topic t currently has 3 partition(s); 2 would not be an increase."),
        ("t", -1, None, InvalidPartitions, "The topic t currently has 3 partition(s); -1 would not be an increase."),
        (
            "t",
            5,
            Some(&[&[0, 1]]),
            InvalidReplicaAssignment,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            "t",
            4,
            Some(&[&[0]]),
            InvalidReplicaAssignment,
            "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with \
             previous partitions, which have 2 replica(s).",
        ),
        (
            "t",
            4,
            Some(&[&[0, 9]]),
            InvalidReplicaAssignment,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
    ];
    for (name, count, assignments, code, message) in cases {
        let refused = refusal(grow(&mut cluster, name, count, assignments));
        assert_eq!(refused, (code, message.to_owned()), "{name} {count} {assignments:?}");
    }
    grow(&mut cluster, "t", 5, Some(&[&[2, 0], &[1, 0]])).unwrap();
    assert_eq!(cluster.replicas("t")[3..], [[2, 0], [1, 0]]);
    grow(&mut cluster, "t", 8, None).unwrap();
    let replicas = cluster.replicas("t");
    assert_eq!(replicas.len(), 8);
    assert!(replicas.iter().all(|replicas| replicas.len() == 2), "{replicas:?}");
}

#[test]
fn every_topic_of_a_request_is_answered_once() {
    let mut cluster = Cluster::with_brokers(1);
    cluster.create(NewTopic::sized("a", 1, 1)).unwrap();
    cluster.create(NewTopic::sized("b", 1, 1)).unwrap();
    let topics = ["b", "a", "b"].map(|name| NewPartitions { name: text(name), count: 2, assignments: None }).to_vec();
    let reply = cluster.run(&Command::CreatePartitions(CreatePartitions { topics, validate_only: false })).unwrap();
    let duplicate = ControlError::new(ErrorCode::InvalidRequest, "Duplicate topic name.");
    assert_eq!(reply, Reply::PartitionsCreated(vec![(text("b"), Err(duplicate)), (text("a"), Ok(()))]));
    assert_eq!(cluster.image.topic("a").unwrap().partition_count(), 2);
    assert_eq!(cluster.image.topic("b").unwrap().partition_count(), 1);
}

#[test]
fn validating_only_adds_nothing_and_too_many_at_once_are_refused() {
    let mut cluster = Cluster::with_brokers(1);
    cluster.create(NewTopic::sized("a", 1, 1)).unwrap();
    let ask = |count| {
        let topics = vec![NewPartitions { name: text("a"), count, assignments: None }];
        Command::CreatePartitions(CreatePartitions { topics, validate_only: true })
    };
    assert_eq!(cluster.decide(&ask(10_001)).unwrap().events, []);
    assert_eq!(cluster.decide(&ask(10_002)).unwrap_err().code, ErrorCode::PolicyViolation);
    assert_eq!(cluster.decide(&ask(i32::MAX)).unwrap_err().code, ErrorCode::PolicyViolation);
}
