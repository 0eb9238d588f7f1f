use super::*;

#[test]
fn replicas_are_added_first_and_taken_away_when_all_are_in_sync() {
    let mut cluster = Cluster::with_brokers(6);
    cluster.create_on("t", &[&[0, 1, 2]]);
    cluster.reassign("t", 0, Some(&[3, 4, 2])).unwrap();
    let state = cluster.state("t", 0);
    assert_eq!(state.replicas, brokers(&[3, 4, 2, 0, 1]));
    assert_eq!((&state.adding, &state.removing), (&brokers(&[3, 4]), &brokers(&[0, 1])));
    assert_eq!((state.leader, state.leader_epoch, &state.isr), (BrokerId(0), 0, &brokers(&[2, 0, 1])));
    assert_eq!(cluster.image.replica_index().reassigning().count(), 1);
    cluster.set_isr("t", 0, &[0, 1, 2, 3]);
    assert!(cluster.state("t", 0).is_reassigning());
    cluster.set_isr("t", 0, &[0, 1, 2, 3, 4]);
    let state = cluster.state("t", 0);
    assert_eq!((&state.replicas, &state.isr), (&brokers(&[3, 4, 2]), &brokers(&[3, 4, 2])));
    assert_eq!((state.leader, state.is_reassigning()), (BrokerId(3), false));
    assert_eq!(cluster.image.replica_index().reassigning().count(), 0);
}

#[test]
fn what_is_in_sync_already_takes_no_time() {
    let mut cluster = Cluster::with_brokers(3);
    cluster.create_on("t", &[&[0, 1, 2]]);
    // Target, leader afterwards, rise of the leader epoch.
    for (target, leader, leader_epoch) in [(&[2, 0, 1][..], 0, 0), (&[2, 0], 0, 1), (&[2], 2, 2)] {
        cluster.reassign("t", 0, Some(target)).unwrap();
        let state = cluster.state("t", 0);
        assert_eq!((&state.replicas, state.is_reassigning()), (&brokers(target), false));
        assert_eq!((state.leader, state.leader_epoch), (BrokerId(leader), leader_epoch), "{target:?}");
    }
    let offset = cluster.image.offset();
    cluster.reassign("t", 0, Some(&[2])).unwrap();
    assert_eq!(cluster.image.offset(), offset, "it is there already");
}

#[test]
fn a_move_is_cancelled_back_to_what_was_before_the_first_of_them() {
    let mut cluster = Cluster::with_brokers(6);
    cluster.create_on("t", &[&[0, 1]]);
    let born = cluster.state("t", 0);
    cluster.reassign("t", 0, Some(&[2, 3])).unwrap();
    cluster.reassign("t", 0, Some(&[3, 4])).unwrap();
    let state = cluster.state("t", 0);
    assert_eq!(state.replicas, brokers(&[3, 4, 0, 1]), "broker 2 is not wanted any more");
    assert_eq!((&state.adding, &state.removing), (&brokers(&[3, 4]), &brokers(&[0, 1])));
    cluster.reassign("t", 0, None).unwrap();
    let state = cluster.state("t", 0);
    assert_eq!((&state.replicas, &state.isr, state.leader), (&born.replicas, &born.isr, born.leader));
    let refused = cluster.reassign("t", 0, None).unwrap_err();
    assert_eq!(refused.code, ErrorCode::NoReassignmentInProgress);
}

#[test]
fn who_alone_has_all_records_is_not_dropped() {
    let mut cluster = Cluster::with_brokers(4);
    cluster.create_on("t", &[&[0]]);
    cluster.reassign("t", 0, Some(&[1, 2])).unwrap();
    cluster.set_isr("t", 0, &[0, 1]);
    cluster.fence(0);
    assert_eq!(cluster.state("t", 0).isr, brokers(&[1]), "only a replica that is being added is left");
    let refused = refusal(cluster.reassign("t", 0, None));
    let message = "Unable to revert partition assignment for t:0 because it would require an unclean leader election.";
    assert_eq!(refused, (ErrorCode::InvalidReplicaAssignment, message.to_owned()));
    cluster.reassign("t", 0, Some(&[3, 2])).unwrap();
    let state = cluster.state("t", 0);
    assert_eq!(state.replicas, brokers(&[3, 2, 0, 1]), "broker 1 stays until others have what it has");
    assert_eq!((state.leader, &state.removing), (BrokerId(1), &brokers(&[0, 1])));
    cluster.set_isr("t", 0, &[1, 2, 3]);
    assert_eq!(cluster.state("t", 0).replicas, brokers(&[3, 2]));
}

