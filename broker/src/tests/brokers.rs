//! Several whole brokers in one process, under one controller that decides at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex as SyncMutex;
use taffrail_core::config::Overrides;
use taffrail_core::control::{BrokerIdentity, Command, ControlError, RegisterBroker, Reply};
use taffrail_core::event::{Listener, PartitionState, SecurityProtocol};
use taffrail_core::ids::{BrokerId, TopicId, Uuid};
use taffrail_core::image::MetadataImage;
use taffrail_protocol::data::TopicRef;
use taffrail_protocol::rpc::{Quorum, VoterChange};
use taffrail_runtime::cluster_secret::ClusterSecret;
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::shard::Shards;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{random, task};
use taffrail_storage::disk::real::RealDisk;
use taffrail_storage::{Log, Storage, StorageOptions};
use tokio::sync::Mutex;

use super::cluster::{Client, FixedLoggers, decided};
use super::replication::until;
use crate::broker::Answer;
use crate::{Broker, BrokerParts, Committed, Controller, keep_in_sync};

/// Decides, and has every broker that runs follow before it answers.
#[derive(Default)]
struct SharedController {
    image: Mutex<MetadataImage>,
    running: SyncMutex<BTreeMap<BrokerId, Weak<Broker>>>,
}

impl SharedController {
    async fn carry_out(&self, command: Command) -> Result<Committed, ControlError> {
        let mut image = self.image.lock().await;
        let decision = decided(&mut image, &command)?;
        let running: Vec<_> = self.running.lock().values().filter_map(Weak::upgrade).collect();
        for broker in running {
            broker.follow(Arc::new(image.clone()), Some(&decision.events)).await;
        }
        Ok(Committed { reply: decision.reply, offset: image.offset() })
    }
}

impl Controller for SharedController {
    fn propose(&self, command: Command) -> Answer<'_, Committed> {
        Box::pin(self.carry_out(command))
    }

    fn describe_quorum(&self) -> Answer<'_, Quorum> {
        Box::pin(std::future::pending())
    }

    fn change_voters(&self, _change: VoterChange) -> Answer<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// One broker that runs.
struct Node {
    broker: Arc<Broker>,
    storage: Arc<Storage>,
    address: String,
    identity: BrokerIdentity,
    shutdown: Shutdown,
}

/// The brokers, each with a directory that outlives it.
pub(super) struct Brokers {
    controller: Arc<SharedController>,
    nodes: BTreeMap<i32, Node>,
    dirs: BTreeMap<i32, tempfile::TempDir>,
    settings: Overrides,
}

impl Drop for Brokers {
    fn drop(&mut self) {
        self.nodes.values().for_each(|node| node.shutdown.trigger());
    }
}

impl Brokers {
    /// Starts brokers 1 to `count`.
    pub(super) async fn start(count: i32, settings: &[(&str, &str)]) -> Self {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let controller = Arc::<SharedController>::default();
        controller.carry_out(Command::CreateCluster { cluster_id: Uuid([9; 16]) }).await.unwrap();
        let mut brokers = Self { controller, nodes: BTreeMap::new(), dirs: BTreeMap::new(), settings };
        for id in 1..=count {
            brokers.start_one(id).await;
        }
        brokers
    }

    /// Starts a broker, at another port than the last time.
    pub(super) async fn start_one(&mut self, id: i32) {
        let dir = self.dirs.entry(id).or_insert_with(|| tempfile::tempdir().unwrap());
        let storage = Storage::open(StorageOptions::new(dir.path()), Arc::new(RealDisk::new())).await.unwrap();
        let parts = BrokerParts {
            id: BrokerId(id),
            static_config: self.settings.clone(),
            storage: Arc::clone(&storage),
            controller: Arc::clone(&self.controller) as Arc<dyn Controller>,
            loggers: Arc::new(FixedLoggers),
        };
        let broker = Broker::new(parts).unwrap();
        broker.set_cluster_secret(ClusterSecret::new(b"the secret of this cluster").unwrap());
        let socket = TcpListener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let (address, shutdown) = (socket.local_addr().unwrap(), Shutdown::new());
        let shards = Arc::new(Shards::start(1, "brokers-test").unwrap());
        drop(task::spawn(Arc::clone(&broker).serve("PLAINTEXT".into(), socket, shards, shutdown.clone())));
        let (in_sync, stop) = (Arc::clone(&broker), shutdown.clone());
        drop(task::spawn(async move { keep_in_sync(&in_sync, &stop).await }));
        broker.follow(Arc::new(self.controller.image.lock().await.clone()), None).await;
        self.controller.running.lock().insert(BrokerId(id), Arc::downgrade(&broker));
        let identity = self.register(&broker, address.port()).await;
        self.nodes.insert(id, Node { broker, storage, address: address.to_string(), identity, shutdown });
    }

