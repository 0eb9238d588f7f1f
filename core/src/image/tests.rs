use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::event::{Listener, SecurityProtocol};

fn ids(numbers: &[i32]) -> Vec<BrokerId> {
    numbers.iter().copied().map(BrokerId).collect()
}

fn founded() -> MetadataImage {
    let mut image = MetadataImage::default();
    image.apply(&MetadataEvent::ClusterCreated { cluster_id: Uuid([9; 16]) }).unwrap();
    image
}

fn registered(id: i32, epoch: i64) -> MetadataEvent {
    let listener = Listener { name: "A".into(), host: "h".into(), port: 1, security: SecurityProtocol::Plaintext };
    MetadataEvent::BrokerRegistered(Arc::new(BrokerRegistration {
        id: BrokerId(id),
        epoch,
        incarnation: Uuid([1; 16]),
        rack: None,
        listeners: vec![listener],
        log_dirs: vec![Uuid([id as u8; 16])],
        features: BTreeMap::new(),
        fenced: true,
        shutting_down: false,
        min_in_sync: None,
    }))
}

/// What the index says, found by looking at all partitions.
fn assert_index_is_right(image: &MetadataImage) {
    let index = image.replica_index();
    let all: Vec<(PartitionKey, &Arc<PartitionState>)> = image
        .topics()
        .iter()
        .flat_map(|topic| topic.numbered().map(|(partition, state)| ((topic.id, partition), state)))
        .collect();
    let keys = |test: &dyn Fn(&PartitionState) -> bool| -> BTreeSet<PartitionKey> {
        all.iter().filter(|(_, state)| test(state)).map(|(key, _)| *key).collect()
    };
    for broker in (-1..6).map(BrokerId) {
        let hosted = keys(&|state| state.replicas.contains(&broker));
        assert_eq!(index.hosted_by(broker).collect::<Vec<_>>(), hosted.iter().copied().collect::<Vec<_>>());
        let load = BrokerLoad {
            replicas: hosted.len(),
            preferred: keys(&|state| state.preferred_leader() == broker).len(),
            leads: keys(&|state| state.leader == broker).len(),
        };
        assert_eq!(index.load(broker), load, "broker {broker}");
    }
    assert_eq!(index.leaderless().collect::<BTreeSet<_>>(), keys(&|state| !state.has_leader()));
    assert_eq!(index.reassigning().collect::<BTreeSet<_>>(), keys(&|state| state.is_reassigning()));
    let not_preferred = keys(&|state| state.has_leader() && state.leader != state.replicas[0]);
    assert_eq!(index.not_preferred().collect::<BTreeSet<_>>(), not_preferred);
}

#[derive(Debug, Clone)]
enum Step {
    Create { topic: u8, partitions: Vec<PartitionState> },
    Change { topic: u8, partition: i32, state: PartitionState },
    Delete { topic: u8 },
}

fn states() -> impl Strategy<Value = PartitionState> {
    let replicas = Just(ids(&[0, 1, 2, 3, 4])).prop_shuffle();
    (replicas, 1..4_usize, 0..4_usize, 0..2_usize).prop_map(|(replicas, count, leader, adding)| {
        let replicas = replicas[..count].to_vec();
        let leader = replicas.get(leader).copied().unwrap_or(BrokerId::NONE);
        let adding = replicas[..adding].to_vec();
        PartitionState { leader, adding, ..PartitionState::new(replicas.clone(), replicas) }
    })
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4_u8, proptest::collection::vec(states(), 0..4))
            .prop_map(|(topic, partitions)| Step::Create { topic, partitions }),
        (0..4_u8, 0..4, states()).prop_map(|(topic, partition, state)| Step::Change { topic, partition, state }),
        (0..4_u8).prop_map(|topic| Step::Delete { topic }),
    ]
}

proptest! {
    #[test]
    fn the_index_says_what_a_look_at_all_partitions_would(steps in proptest::collection::vec(steps(), 0..40)) {
        let mut image = founded();
        for step in steps {
            let events = match step {
                Step::Create { topic, partitions } => {
                    let topic_id = Uuid([topic; 16]);
                    let created = MetadataEvent::TopicCreated { name: topic.to_string().into(), topic_id };
                    let partitions = (0..).zip(partitions).map(|(partition, state)| {
                        MetadataEvent::PartitionCreated { topic_id, partition, state: Arc::new(state) }
                    });
                    std::iter::once(created).chain(partitions).collect()
                }
                Step::Change { topic, partition, state } => {
                    let topic_id = Uuid([topic; 16]);
                    vec![MetadataEvent::PartitionChanged { topic_id, partition, state: Arc::new(state) }]
                }
                Step::Delete { topic } => {
                    let name = topic.to_string().into();
                    vec![MetadataEvent::TopicDeleted { name, topic_id: Uuid([topic; 16]) }]
                }
            };
            for event in events {
                if image.apply(&event).is_err() {
                    // A topic that is there already, or not at all.
                    break;
                }
            }
            assert_index_is_right(&image);
        }
        let copy = MetadataImage::from_snapshot(image.offset(), image.snapshot_events()).unwrap();
        prop_assert_eq!(copy, image);
    }
}

#[test]
fn a_broker_that_is_about_to_stop_is_active_and_gets_nothing_new() {
    let mut image = founded();
    image.apply(&registered(1, 1)).unwrap();
    let broker = BrokerId(1);
    let steps = [
        (MetadataEvent::BrokerUnfenced { broker, epoch: 1 }, (true, true)),
        (MetadataEvent::BrokerShuttingDown { broker, epoch: 1 }, (true, false)),
        (MetadataEvent::BrokerFenced { broker, epoch: 1 }, (false, false)),
        (MetadataEvent::BrokerUnfenced { broker, epoch: 1 }, (true, true)),
    ];
    for (event, expected) in steps {
        image.apply(&event).unwrap();
        assert_eq!((image.is_active(broker), image.may_lead(broker)), expected, "{event:?}");
    }
}

#[test]
fn duties_and_the_operators_epoch_outlive_registrations_and_snapshots() {
    let mut image = founded();
    let broker = BrokerId(1);
    image.apply(&registered(1, 1)).unwrap();
    image.apply(&MetadataEvent::BrokerDutyChanged { broker, duty: BrokerDuty::Draining }).unwrap();
    image.apply(&registered(1, 3)).unwrap();
    assert_eq!(image.duty(broker), BrokerDuty::Draining);
    let grant = Grant { id: 4, brokers: BTreeSet::from([broker]), operator_epoch: 7, expires_ms: 100 };
    image.apply(&MetadataEvent::GrantOpened(Arc::new(grant.clone()))).unwrap();
    assert_eq!((grant.is_open(99), grant.is_open(100)), (true, false));
    let copy = |image: &MetadataImage| MetadataImage::from_snapshot(image.offset(), image.snapshot_events()).unwrap();
    assert_eq!(copy(&image), image);
    image.apply(&MetadataEvent::GrantClosed { id: 3, operator_epoch: 6 }).unwrap();
    assert_eq!(image.grant().map(|grant| grant.id), Some(4), "another grant was meant");
    image.apply(&MetadataEvent::GrantClosed { id: 4, operator_epoch: 8 }).unwrap();
    assert_eq!((image.grant(), image.operator_epoch()), (None, 8));
    assert_eq!(copy(&image), image);
    image.apply(&MetadataEvent::BrokerUnregistered { broker, epoch: 3 }).unwrap();
    assert_eq!(image.duty(broker), BrokerDuty::Serving, "the number is free for another broker");
}
