//! Brokers that do nothing but live: they listen, attend, and change an ISR when they are told to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use taffrail_core::control::{
    AlterPartition, BrokerIdentity, Command, IsrChange, LagReport, NewTopic, RegisterBroker, ReplicaAssignment, Reply,
};
use taffrail_core::event::{Listener, PartitionState, SecurityProtocol};
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_core::image::MetadataImage;
use taffrail_protocol::rpc::{CallError, Heartbeat, heartbeat_to_message};
use taffrail_runtime::grpc::{self, Target};
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::{task, time};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{Calls, PATIENCE};

/// Time between heartbeats.
const PULSE: Duration = Duration::from_millis(50);

/// A broker that lives, until it is dropped.
pub(crate) struct Fake {
    pub(crate) identity: BrokerIdentity,
    /// How far it says that it has applied the metadata.
    pub(crate) applied: Arc<AtomicI64>,
    pub(crate) living: task::JoinHandle<()>,
    /// Whoever dials finds it as long as this is there.
    listener: Option<TcpListener>,
}

impl Fake {
    /// Registers a broker at the controllers behind `targets`, and keeps it alive.
    pub(crate) async fn start(id: i32, targets: &[Target]) -> Self {
        Self::start_again(id, 0, targets).await
    }

    /// The same after so many earlier processes with this id.
    pub(crate) async fn start_again(id: i32, earlier: u8, targets: &[Target]) -> Self {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let calls: Vec<Calls> = targets.iter().map(|target| calls(target.clone())).collect();
        let register = Command::RegisterBroker(RegisterBroker {
            id: BrokerId(id),
            cluster_id: None,
            incarnation: Uuid([u8::try_from(id).unwrap() + 1 + 50 * earlier; 16]),
            rack: None,
            listeners: vec![Listener {
                name: "PLAINTEXT".into(),
                host: "127.0.0.1".into(),
                port: listener.local_addr().unwrap().port(),
                security: SecurityProtocol::Plaintext,
            }],
            log_dirs: vec![Uuid([u8::try_from(id).unwrap() + 101; 16])],
            unclean_shutdown: false,
            features: BTreeMap::new(),
            min_in_sync: None,
        });
        let Reply::BrokerRegistered { epoch } = propose(&calls[0], &register).await else { panic!("no registration") };
        let identity = BrokerIdentity { id: BrokerId(id), epoch };
        let applied = Arc::new(AtomicI64::new(epoch));
        let living = task::spawn(live(calls, identity, Arc::clone(&applied)));
        Self { identity, applied, living, listener: Some(listener) }
    }

    /// The process dies: its sockets close.
    pub(crate) fn die(mut self) {
        self.listener = None;
    }

    /// What this broker, as the leader, wants of an ISR.
    pub(crate) fn set_isr(&self, topic_id: Uuid, state: &PartitionState, isr: &[i32]) -> Command {
        let member = |id: &i32| BrokerIdentity { id: BrokerId(*id), epoch: -1 };
        let change = IsrChange {
            topic_id,
            partition: 0,
            leader_epoch: state.leader_epoch,
            partition_epoch: state.partition_epoch,
            isr: isr.iter().map(member).collect(),
            recovering: false,
        };
        Command::AlterPartition(AlterPartition { broker: self.identity, partitions: vec![change] })
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.living.abort();
    }
}

/// Calls over a connection of their own.
pub(crate) fn calls(target: Target) -> Calls {
    Calls::new(grpc::connect(target).unwrap())
}

/// Has `command` carried out, by whoever is active.
pub(crate) async fn propose(calls: &Calls, command: &Command) -> Reply {
    let deadline = time::monotonic() + PATIENCE;
    loop {
        match calls.propose(command).await {
            Ok(committed) => return committed.reply,
            Err(error) => assert!(error.is_retriable() && time::monotonic() < deadline, "{error}"),
        }
        time::sleep(Duration::from_millis(5)).await;
    }
}

/// A topic of one partition on these brokers; gives its id.
pub(crate) async fn create_on(calls: &Calls, name: &str, replicas: &[i32]) -> Uuid {
    let replicas = replicas.iter().map(|id| BrokerId(*id)).collect();
    let assignments = vec![ReplicaAssignment { partition: 0, replicas }];
    let topics = vec![NewTopic { assignments, ..NewTopic::new(name) }];
    let create = Command::CreateTopics(taffrail_core::control::CreateTopics { topics, validate_only: false });
    match propose(calls, &create).await {
        Reply::TopicsCreated(topics) => topics[0].1.clone().unwrap().id,
        other => panic!("{other:?}"),
    }
}

/// The one partition of a topic.
pub(crate) fn partition(image: &MetadataImage, topic_id: Uuid) -> Arc<PartitionState> {
    Arc::clone(image.partition((topic_id, 0)).unwrap())
}

pub(crate) fn beat(identity: BrokerIdentity, applied: i64, lags: LagReport, leaving_since: Option<i64>) -> Heartbeat {
    let ready = leaving_since.is_none();
    Heartbeat {
        broker: identity.id,
        epoch: identity.epoch,
        metadata_offset: applied,
        ready,
        lags,
        leaving_since,
        unanswered: false,
    }
}

/// Attends at one controller after the other, for ever.
async fn live(calls: Vec<Calls>, identity: BrokerIdentity, applied: Arc<AtomicI64>) {
    loop {
        for calls in &calls {
            // Whatever ended it, the next one may take it.
            let _ = attend(calls, identity, &applied).await;
            time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn attend(calls: &Calls, identity: BrokerIdentity, applied: &AtomicI64) -> Result<(), CallError> {
    let (sender, receiver) = mpsc::channel(1);
    let mut answers = calls.attend(ReceiverStream::new(receiver)).await?;
    loop {
        let heartbeat = beat(identity, applied.load(Ordering::Relaxed), Vec::new(), None);
        if sender.send(heartbeat_to_message(&heartbeat)).await.is_err() {
            return Ok(());
        }
        answers.next().await?;
        time::sleep(PULSE).await;
    }
}
