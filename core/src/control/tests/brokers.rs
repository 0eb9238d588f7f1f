use super::*;
use crate::event::PartitionState;

fn identity(id: i32, epoch: i64) -> BrokerIdentity {
    BrokerIdentity { id: BrokerId(id), epoch }
}

/// Creates topics of one partition each.
fn create_each(cluster: &mut Cluster, topics: &[(&str, &[i32])]) {
    for (name, replicas) in topics {
        cluster.create_on(name, &[replicas]);
    }
}

fn state(cluster: &Cluster, topic: &str) -> PartitionState {
    PartitionState::clone(&cluster.image.topic(topic).unwrap().partitions[0])
}

#[test]
fn a_new_process_starts_fenced_and_shuts_out_the_one_before_it() {
    let mut cluster = Cluster::with_brokers(1);
    let old = cluster.image.broker(BrokerId(0)).unwrap().epoch;
    cluster.live = vec![BrokerId(0)];
    let refused = cluster.run(&Command::RegisterBroker(registration(0, 2))).unwrap_err();
    assert_eq!(refused.code, ErrorCode::DuplicateBrokerRegistration, "the old process is alive");
    assert_eq!(cluster.register(0, 1), old, "the same process that asks again gets the same answer");
    cluster.live.clear();
    let new = cluster.register(0, 2);
    assert!(new > old);
    assert!(!cluster.image.is_active(BrokerId(0)));
    for command in [Command::UnfenceBroker(identity(0, old)), Command::FenceBroker(identity(0, old))] {
        assert_eq!(cluster.run(&command).unwrap_err().code, ErrorCode::StaleBrokerEpoch, "{command:?}");
    }
    cluster.run(&Command::UnfenceBroker(identity(0, new))).unwrap();
    assert!(cluster.image.is_active(BrokerId(0)));
}

#[test]
fn brokers_of_another_cluster_or_without_a_listener_are_refused() {
    let mut cluster = Cluster::with_brokers(0);
    let cases = [
        (
            RegisterBroker { cluster_id: Some(Uuid([1; 16])), ..registration(0, 1) },
            Some(ErrorCode::InconsistentClusterId),
        ),
        (RegisterBroker { id: BrokerId(-1), ..registration(0, 1) }, Some(ErrorCode::InvalidRequest)),
        (RegisterBroker { listeners: Vec::new(), ..registration(0, 1) }, Some(ErrorCode::InvalidRegistration)),
        (RegisterBroker { cluster_id: Some(Uuid([9; 16])), ..registration(0, 1) }, None),
    ];
    for (request, expected) in cases {
        let outcome = cluster.run(&Command::RegisterBroker(request.clone()));
        assert_eq!(outcome.err().map(|error| error.code), expected, "{request:?}");
    }
}

#[test]
fn leadership_moves_within_the_isr_and_waits_for_its_last_member() {
    let mut cluster = Cluster::with_brokers(2);
    cluster.create(NewTopic::sized("t", 1, 2)).unwrap();
    let (first, second) = (state(&cluster, "t").replicas[0], state(&cluster, "t").replicas[1]);
    let epoch = |cluster: &Cluster, id| cluster.image.broker(id).unwrap().epoch;

    let gone = identity(first.0, epoch(&cluster, first));
    cluster.run(&Command::FenceBroker(gone)).unwrap();
    let born = PartitionState::new(vec![first, second], vec![second]);
    let expected = PartitionState { leader_epoch: 1, partition_epoch: 1, ..born };
    assert_eq!(state(&cluster, "t"), expected);

    let last = identity(second.0, epoch(&cluster, second));
    cluster.run(&Command::FenceBroker(last)).unwrap();
    let leaderless = PartitionState { leader: BrokerId::NONE, leader_epoch: 2, partition_epoch: 2, ..expected };
    assert_eq!(state(&cluster, "t"), leaderless, "the last in-sync replica stays in the ISR");

    cluster.run(&Command::UnfenceBroker(gone)).unwrap();
    assert_eq!(state(&cluster, "t"), leaderless, "a broker outside the ISR does not lead");
    cluster.run(&Command::UnfenceBroker(last)).unwrap();
    let expected = PartitionState { leader: second, leader_epoch: 3, partition_epoch: 3, ..leaderless };
    assert_eq!(state(&cluster, "t"), expected);
}

