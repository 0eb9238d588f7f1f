//! The rules, command by command, as tables of what is asked and what comes of it.

mod brokers;
mod changes;
mod configs;
mod delete_topics;
mod elect;
mod grants;
mod isr;
mod loggers;
mod partitions;
mod reassign;
mod sessions;
mod tend;
mod tending;
mod topics;

use std::sync::Arc;

use super::*;
use crate::event::{Listener, PartitionState, SecurityProtocol};

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
        self.register_with(id, incarnation, |_| {})
    }

    /// The same with something special about it.
    pub(super) fn register_with(&mut self, id: i32, incarnation: u8, change: impl Fn(&mut RegisterBroker)) -> i64 {
        let mut request = registration(id, incarnation);
        change(&mut request);
        match self.run(&Command::RegisterBroker(request)) {
            Ok(Reply::BrokerRegistered { epoch }) => epoch,
            other => panic!("{other:?}"),
        }
    }

    /// The registered process of a broker.
    pub(super) fn identity(&self, id: i32) -> BrokerIdentity {
        let id = BrokerId(id);
        BrokerIdentity { id, epoch: self.image.broker(id).unwrap().epoch }
    }

    pub(super) fn fence(&mut self, id: i32) {
        self.run(&Command::FenceBroker(self.identity(id))).unwrap();
    }

    pub(super) fn unfence(&mut self, id: i32) {
        self.run(&Command::UnfenceBroker(self.identity(id))).unwrap();
    }

    /// Creates a topic whose partitions have these replicas.
    pub(super) fn create_on(&mut self, name: &str, replicas: &[&[i32]]) -> Uuid {
        let assignments = (0..)
            .zip(replicas)
            .map(|(partition, replicas)| ReplicaAssignment { partition, replicas: brokers(replicas) })
            .collect();
        self.create(NewTopic { assignments, ..NewTopic::new(name) }).unwrap().id
    }

    /// Moves a partition; `None` = cancels its move.
    pub(super) fn reassign(&mut self, topic: &str, partition: i32, replicas: Option<&[i32]>) -> Outcome<()> {
        let moved = Reassignment { topic: text(topic), partition, replicas: replicas.map(brokers) };
        let request = ReassignPartitions { partitions: vec![moved], allow_replication_factor_change: true };
        match self.run(&Command::ReassignPartitions(request))? {
            Reply::PartitionsReassigned(mut partitions) => partitions.remove(0).outcome,
            other => panic!("{other:?}"),
        }
    }

    /// Sets one of a topic's settings, or takes it away.
    pub(super) fn configure(&mut self, topic: &str, name: &str, value: Option<&str>) {
        let op = if value.is_some() { ConfigOp::Set } else { ConfigOp::Delete };
        let operation = ConfigOperation { name: text(name), op, value: value.map(text) };
        let resource = crate::event::ConfigResource::topic(topic);
        let changes = ConfigChanges::Incremental(vec![operation]);
        let resources = vec![ConfigAlteration { resource, changes }];
        match self.run(&Command::AlterConfigs(AlterConfigs { resources, validate_only: false })).unwrap() {
            Reply::ConfigsAltered(results) => assert_eq!(results[0].outcome, Ok(())),
            other => panic!("{other:?}"),
        }
    }

    /// The leader of a partition gives it this ISR.
    pub(super) fn set_isr(&mut self, topic: &str, partition: i32, isr: &[i32]) {
        let state = self.state(topic, partition);
        let change = IsrChange {
            topic_id: self.image.topic(topic).unwrap().id,
            partition,
            leader_epoch: state.leader_epoch,
            partition_epoch: state.partition_epoch,
            isr: isr.iter().map(|id| self.identity(*id)).collect(),
            recovering: false,
        };
        let broker = self.identity(state.leader.0);
        self.run(&Command::AlterPartition(AlterPartition { broker, partitions: vec![change] })).unwrap();
        let mut expected = brokers(isr);
        expected.retain(|id| self.state(topic, partition).replicas.contains(id));
        assert_eq!(self.state(topic, partition).isr.len(), expected.len(), "{:?}", self.state(topic, partition));
    }

    /// A partition as it is now.
    pub(super) fn state(&self, topic: &str, partition: i32) -> PartitionState {
        PartitionState::clone(self.image.topic(topic).unwrap().partition(partition).unwrap())
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
        min_in_sync: None,
    }
}

pub(super) fn brokers(numbers: &[i32]) -> Vec<BrokerId> {
    numbers.iter().copied().map(BrokerId).collect()
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
