//! What a change of the metadata costs must follow from the change, not from the size of the cluster.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::alloc::System;
use std::collections::BTreeMap;
use std::sync::Arc;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use taffrail_core::config::Overrides;
use taffrail_core::control::{BrokerIdentity, Command, Inputs, Lags, decide};
use taffrail_core::event::{BrokerRegistration, Listener, MetadataEvent, PartitionState, SecurityProtocol};
use taffrail_core::ids::{BrokerId, TopicId, Uuid};
use taffrail_core::image::MetadataImage;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PARTITIONS_PER_TOPIC: i32 = 100;

fn topic_id(number: u16) -> TopicId {
    let mut id = [7; 16];
    id[..2].copy_from_slice(&number.to_be_bytes());
    Uuid(id)
}

/// A cluster of brokers 0 to 4, of which 0 to 2 keep all but the last topic and 3 and 4 keep that.
fn image(topics: u16) -> MetadataImage {
    let mut image = MetadataImage::default();
    image.apply(&MetadataEvent::ClusterCreated { cluster_id: Uuid([9; 16]) }).unwrap();
    for id in 0..5 {
        let listener = Listener { name: "A".into(), host: "h".into(), port: 1, security: SecurityProtocol::Plaintext };
        let registration = BrokerRegistration {
            id: BrokerId(id),
            epoch: i64::from(id),
            incarnation: Uuid([id as u8; 16]),
            rack: None,
            listeners: vec![listener],
            log_dirs: vec![Uuid([id as u8; 16])],
            features: BTreeMap::new(),
            fenced: false,
            shutting_down: false,
            min_in_sync: None,
        };
        image.apply(&MetadataEvent::BrokerRegistered(Arc::new(registration))).unwrap();
    }
    for number in 0..topics {
        let topic_id = topic_id(number);
        image.apply(&MetadataEvent::TopicCreated { name: format!("t{number}").into(), topic_id }).unwrap();
        let replicas: &[i32] = if number + 1 == topics { &[3, 4] } else { &[0, 1, 2] };
        let replicas: Vec<BrokerId> = replicas.iter().copied().map(BrokerId).collect();
        for partition in 0..PARTITIONS_PER_TOPIC {
            let state = Arc::new(PartitionState::new(replicas.clone(), replicas.clone()));
            image.apply(&MetadataEvent::PartitionCreated { topic_id, partition, state }).unwrap();
        }
    }
    image
}

/// Bytes that are taken while `work` runs.
fn bytes_of<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let region = Region::new(ALLOCATOR);
    let made = work();
    (region.change().bytes_allocated, made)
}

/// Bytes for a change of one partition, and for the decision to fence a broker that keeps one topic.
fn costs(topics: u16) -> (usize, usize) {
    let image = image(topics);
    let state = PartitionState {
        isr: vec![BrokerId(0)],
        partition_epoch: 1,
        ..PartitionState::new([0, 1, 2].map(BrokerId).to_vec(), Vec::new())
    };
    let event = MetadataEvent::PartitionChanged { topic_id: topic_id(0), partition: 5, state: Arc::new(state) };
    let (change, _) = bytes_of(|| {
        let mut next = image.clone();
        next.apply(&event).unwrap();
        next
    });
    let lags = Lags::default();
    let inputs = Inputs { fresh_ids: &[], live_brokers: &[], static_config: &Overrides::new(), now_ms: 0, lags: &lags };
    let fence = Command::FenceBroker(BrokerIdentity { id: BrokerId(3), epoch: 3 });
    let (decision, decided) = bytes_of(|| decide(&image, &fence, &inputs).unwrap());
    assert_eq!(decided.events.len(), PARTITIONS_PER_TOPIC as usize + 1);
    (change, decision)
}

#[test]
fn a_change_costs_what_it_changes_however_many_partitions_there_are() {
    let (small_change, small_decision) = costs(10);
    let (large_change, large_decision) = costs(1_000);
    assert!(
        large_change < 2 * small_change,
        "{small_change} bytes among 1,000 partitions, {large_change} among 100,000"
    );
    assert!(
        large_decision < 2 * small_decision,
        "{small_decision} bytes among 1,000 partitions, {large_decision} among 100,000"
    );
}
