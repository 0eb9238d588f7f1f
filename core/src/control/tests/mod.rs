//! The rules, command by command, as tables of what is asked and what comes of it.

mod brokers;
mod configs;
mod delete_topics;
mod partitions;
mod topics;

use std::sync::Arc;

use super::*;
use crate::event::{Listener, SecurityProtocol};

/// A cluster in the making: commands are decided, and their events applied.
pub(super) struct Cluster {
    pub(super) image: MetadataImage,
    pub(super) static_config: Overrides,
    pub(super) live: Vec<BrokerId>,
    pub(super) now_ms: i64,
    pub(super) lags: Lags,
    ids: u8,
}

impl Cluster {
    /// A founded cluster with brokers 0 to `brokers` - 1, which all serve.
    pub(super) fn with_brokers(brokers: i32) -> Self {
        let mut cluster = Self {
            image: MetadataImage::default(),
            static_config: Overrides::new(),
            live: Vec::new(),
            now_ms: 0,
            lags: Lags::default(),
            ids: 0,
        };
        cluster.run(&Command::CreateCluster { cluster_id: Uuid([9; 16]) }).unwrap();
        for id in 0..brokers {
            let epoch = cluster.register(id, 1);
            cluster.run(&Command::UnfenceBroker(BrokerIdentity { id: BrokerId(id), epoch })).unwrap();
        }
        cluster
    }

    pub(super) fn run(&mut self, command: &Command) -> Result<Reply, ControlError> {
        let decision = self.decide(command)?;
        for event in &decision.events {
            self.image.apply(event).unwrap();
        }
        let copy = MetadataImage::from_snapshot(self.image.offset(), self.image.snapshot_events()).unwrap();
        assert_eq!(copy, self.image, "a snapshot holds all that the events made");
        Ok(decision.reply)
    }

    pub(super) fn decide(&mut self, command: &Command) -> Result<Decision, ControlError> {
        let fresh: Vec<Uuid> = (0..command.ids_needed())
            .map(|_| {
                self.ids += 1;
                Uuid([self.ids; 16])
            })
            .collect();
        let inputs = Inputs {
            fresh_ids: &fresh,
            live_brokers: &self.live,
            static_config: &self.static_config,
            now_ms: self.now_ms,
            lags: &self.lags,
        };
        decide(&self.image, command, &inputs)
    }

    /// Registers a broker process and gives its epoch.
    pub(super) fn register(&mut self, id: i32, incarnation: u8) -> i64 {
        match self.run(&Command::RegisterBroker(registration(id, incarnation))) {
            Ok(Reply::BrokerRegistered { epoch }) => epoch,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn create(&mut self, topic: NewTopic) -> Outcome<CreatedTopic> {
        let request = CreateTopics { topics: vec![topic], validate_only: false };
        match self.run(&Command::CreateTopics(request))? {
            Reply::TopicsCreated(mut topics) => topics.remove(0).1,
            other => panic!("{other:?}"),
        }
    }

    /// Replicas of each partition of a topic.
    pub(super) fn replicas(&self, topic: &str) -> Vec<Vec<i32>> {
        let partitions = &self.image.topic(topic).unwrap().partitions;
        partitions.iter().map(|state| state.replicas.iter().map(|id| id.0).collect()).collect()
    }
}

pub(super) fn registration(id: i32, incarnation: u8) -> RegisterBroker {
    RegisterBroker {
        id: BrokerId(id),
        cluster_id: None,
        incarnation: Uuid([incarnation; 16]),
        rack: None,
        listeners: vec![Listener {
            name: "PLAINTEXT".into(),
            host: "localhost".into(),
            port: 9092,
            security: SecurityProtocol::Plaintext,
        }],
        log_dirs: vec![Uuid([100 + id as u8; 16])],
        features: Default::default(),
        unclean_shutdown: false,
    }
}

pub(super) fn text(value: &str) -> Arc<str> {
    value.into()
}

/// Code and message of a refusal.
pub(super) fn refusal<T: std::fmt::Debug>(outcome: Outcome<T>) -> (ErrorCode, String) {
    let error = outcome.unwrap_err();
    (error.code, error.message.unwrap_or_default())
}

#[test]
fn nothing_but_the_foundation_is_decided_before_the_cluster_exists() {
    let mut cluster = Cluster::with_brokers(0);
    cluster.image = MetadataImage::default();
    let refused = cluster.run(&Command::CreateTopics(CreateTopics::default())).unwrap_err();
    assert_eq!(refused.code, ErrorCode::CoordinatorNotAvailable);
    assert!(cluster.run(&Command::CreateCluster { cluster_id: Uuid([1; 16]) }).is_ok());
    assert_eq!(cluster.image.cluster_id(), Some(Uuid([1; 16])));
    assert!(cluster.run(&Command::CreateCluster { cluster_id: Uuid([1; 16]) }).is_ok(), "asking again is harmless");
    let other = cluster.run(&Command::CreateCluster { cluster_id: Uuid([2; 16]) }).unwrap_err();
    assert_eq!(other.code, ErrorCode::InconsistentClusterId);
}

#[test]
fn producer_id_blocks_never_overlap_and_only_the_current_process_gets_one() {
    let mut cluster = Cluster::with_brokers(1);
    let epoch = cluster.image.broker(BrokerId(0)).unwrap().epoch;
    let ask = |epoch| Command::AllocateProducerIds(BrokerIdentity { id: BrokerId(0), epoch });
    for first in [0, 1_000, 2_000] {
        let block = ProducerIdBlock { first, count: PRODUCER_ID_BLOCK };
        assert_eq!(cluster.run(&ask(epoch)), Ok(Reply::ProducerIdsAllocated(block)));
    }
    assert_eq!(cluster.run(&ask(epoch - 1)).unwrap_err().code, ErrorCode::StaleBrokerEpoch);
    let stranger = Command::AllocateProducerIds(BrokerIdentity { id: BrokerId(5), epoch });
    assert_eq!(cluster.run(&stranger).unwrap_err().code, ErrorCode::BrokerIdNotRegistered);
}