    async fn register(&self, broker: &Broker, port: u16) -> BrokerIdentity {
        let listener = Listener {
            name: "PLAINTEXT".into(),
            host: "127.0.0.1".into(),
            port,
            security: SecurityProtocol::Plaintext,
        };
        let register = RegisterBroker {
            id: broker.id,
            cluster_id: None,
            incarnation: random::uuid(),
            rack: None,
            listeners: vec![listener],
            // The same at each start: another one would tell of a lost disk.
            log_dirs: vec![Uuid([broker.id.0 as u8; 16])],
            features: BTreeMap::new(),
            unclean_shutdown: false,
            min_in_sync: None,
        };
        let Reply::BrokerRegistered { epoch } = self.control(Command::RegisterBroker(register)).await else {
            panic!("a registration has another answer")
        };
        broker.set_epoch(epoch);
        let identity = BrokerIdentity { id: broker.id, epoch };
        self.control(Command::UnfenceBroker(identity)).await;
        identity
    }

    /// Has the controller carry out a command, which all brokers have followed then.
    pub(super) async fn control(&self, command: Command) -> Reply {
        self.controller.carry_out(command).await.unwrap().reply
    }

    /// Ends a broker without a word to the others; the controllers do not know of it until [`Brokers::fence`].
    pub(super) async fn stop(&mut self, id: i32) -> BrokerIdentity {
        let node = self.nodes.remove(&id).unwrap();
        self.controller.running.lock().remove(&BrokerId(id));
        node.shutdown.trigger();
        until(|| Arc::strong_count(&node.broker) == 1).await;
        node.storage.close().await;
        node.identity
    }

    /// The controllers find out that a broker is gone.
    pub(super) async fn fence(&self, identity: BrokerIdentity) {
        self.control(Command::FenceBroker(identity)).await;
    }

    /// A connection to a broker.
    pub(super) async fn client(&self, id: i32) -> Client {
        Client::to(&self.nodes[&id].address).await
    }

    /// The id of a topic.
    pub(super) async fn topic_id(&self, topic: &str) -> TopicId {
        self.controller.image.lock().await.topic(topic).unwrap().id
    }

    /// What the controllers say of a partition.
    pub(super) async fn state(&self, topic: &str, partition: i32) -> Arc<PartitionState> {
        let image = self.controller.image.lock().await;
        Arc::clone(image.topic(topic).unwrap().partition(partition).unwrap())
    }

    /// A broker's log of a partition.
    pub(super) fn log(&self, id: i32, topic: &str, partition: i32) -> Arc<Log> {
        let broker = &self.nodes[&id].broker;
        let image = broker.metadata.image();
        let topic = TopicRef::Name(topic.to_owned().into());
        Arc::clone(broker.replicas.hosted().partition(&topic, partition, &image).unwrap().log())
    }

    /// Where a broker's log of partition 0 of "t" ends.
    pub(super) fn end(&self, id: i32) -> i64 {
        self.log(id, "t", 0).end_offset()
    }

    /// What `/metrics` of a broker prints.
    pub(super) fn metrics(&self, id: i32) -> String {
        let registry = &self.nodes[&id].broker.metrics.registry;
        prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
    }

    /// The number that a line of `/metrics` begins with these words has; 0 if there is none.
    pub(super) fn metric(&self, id: i32, line: &str) -> u64 {
        let printed = self.metrics(id);
        let found = printed.lines().find(|printed| printed.starts_with(line));
        found.and_then(|line| line.rsplit(' ').next()).map_or(0, |number| number.parse().unwrap())
    }
}