#[test]
fn moves_that_cannot_be_are_refused_one_by_one() {
    use ErrorCode::{InvalidReplicaAssignment, InvalidReplicationFactor, UnknownTopicOrPartition};
    let mut cluster = Cluster::with_brokers(4);
    cluster.create_on("t", &[&[0, 1], &[1, 0]]);
    let placed = "The manual partition assignment includes";
    let cases: [(&str, i32, &[i32], ErrorCode, String); 6] = [
        ("u", 0, &[0, 1], UnknownTopicOrPartition, "Unable to find a topic named u.".into()),
        ("t", 2, &[0, 1], UnknownTopicOrPartition, "Unable to find partition t:2.".into()),
        ("t", 0, &[], InvalidReplicaAssignment, format!("{placed} an empty replica list.")),
        ("t", 0, &[0, 0], InvalidReplicaAssignment, format!("{placed} the broker 0 more than once.")),
        ("t", 0, &[0, 9], InvalidReplicaAssignment, format!("{placed} broker 9, but no such broker is registered.")),
        ("t", 0, &[0, 1, 2], InvalidReplicationFactor, "The replication factor is changed from 2 to 3".into()),
    ];
    let mut partitions: Vec<Reassignment> = cases
        .iter()
        .map(|(topic, partition, replicas, ..)| Reassignment {
            topic: text(topic),
            partition: *partition,
            replicas: Some(brokers(replicas)),
        })
        .collect();
    partitions.push(Reassignment { topic: text("t"), partition: 1, replicas: Some(brokers(&[2, 3])) });
    let request = ReassignPartitions { partitions, allow_replication_factor_change: false };
    let reply = cluster.run(&Command::ReassignPartitions(request)).unwrap();
    let Reply::PartitionsReassigned(results) = reply else { panic!("{reply:?}") };
    for (result, (topic, partition, replicas, code, message)) in results.iter().zip(cases) {
        assert_eq!(refusal(result.outcome.clone()), (code, message), "{topic} {partition} {replicas:?}");
    }
    assert_eq!(results[6].outcome, Ok(()));
    assert!(cluster.state("t", 1).is_reassigning());
}

fn change_factor(cluster: &mut Cluster, topic: &str, factor: i16) -> Outcome<()> {
    let request = ChangeReplicationFactor { topics: vec![(text(topic), factor)] };
    match cluster.run(&Command::ChangeReplicationFactor(request))? {
        Reply::ReplicationFactorsChanged(mut topics) => topics.remove(0).1,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_topic_gets_another_number_of_replicas_where_there_is_room_for_them() {
    let mut cluster = Cluster::with_brokers(0);
    for (id, rack) in [(0, "a"), (1, "a"), (2, "b"), (3, "c")] {
        cluster.register_with(id, 1, |it| it.rack = Some(text(rack)));
        cluster.unfence(id);
    }
    cluster.create_on("t", &[&[0], &[2]]);
    change_factor(&mut cluster, "t", 3).unwrap();
    for (partition, leader, expected) in [(0, 0, [0, 2, 3]), (1, 2, [2, 1, 3])] {
        let state = cluster.state("t", partition);
        let mut racks: Vec<_> =
            state.replicas.iter().map(|id| cluster.image.broker(*id).unwrap().rack.clone()).collect();
        racks.sort();
        racks.dedup();
        assert_eq!((state.replicas[0].0, racks.len()), (leader, 3), "{:?}", state.replicas);
        assert_eq!(state.replicas.len(), expected.len());
        assert_eq!((state.adding.len(), &state.isr), (2, &brokers(&[leader])));
    }
    let refused = refusal(change_factor(&mut cluster, "t", 2));
    assert_eq!(refused.0, ErrorCode::ReassignmentInProgress);
    for partition in [0, 1] {
        let all: Vec<i32> = cluster.state("t", partition).replicas.iter().map(|id| id.0).collect();
        cluster.set_isr("t", partition, &all);
    }
    change_factor(&mut cluster, "t", 1).unwrap();
    assert_eq!(cluster.replicas("t"), [[0], [2]], "the preferred leader stays");
    for (factor, code) in [(0, ErrorCode::InvalidReplicationFactor), (5, ErrorCode::InvalidReplicationFactor)] {
        assert_eq!(change_factor(&mut cluster, "t", factor).unwrap_err().code, code, "{factor}");
    }
    let unknown = change_factor(&mut cluster, "u", 1).unwrap_err();
    assert_eq!(unknown.code, ErrorCode::UnknownTopicOrPartition);
}
