use std::collections::BTreeSet;

use super::*;
use crate::event::BrokerDuty;
use crate::topic_name::CONSUMER_OFFSETS;

fn tend(cluster: &mut Cluster, leaders: bool, replicas: bool, changes_max: u32) -> Tended {
    match cluster.run(&Command::Tend(Tend { leaders, replicas, changes_max })) {
        Ok(Reply::Tended(tended)) => tended,
        other => panic!("{other:?}"),
    }
}

fn set_duty(cluster: &mut Cluster, id: i32, duty: BrokerDuty) {
    cluster.run(&Command::SetBrokerDuty { broker: BrokerId(id), duty }).unwrap();
}

/// Every move that is under way ends.
fn catch_up(cluster: &mut Cluster) {
    let moving: Vec<_> = cluster.image.replica_index().reassigning().collect();
    for key in moving {
        let name = Arc::clone(&cluster.image.topic_by_id(key.0).unwrap().name);
        let all: Vec<i32> = cluster.state(&name, key.1).replicas.iter().map(|id| id.0).collect();
        cluster.set_isr(&name, key.1, &all);
    }
}

#[test]
fn leadership_goes_back_to_preferred_leaders_bit_by_bit() {
    let mut cluster = Cluster::with_brokers(3);
    cluster.create_on("t", &[&[0, 1, 2], &[0, 2, 1], &[0, 1, 2], &[1, 0, 2]]);
    cluster.fence(0);
    cluster.unfence(0);
    assert_eq!(tend(&mut cluster, true, false, 10), Tended::default(), "broker 0 is not in sync yet");
    for partition in 0..4 {
        cluster.set_isr("t", partition, &[0, 1, 2]);
    }
    assert_eq!(tend(&mut cluster, false, true, 10).elections, 0);
    let first = tend(&mut cluster, true, false, 2);
    assert_eq!((first.elections, first.is_unfinished), (2, true));
    let second = tend(&mut cluster, true, false, 2);
    assert_eq!((second.elections, second.is_unfinished), (1, false));
    assert_eq!(tend(&mut cluster, true, false, 2), Tended::default());
}

#[test]
fn a_broker_that_is_about_to_be_taken_down_is_given_no_leadership() {
    let mut cluster = Cluster::with_brokers(3);
    cluster.create_on("t", &[&[0, 1, 2]]);
    cluster.fence(0);
    cluster.unfence(0);
    cluster.set_isr("t", 0, &[0, 1, 2]);
    let grant = OpenGrant {
        brokers: BTreeSet::from([BrokerId(0)]),
        operator_epoch: 1,
        duration_ms: 100,
        policy: SmallPartitions::Warn,
    };
    assert!(matches!(cluster.run(&Command::OpenGrant(grant)), Ok(Reply::GrantOpened(_))));
    assert_eq!(tend(&mut cluster, true, false, 10).elections, 0);
    cluster.now_ms = 100;
    assert_eq!(tend(&mut cluster, true, false, 10).elections, 1, "the grant has expired");
}

#[test]
fn a_draining_broker_loses_all_its_replicas_a_few_at_a_time() {
    let mut cluster = Cluster::with_brokers(4);
    cluster.create_on("t", &[&[0, 1], &[1, 0], &[2, 0], &[1, 2], &[0, 3]]);
    set_duty(&mut cluster, 0, BrokerDuty::Draining);
    let mut moves = 0;
    for _ in 0..10 {
        let tended = tend(&mut cluster, false, true, 2);
        assert!(cluster.image.replica_index().reassigning_count() <= 2);
        moves += tended.moves;
        if !tended.is_unfinished && tended.moves == 0 {
            break;
        }
        catch_up(&mut cluster);
    }
    assert_eq!((moves, cluster.image.replica_index().load(BrokerId(0)).replicas), (4, 0));
    let loads = [1, 2, 3].map(|id| cluster.image.replica_index().load(BrokerId(id)).replicas);
    assert_eq!(loads.iter().sum::<usize>(), 10);
    assert!(loads.iter().all(|load| (3..=4).contains(load)), "{loads:?}");
    assert_eq!(cluster.replicas("t")[3], [1, 2], "what is elsewhere stays where it is");
    cluster.create(NewTopic::sized("new", 9, 2)).unwrap();
    assert_eq!(cluster.image.replica_index().load(BrokerId(0)).replicas, 0, "nor does it get new ones");
    set_duty(&mut cluster, 0, BrokerDuty::Serving);
    cluster.create(NewTopic::sized("later", 9, 2)).unwrap();
    assert!(cluster.image.replica_index().load(BrokerId(0)).replicas > 0);
}

#[test]
fn replicas_that_no_other_broker_can_take_are_counted() {
    let mut cluster = Cluster::with_brokers(3);
    cluster.create_on("wide", &[&[0, 1, 2]]);
    cluster.create_on("narrow", &[&[0, 1]]);
    set_duty(&mut cluster, 0, BrokerDuty::Draining);
    let tended = tend(&mut cluster, false, true, 10);
    assert_eq!((tended.moves, tended.stuck), (1, 1));
    catch_up(&mut cluster);
    assert_eq!(cluster.replicas("narrow"), [[2, 1]], "the heir takes the very place");
    let again = tend(&mut cluster, false, true, 10);
    assert_eq!((again.moves, again.stuck), (0, 1));
    let unknown = Command::SetBrokerDuty { broker: BrokerId(9), duty: BrokerDuty::Cordoned };
    assert_eq!(cluster.run(&unknown).unwrap_err().code, ErrorCode::BrokerIdNotRegistered);
}

#[test]
fn a_cordoned_broker_keeps_what_it_has_and_gets_nothing_new() {
    let mut cluster = Cluster::with_brokers(3);
    cluster.create_on("t", &[&[0, 1]]);
    set_duty(&mut cluster, 0, BrokerDuty::Cordoned);
    assert_eq!(tend(&mut cluster, true, true, 10), Tended::default());
    cluster.create(NewTopic::sized("new", 6, 2)).unwrap();
    assert_eq!(cluster.image.replica_index().load(BrokerId(0)).replicas, 1);
    let refused = refusal(cluster.create(NewTopic::sized("wide", 1, 3)));
    let message = "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached \
                   because only 2 broker(s) are registered.";
    assert_eq!(refused, (ErrorCode::InvalidReplicationFactor, message.to_owned()));
}

#[test]
fn internal_topics_have_as_many_replicas_as_there_are_brokers_for() {
    let mut cluster = Cluster::with_brokers(1);
    let created = cluster.create(NewTopic::sized(CONSUMER_OFFSETS, 4, 3)).unwrap();
    assert_eq!(created.replication_factor, 1, "there is one broker");
    cluster.create(NewTopic::sized("t", 1, 1)).unwrap();
    assert_eq!(tend(&mut cluster, false, true, 100), Tended::default());
    for brokers in [2, 3, 3] {
        let id = brokers - 1 + i32::from(cluster.image.brokers().len() == 3);
        cluster.register(id, 1);
        cluster.unfence(id);
        tend(&mut cluster, false, true, 100);
        catch_up(&mut cluster);
        let replicas = cluster.replicas(CONSUMER_OFFSETS);
        assert!(replicas.iter().all(|it| it.len() == brokers as usize), "{brokers}: {replicas:?}");
    }
    assert_eq!(cluster.replicas("t"), [[0]], "other topics have what they asked for");
    let loads = [0, 1, 2, 3].map(|id| cluster.image.replica_index().load(BrokerId(id)).replicas);
    assert_eq!(loads.iter().sum::<usize>(), 4 * 3 + 1);
}
