use super::*;
use crate::event::PartitionState;

/// A topic `t` of one partition on brokers 0, 1 and 2, with a minimum of 2.
fn cluster() -> (Cluster, Uuid) {
    let mut cluster = Cluster::with_brokers(4);
    let configs = vec![(text("min.insync.replicas"), Some(text("2")))];
    let assignments = vec![ReplicaAssignment { partition: 0, replicas: [0, 1, 2].map(BrokerId).to_vec() }];
    let topic = cluster.create(NewTopic { configs, assignments, ..NewTopic::new("t") }).unwrap();
    (cluster, topic.id)
}

fn change(cluster: &Cluster, topic_id: Uuid, isr: &[i32]) -> IsrChange {
    let state = cluster.state("t", 0);
    IsrChange {
        topic_id,
        partition: 0,
        leader_epoch: state.leader_epoch,
        partition_epoch: state.partition_epoch,
        isr: isr.iter().map(|id| cluster.identity(*id)).collect(),
        recovering: false,
    }
}

fn alter(cluster: &mut Cluster, broker: i32, change: IsrChange) -> Outcome<Arc<PartitionState>> {
    let broker = cluster.identity(broker);
    match cluster.run(&Command::AlterPartition(AlterPartition { broker, partitions: vec![change] }))? {
        Reply::PartitionsAltered(mut partitions) => partitions.remove(0).outcome,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_leader_shrinks_and_grows_the_isr() {
    let (mut cluster, id) = cluster();
    let shrink = change(&cluster, id, &[0, 1]);
    let state = alter(&mut cluster, 0, shrink).unwrap();
    assert_eq!((&state.isr, &state.eligible), (&vec![BrokerId(0), BrokerId(1)], &vec![]));
    let alone = change(&cluster, id, &[0]);
    let state = alter(&mut cluster, 0, alone).unwrap();
    assert_eq!((&state.isr, &state.eligible), (&vec![BrokerId(0)], &vec![BrokerId(1)]));
    let grow = change(&cluster, id, &[2, 0, 1]);
    let state = alter(&mut cluster, 0, grow.clone()).unwrap();
    assert_eq!(state.isr, [0, 1, 2].map(BrokerId), "in the order of the replicas");
    assert_eq!((state.leader_epoch, state.partition_epoch), (0, 3), "the leadership is the same");
    assert_eq!(*state, cluster.state("t", 0));
    let again = IsrChange { partition_epoch: 3, ..grow };
    let offset = cluster.image.offset();
    assert_eq!(alter(&mut cluster, 0, again).unwrap().partition_epoch, 3);
    assert_eq!(cluster.image.offset(), offset, "nothing changes, so nothing is written");
}

#[test]
fn nobody_is_eligible_by_a_minimum_that_a_leader_does_not_go_by() {
    let mut cluster = Cluster::with_brokers(0);
    let start = |cluster: &mut Cluster, id, incarnation, minimum| {
        let epoch = cluster.register_with(id, incarnation, |request| request.min_in_sync = Some(minimum));
        cluster.run(&Command::UnfenceBroker(BrokerIdentity { id: BrokerId(id), epoch })).unwrap();
    };
    for id in 0..2 {
        start(&mut cluster, id, 1, 2);
    }
    cluster.create_on("t", &[&[0, 1]]);
    cluster.set_isr("t", 0, &[0]);
    assert_eq!(cluster.state("t", 0).eligible, [BrokerId(1)], "nothing is committed without it");
    cluster.fence(1);
    start(&mut cluster, 0, 2, 1);
    let state = cluster.state("t", 0);
    assert_eq!((&state.isr, &state.eligible), (&brokers(&[0]), &vec![]), "it leads alone from now on");
    assert_eq!(state.leader, BrokerId(0));
}

#[test]
fn changes_from_the_past_the_future_or_a_stranger_are_refused() {
    use ErrorCode::{
        FencedLeaderEpoch, IneligibleReplica, InvalidRequest, InvalidUpdateVersion, NotController, UnknownTopicId,
        UnknownTopicOrPartition,
    };
    let (mut cluster, id) = cluster();
    // An election and two changes, so that there is a past.
    cluster.fence(0);
    let back = cluster.register(0, 2);
    cluster.run(&Command::UnfenceBroker(BrokerIdentity { id: BrokerId(0), epoch: back })).unwrap();
    let good = change(&cluster, id, &[1, 2, 0]);
    assert_eq!((good.leader_epoch, good.partition_epoch), (1, 1));
    let with = |change: &dyn Fn(&mut IsrChange)| {
        let mut changed = good.clone();
        change(&mut changed);
        changed
    };
    let stale = BrokerIdentity { epoch: good.isr[2].epoch - 1, ..good.isr[2] };
    let stranger = BrokerIdentity { id: BrokerId(3), epoch: cluster.identity(3).epoch };
    let cases = [
        ("another topic", 1, with(&|it| it.topic_id = Uuid([77; 16])), UnknownTopicId),
        ("another partition", 1, with(&|it| it.partition = 1), UnknownTopicOrPartition),
        ("a newer leader epoch", 1, with(&|it| it.leader_epoch = 2), NotController),
        ("a newer partition epoch", 1, with(&|it| it.partition_epoch = 2), NotController),
        ("an older leader epoch", 1, with(&|it| it.leader_epoch = 0), FencedLeaderEpoch),
        ("not the leader", 2, good.clone(), InvalidRequest),
        ("an older partition epoch", 1, with(&|it| it.partition_epoch = 0), InvalidUpdateVersion),
        ("no replica", 1, with(&|it| it.isr.push(stranger)), InvalidRequest),
        ("twice", 1, with(&|it| it.isr.push(good.isr[1])), InvalidRequest),
        ("without the leader", 1, with(&|it| it.isr.retain(|member| member.id != BrokerId(1))), InvalidRequest),
        ("nobody", 1, with(&|it| it.isr.clear()), InvalidRequest),
        ("recovering from nothing", 1, with(&|it| it.recovering = true), InvalidRequest),
        ("an earlier life", 1, with(&|it| it.isr[2] = stale), IneligibleReplica),
    ];
    let before = cluster.image.offset();
    for (what, broker, change, code) in cases {
        let refused = alter(&mut cluster, broker, change).unwrap_err();
        assert_eq!(refused.code, code, "{what}: {refused}");
        assert_eq!(cluster.image.offset(), before, "{what} changes nothing");
    }
    let stale_leader = BrokerIdentity { epoch: 0, ..cluster.identity(1) };
    let request = AlterPartition { broker: stale_leader, partitions: vec![good.clone()] };
    assert_eq!(cluster.run(&Command::AlterPartition(request)).unwrap_err().code, ErrorCode::StaleBrokerEpoch);
    let unchecked = with(&|it| it.isr[2].epoch = -1);
    assert!(alter(&mut cluster, 1, unchecked).is_ok());
}

#[test]
fn brokers_that_are_fenced_or_about_to_stop_stay_out_of_the_isr() {
    let (mut cluster, id) = cluster();
    cluster.fence(2);
    let with_fenced = change(&cluster, id, &[0, 1, 2]);
    assert_eq!(alter(&mut cluster, 0, with_fenced).unwrap_err().code, ErrorCode::IneligibleReplica);
    cluster.unfence(2);
    let broker = cluster.identity(2);
    cluster.run(&Command::BeginShutdown(broker)).unwrap();
    let with_stopping = change(&cluster, id, &[0, 1, 2]);
    let refused = refusal(alter(&mut cluster, 0, with_stopping));
    assert_eq!(refused, (ErrorCode::IneligibleReplica, "Broker 2 may not be in the ISR: it is shutting down.".into()));
}

#[test]
fn a_leader_that_ends_its_own_reassignment_learns_who_leads() {
    let (mut cluster, id) = cluster();
    cluster.reassign("t", 0, Some(&[3, 1, 2])).unwrap();
    let state = cluster.state("t", 0);
    assert_eq!(state.replicas, [3, 1, 2, 0].map(BrokerId));
    let done = change(&cluster, id, &[0, 1, 2, 3]);
    assert_eq!(alter(&mut cluster, 0, done).unwrap_err().code, ErrorCode::NewLeaderElected);
    let state = cluster.state("t", 0);
    assert_eq!((state.replicas, state.leader, state.leader_epoch), ([3, 1, 2].map(BrokerId).to_vec(), BrokerId(3), 1));
}

#[test]
fn a_leader_of_an_unclean_election_is_alone_until_it_is_done() {
    let (mut cluster, id) = cluster();
    for broker in [0, 1, 2] {
        cluster.fence(broker);
    }
    // The disks of all that had everything are new; broker 2 left long before.
    for broker in [0, 1] {
        cluster.register_with(broker, 2, |it| it.log_dirs = vec![Uuid([200 + broker as u8; 16])]);
    }
    let state = cluster.state("t", 0);
    assert_eq!((state.isr.len(), state.leader, &state.eligible), (0, BrokerId::NONE, &vec![BrokerId(2)]));
    cluster.register_with(2, 2, |it| it.unclean_shutdown = true);
    assert_eq!(cluster.state("t", 0).last_known, [BrokerId(2)]);
    for broker in [0, 1, 2] {
        cluster.unfence(broker);
    }
    assert_eq!(cluster.state("t", 0).leader, BrokerId::NONE, "nobody asked for it");
    let asked = ElectLeaders { kind: ElectionKind::Unclean, partitions: None };
    cluster.run(&Command::ElectLeaders(asked)).unwrap();
    let state = cluster.state("t", 0);
    assert_eq!((state.leader, &state.isr, state.recovering), (BrokerId(2), &vec![BrokerId(2)], true));
    let early = IsrChange { recovering: true, ..change(&cluster, id, &[2, 1]) };
    assert_eq!(alter(&mut cluster, 2, early).unwrap_err().code, ErrorCode::InvalidRequest);
    let done = change(&cluster, id, &[2, 1]);
    assert!(!alter(&mut cluster, 2, done).unwrap().recovering);
}
