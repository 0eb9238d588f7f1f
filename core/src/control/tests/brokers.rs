use super::*;
use crate::event::PartitionState;

fn identity(id: i32, epoch: i64) -> BrokerIdentity {
    BrokerIdentity { id: BrokerId(id), epoch }
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