#[test]
fn a_leader_that_starts_again_leads_under_a_new_epoch() {
    let mut cluster = Cluster::with_brokers(1);
    cluster.create(NewTopic::sized("t", 1, 1)).unwrap();
    let epoch = cluster.register(0, 2);
    assert_eq!(state(&cluster, "t").leader, BrokerId::NONE);
    cluster.run(&Command::UnfenceBroker(identity(0, epoch))).unwrap();
    let after = state(&cluster, "t");
    assert_eq!((after.leader, after.leader_epoch), (BrokerId(0), 2));
}

#[test]
fn fencing_and_unfencing_twice_changes_nothing() {
    let mut cluster = Cluster::with_brokers(1);
    let broker = identity(0, cluster.image.broker(BrokerId(0)).unwrap().epoch);
    assert_eq!(cluster.decide(&Command::UnfenceBroker(broker)).unwrap().events, []);
    cluster.run(&Command::FenceBroker(broker)).unwrap();
    assert_eq!(cluster.decide(&Command::FenceBroker(broker)).unwrap().events, []);
}

#[test]
fn an_unregistered_broker_is_forgotten() {
    let mut cluster = Cluster::with_brokers(2);
    cluster.run(&Command::UnregisterBroker { broker: BrokerId(1) }).unwrap();
    assert_eq!(cluster.image.brokers().len(), 1);
    let again = cluster.run(&Command::UnregisterBroker { broker: BrokerId(1) }).unwrap_err();
    assert_eq!(again.code, ErrorCode::BrokerIdNotRegistered);
}

#[test]
fn a_broker_that_wants_to_stop_hands_over_what_it_leads_and_leaves_the_isr_in_order() {
    let mut cluster = Cluster::with_brokers(3);
    create_each(&mut cluster, &[("three", &[0, 1, 2]), ("pair", &[1, 0]), ("single", &[0])]);
    let broker = cluster.identity(0);
    cluster.run(&Command::BeginShutdown(broker)).unwrap();
    let states = ["three", "pair", "single"].map(|topic| cluster.state(topic, 0));
    assert_eq!(states.each_ref().map(|it| it.leader.0), [1, 1, -1]);
    assert_eq!(states.each_ref().map(|it| it.isr.len()), [2, 1, 1], "the last replica stays in its ISR");
    assert_eq!(states.each_ref().map(|it| it.leader_epoch), [1, 0, 1]);
    assert!(cluster.image.is_active(broker.id), "it serves until it is fenced");
    assert_eq!(cluster.image.replica_index().load(broker.id).leads, 0);
    assert_eq!(cluster.decide(&Command::BeginShutdown(broker)).unwrap().events, []);
    let offset = cluster.image.offset();
    cluster.fence(0);
    assert_eq!(cluster.image.offset(), offset + 1, "nothing is left to do but to fence it");
    let again = cluster.register(0, 2);
    cluster.run(&Command::UnfenceBroker(identity(0, again))).unwrap();
    assert_eq!((cluster.state("single", 0).leader, cluster.image.may_lead(broker.id)), (BrokerId(0), true));
    assert_eq!(cluster.run(&Command::BeginShutdown(broker)).unwrap_err().code, ErrorCode::StaleBrokerEpoch);
}

#[test]
fn a_broker_whose_disk_is_another_one_leads_nothing_until_it_has_caught_up() {
    let mut cluster = Cluster::with_brokers(3);
    let topics = ["three", "pair", "single"];
    create_each(&mut cluster, &[("three", &[0, 1, 2]), ("pair", &[0, 1]), ("single", &[0])]);
    for topic in topics {
        cluster.configure(topic, "min.insync.replicas", Some("2"));
    }
    for broker in [2, 1, 0] {
        cluster.fence(broker);
    }
    assert_eq!(cluster.state("pair", 0).eligible, brokers(&[0, 1]));
    let epoch = cluster.register_with(0, 2, |it| it.log_dirs = vec![Uuid([99; 16])]);
    cluster.run(&Command::UnfenceBroker(identity(0, epoch))).unwrap();
    for topic in topics {
        let state = cluster.state(topic, 0);
        assert_eq!((state.leader, state.has_all_committed(BrokerId(0))), (BrokerId::NONE, false), "{state:?}");
        assert_eq!(state.last_known, [], "nothing is to be hoped for from an empty disk");
    }
    cluster.unfence(1);
    assert_eq!(topics.map(|topic| cluster.state(topic, 0).leader.0), [1, 1, -1]);
    cluster.set_isr("three", 0, &[0, 1]);
    cluster.fence(1);
    assert_eq!(cluster.state("three", 0).leader, BrokerId(0), "it has caught up meanwhile");
}

#[test]
fn after_an_unclean_stop_a_broker_is_trusted_with_nothing_that_others_may_have_more_of() {
    let mut cluster = Cluster::with_brokers(2);
    create_each(&mut cluster, &[("pair", &[0, 1]), ("single", &[0])]);
    cluster.fence(1);
    cluster.fence(0);
    let clean = cluster.register(0, 2);
    assert!(cluster.state("pair", 0).has_all_committed(BrokerId(0)), "the page cache outlives the process");
    assert!(clean > 0);
    let unclean = cluster.register_with(0, 3, |it| it.unclean_shutdown = true);
    cluster.run(&Command::UnfenceBroker(identity(0, unclean))).unwrap();
    let state = cluster.state("pair", 0);
    assert_eq!((state.leader, &state.isr, &state.last_known), (BrokerId::NONE, &vec![], &brokers(&[0])));
    assert_eq!(cluster.state("single", 0).leader, BrokerId(0), "nobody has more than the only replica");
}

#[test]
fn directories_belong_to_one_broker_once() {
    let mut cluster = Cluster::with_brokers(1);
    let theirs = registration(0, 1).log_dirs[0];
    let own = Uuid([60; 16]);
    let cases = [
        (vec![own, own], "Duplicate directory ID in request".to_owned()),
        (vec![Uuid::ZERO], "Reserved directory ID in request".to_owned()),
        (vec![own, theirs], format!("Broker 0 is already registered with directory {theirs}")),
    ];
    for (log_dirs, message) in cases {
        let request = RegisterBroker { log_dirs, ..registration(1, 1) };
        let refused = refusal(cluster.run(&Command::RegisterBroker(request)));
        assert_eq!(refused, (ErrorCode::InvalidRegistration, message));
    }
}

#[test]
fn a_number_that_comes_back_after_it_was_unregistered_is_trusted_with_nothing() {
    let mut cluster = Cluster::with_brokers(2);
    create_each(&mut cluster, &[("single", &[1]), ("pair", &[1, 0])]);
    cluster.run(&Command::UnregisterBroker { broker: BrokerId(1) }).unwrap();
    assert_eq!(["single", "pair"].map(|topic| cluster.state(topic, 0).leader.0), [-1, 0]);
    let epoch = cluster.register(1, 2);
    cluster.run(&Command::UnfenceBroker(identity(1, epoch))).unwrap();
    assert_eq!(cluster.state("single", 0).leader, BrokerId::NONE);
}

#[test]
fn fencing_a_broker_costs_nothing_for_partitions_of_others() {
    let mut cluster = Cluster::with_brokers(4);
    cluster.create_on("t", &[&[0, 1], &[2, 3], &[1, 0], &[3, 2]]);
    let broker = cluster.identity(0);
    let events = cluster.decide(&Command::FenceBroker(broker)).unwrap().events;
    let changed: Vec<i32> = events
        .iter()
        .filter_map(|event| match event {
            MetadataEvent::PartitionChanged { partition, .. } => Some(*partition),
            _ => None,
        })
        .collect();
    assert_eq!((changed, events.len()), (vec![0, 2], 3));
}
