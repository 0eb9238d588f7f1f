//! What the tests need: a cluster of one broker, and a client that says what they want it to. Other brokers are known to
//! the controller and exist only as far as a test plays them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use taffrail_core::config::Overrides;
use taffrail_core::control::{
    BrokerIdentity, Command, ControlError, Decision, Inputs, Lags, LogLevel, LoggerChanges, ROOT_LOGGER,
    RegisterBroker, Reply, decide,
};
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::{Listener, SecurityProtocol};
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_core::image::{MetadataImage, TopicImage};
use taffrail_core::record::{BatchBuilder, BatchOptions};
use taffrail_protocol::data::TopicRef;
use taffrail_protocol::message::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use taffrail_protocol::message::fetch_request::{FetchPartition, FetchTopic};
use taffrail_protocol::message::fetch_response::PartitionData;
use taffrail_protocol::message::produce_request::{PartitionProduceData, TopicProduceData};
use taffrail_protocol::message::produce_response::PartitionProduceResponse;
use taffrail_protocol::message::{
    BrokerId as WireBrokerId, CreateTopicsRequest, FetchRequest, ProduceRequest, Request, TopicName,
};
use taffrail_protocol::rpc::{ControllerAddress, Quorum, QuorumMember, VoterChange, VoterId};
use taffrail_protocol::{request, response};
use taffrail_runtime::net::{TcpListener, TcpStream, connect};
use taffrail_runtime::shard::Shards;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{random, time};
use taffrail_storage::disk::real::RealDisk;
use taffrail_storage::{Log, Storage, StorageOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;

use crate::broker::Answer;
use crate::replica::Partition;
use crate::{Broker, BrokerParts, Committed, Controller, Loggers, Scrape, keep_in_sync};

/// How long a test waits for what must happen.
pub(super) const SOON: Duration = Duration::from_secs(10);
/// How long a test looks for what must not happen.
const A_MOMENT: Duration = Duration::from_millis(30);
/// Version in which the tests produce and fetch: the last ones that name topics.
pub(super) const PRODUCE_VERSION: i16 = 12;
pub(super) const FETCH_VERSION: i16 = 12;

/// A process that logs, and always the same.
pub(super) struct FixedLoggers;

impl Loggers for FixedLoggers {
    fn levels(&self) -> BTreeMap<String, LogLevel> {
        [(ROOT_LOGGER.to_owned(), LogLevel::Info)].into()
    }

    fn change(&self, _changes: LoggerChanges) -> Result<(), String> {
        Err("fixed".to_owned())
    }
}

/// Decides `command` as a controller does that hears of all brokers, and makes `image` what that leads to.
pub(super) fn decided(image: &mut MetadataImage, command: &Command) -> Result<Decision, ControlError> {
    let fresh_ids: Vec<Uuid> = (0..command.ids_needed()).map(|_| random::uuid()).collect();
    let live: Vec<BrokerId> = image.brokers().keys().copied().collect();
    let inputs = Inputs {
        fresh_ids: &fresh_ids,
        live_brokers: &live,
        static_config: &Overrides::default(),
        now_ms: 0,
        lags: &Lags::default(),
    };
    let decision = decide(image, command, &inputs)?;
    decision.events.iter().for_each(|event| image.apply(event).unwrap());
    Ok(decision)
}

/// Decides like a controller, and makes the one broker follow at once.
#[derive(Default)]
struct LocalController {
    image: Mutex<MetadataImage>,
    broker: OnceLock<Weak<Broker>>,
}

impl LocalController {
    async fn carry_out(&self, command: Command) -> Result<Committed, ControlError> {
        let mut image = self.image.lock().await;
        let decision = decided(&mut image, &command)?;
        let broker = self.broker.get().and_then(Weak::upgrade).unwrap();
        broker.follow(Arc::new(image.clone()), Some(&decision.events)).await;
        Ok(Committed { reply: decision.reply, offset: image.offset() })
    }
}

impl Controller for LocalController {
    fn propose(&self, command: Command) -> Answer<'_, Committed> {
        Box::pin(self.carry_out(command))
    }

    fn describe_quorum(&self) -> Answer<'_, Quorum> {
        let voter = VoterId { id: 1, directory_id: Uuid([1; 16]) };
        let (address, now) = ("localhost:9093".to_owned(), Some(7));
        let member = QuorumMember { voter, address, log_end: Some(5), last_heard_ms: now, last_caught_up_ms: now };
        let active = Some(ControllerAddress { id: 1, address: member.address.clone() });
        let quorum = Quorum { active, term: 3, committed_log_end: 5, voters: vec![member], observers: Vec::new() };
        Box::pin(std::future::ready(Ok(quorum)))
    }

    fn change_voters(&self, change: VoterChange) -> Answer<'_, ()> {
        let refused = match change {
            VoterChange::Add { voter, .. } if voter.id == 1 => Err(ControlError::plain(ErrorCode::DuplicateVoter)),
            VoterChange::Remove(voter) if voter.id != 1 => Err(ControlError::plain(ErrorCode::VoterNotFound)),
            VoterChange::Add { .. } | VoterChange::Remove(_) => Ok(()),
        };
        Box::pin(std::future::ready(refused))
    }
}

/// A cluster of one broker.
pub(super) struct Cluster {
    /// Followers of the metadata hold it weakly.
    broker: Arc<Broker>,
    controller: Arc<LocalController>,
    address: String,
    shutdown: Shutdown,
    dir: tempfile::TempDir,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.shutdown.trigger();
    }
}

impl Cluster {
    pub(super) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// A cluster whose broker has these settings.
    pub(super) async fn start_with(settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::open(StorageOptions::new(dir.path()), Arc::new(RealDisk::new())).await.unwrap();
        let controller = Arc::new(LocalController::default());
        let static_config = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let parts = BrokerParts {
            id: BrokerId(1),
            static_config,
            storage,
            controller: Arc::clone(&controller) as Arc<dyn Controller>,
            loggers: Arc::new(FixedLoggers),
        };
        let broker = Broker::new(parts).unwrap();
        controller.broker.set(Arc::downgrade(&broker)).unwrap();
        let socket = TcpListener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = socket.local_addr().unwrap();
        let shutdown = Shutdown::new();
        let shards = Arc::new(Shards::start(2, "broker-test").unwrap());
        let serving = Arc::clone(&broker).serve("PLAINTEXT".into(), socket, shards, shutdown.clone());
        drop(taffrail_runtime::task::spawn(serving));
        {
            let (broker, shutdown) = (Arc::clone(&broker), shutdown.clone());
            drop(taffrail_runtime::task::spawn(async move { keep_in_sync(&broker, &shutdown).await }));
        }
        let cluster = Self { broker, controller, address: address.to_string(), shutdown, dir };
        cluster.found(address.port()).await;
        cluster
    }

    async fn found(&self, port: u16) {
        self.controller.carry_out(Command::CreateCluster { cluster_id: Uuid([9; 16]) }).await.unwrap();
        self.join(BrokerId(1), port, None).await;
    }

    /// A broker joins the cluster, and serves as far as the others know.
    pub(super) async fn join(&self, id: BrokerId, port: u16, rack: Option<&str>) -> BrokerIdentity {
        let register = RegisterBroker {
            id,
            cluster_id: None,
            incarnation: random::uuid(),
            rack: rack.map(Arc::from),
            listeners: vec![Listener {
                name: "PLAINTEXT".into(),
                host: "127.0.0.1".into(),
                port,
                security: SecurityProtocol::Plaintext,
            }],
            log_dirs: vec![random::uuid()],
            features: BTreeMap::new(),
            unclean_shutdown: false,
            min_in_sync: None,
        };
        let registered = self.control(Command::RegisterBroker(register)).await;
        let Reply::BrokerRegistered { epoch } = registered else { panic!("{registered:?}") };
        let identity = BrokerIdentity { id, epoch };
        if id == self.broker.id {
            self.broker.set_epoch(epoch);
        }
        self.control(Command::UnfenceBroker(identity)).await;
        identity
    }

    /// Has the controller carry out a command, which the broker has followed then.
    pub(super) async fn control(&self, command: Command) -> Reply {
        self.controller.carry_out(command).await.unwrap().reply
    }

    /// The broker, as it is registered.
    pub(super) fn identity(&self) -> BrokerIdentity {
        self.broker.identity()
    }

    /// A partition that the broker keeps.
    pub(super) fn partition(&self, topic: &str, partition: i32) -> Arc<Partition> {
        let (topic, image) = (TopicRef::Name(topic.to_owned().into()), self.broker.metadata.image());
        Arc::clone(self.broker.replicas.hosted().partition(&topic, partition, &image).unwrap())
    }

    fn log(&self, topic: &str, partition: i32) -> Arc<Log> {
        Arc::clone(self.partition(topic, partition).log())
    }

    /// Where a partition's log ends.
    pub(super) fn log_end(&self, topic: &str, partition: i32) -> i64 {
        self.log(topic, partition).end_offset()
    }

    /// Where it begins.
    pub(super) fn log_start(&self, topic: &str, partition: i32) -> i64 {
        self.log(topic, partition).log_start_offset()
    }

    /// Has it begin at `offset`.
    pub(super) async fn delete_records(&self, topic: &str, partition: i32, offset: i64) {
        let log = self.log(topic, partition);
        self.broker.disk_pool().run(move || log.delete_records(offset)).await.unwrap().unwrap();
    }

    /// The id and the states of a topic's partitions.
    pub(super) fn topic(&self, name: &str) -> Arc<TopicImage> {
        Arc::clone(self.broker.metadata.image().topic(name).unwrap())
    }

    pub(super) fn broker(&self) -> Arc<Broker> {
        Arc::clone(&self.broker)
    }

    /// The data directory.
    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Does what is done after a while for partitions that could not be opened.
    pub(super) async fn retry(&self) {
        time::timeout(SOON, self.broker.retry_due()).await.unwrap();
        self.broker.retry().await;
    }

    /// What `/metrics` prints of what is counted all the time.
    pub(super) fn metrics(&self) -> String {
        prometheus::TextEncoder::new().encode_to_string(&self.broker.metrics.registry.gather()).unwrap()
    }

    /// What it prints of partitions, groups and the broker as a whole.
    pub(super) async fn scraped(&self) -> String {
        let scrape = self.broker.scrape(&Arc::default()).await;
        let mut text = String::new();
        Scrape::metrics().for_each(|metric| scrape.write(metric.name, None, &mut text));
        text
    }

    pub(super) async fn client(&self) -> Client {
        Client::to(&self.address).await
    }
}

/// One connection.
pub(super) struct Client {
    pub(super) stream: TcpStream,
    correlation_id: i32,
    /// Length of an answer of which no more has been read.
    begun: Option<i32>,
}

impl Client {
    /// A connection to a broker.
    pub(super) async fn to(address: &str) -> Self {
        Self { stream: connect(address).await.unwrap(), correlation_id: 0, begun: None }
    }

    /// Sends a request without waiting for the answer.
    pub(super) async fn send<R: Request>(&mut self, version: i16, message: &R) {
        let mut out = BytesMut::new();
        self.correlation_id += 1;
        request::encode(version, self.correlation_id, Some("tests"), message, &mut out).unwrap();
        self.stream.write_all(&out).await.unwrap();
    }

    /// Reads the next answer, which must be that of the request sent `behind` requests before the last one.
    pub(super) async fn receive<R: Request>(&mut self, version: i16, behind: i32) -> R::Response {
        let length = match self.begun.take() {
            Some(length) => length,
            None => time::timeout(SOON, self.stream.read_i32()).await.unwrap().unwrap(),
        };
        let mut frame = vec![0; length as usize];
        self.stream.read_exact(&mut frame).await.unwrap();
        let (correlation_id, response) = response::decode::<R>(version, frame.into()).unwrap();
        assert_eq!(correlation_id, self.correlation_id - behind, "answers come in the order of requests");
        response
    }

    /// Whether an answer comes within a moment; for answers that must not come yet.
    pub(super) async fn is_answered(&mut self) -> bool {
        if self.begun.is_none()
            && let Ok(length) = time::timeout(A_MOMENT, self.stream.read_i32()).await
        {
            self.begun = Some(length.unwrap());
        }
        self.begun.is_some()
    }

    pub(super) async fn call<R: Request>(&mut self, version: i16, message: &R) -> R::Response {
        self.send(version, message).await;
        self.receive::<R>(version, 0).await
    }

    /// Creates a topic; settings as name and value.
    pub(super) async fn create_topic(&mut self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        let topic = CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(1)
            .with_configs(settings.iter().map(config).collect());
        self.create(topic).await;
    }

    /// Creates a topic whose partitions have these replicas.
    pub(super) async fn create_topic_on(&mut self, name: &str, replicas: &[&[i32]], settings: &[(&str, &str)]) {
        let assignment = |(index, replicas): (i32, &&[i32])| {
            let ids = replicas.iter().map(|id| WireBrokerId(*id)).collect();
            CreatableReplicaAssignment::default().with_partition_index(index).with_broker_ids(ids)
        };
        let topic = CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(-1)
            .with_replication_factor(-1)
            .with_assignments((0..).zip(replicas).map(assignment).collect())
            .with_configs(settings.iter().map(config).collect());
        self.create(topic).await;
    }

    async fn create(&mut self, topic: CreatableTopic) {
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
        let response = self.call(7, &request).await;
        assert_eq!(response.topics[0].error_code, 0, "{response:?}");
    }

    pub(super) async fn produce(
        &mut self,
        topic: &str,
        partition: i32,
        records: impl Into<Bytes>,
    ) -> PartitionProduceResponse {
        let request = produce_request(topic, partition, -1, records);
        let response = self.call(PRODUCE_VERSION, &request).await;
        response.responses[0].partition_responses[0].clone()
    }

    /// Produces without an answer.
    pub(super) async fn produce_silently(&mut self, topic: &str, partition: i32, records: impl Into<Bytes>) {
        self.send(PRODUCE_VERSION, &produce_request(topic, partition, 0, records)).await;
    }

    /// Fetches one partition.
    pub(super) async fn fetch(&mut self, topic: &str, partition: i32, offset: i64, wait_ms: i32) -> PartitionData {
        let response = self.call(FETCH_VERSION, &fetch_request(&[(topic, partition, offset)], wait_ms, 1)).await;
        assert_eq!(response.error_code, 0);
        response.responses[0].partitions[0].clone()
    }

    pub(super) async fn send_fetch(&mut self, request: &FetchRequest) {
        self.send(FETCH_VERSION, request).await;
    }

    pub(super) async fn receive_fetch(&mut self) -> taffrail_protocol::message::FetchResponse {
        self.receive::<FetchRequest>(FETCH_VERSION, 0).await
    }
}

fn config((name, value): &(&str, &str)) -> CreatableTopicConfig {
    CreatableTopicConfig::default().with_name((*name).to_owned().into()).with_value(Some((*value).to_owned().into()))
}

pub(super) fn topic_name(name: &str) -> TopicName {
    TopicName(name.to_owned().into())
}

pub(super) fn produce_request(topic: &str, partition: i32, acks: i16, records: impl Into<Bytes>) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(records.into()));
    let topic = TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(acks).with_timeout_ms(10_000).with_topic_data(vec![topic])
}

/// A fetch without a session.
pub(super) fn fetch_request(partitions: &[(&str, i32, i64)], wait_ms: i32, min_bytes: i32) -> FetchRequest {
    let topic = |(topic, partition, offset): &(&str, i32, i64)| {
        let partition = FetchPartition::default()
            .with_partition(*partition)
            .with_fetch_offset(*offset)
            .with_partition_max_bytes(1 << 20);
        FetchTopic::default().with_topic(topic_name(topic)).with_partitions(vec![partition])
    };
    FetchRequest::default()
        .with_max_wait_ms(wait_ms)
        .with_min_bytes(min_bytes)
        .with_max_bytes(50 << 20)
        .with_session_epoch(-1)
        .with_topics(partitions.iter().map(topic).collect())
}

/// A batch of records with these values.
pub(super) fn batch(values: &[&[u8]]) -> Vec<u8> {
    sequenced(values, BatchOptions::default())
}

pub(super) fn sequenced(values: &[&[u8]], options: BatchOptions) -> Vec<u8> {
    let mut builder = BatchBuilder::with_capacity(options, 0);
    for (offset, value) in (0..).zip(values) {
        builder.append(offset, time::unix_ms(), Some(b"key"), Some(value), std::iter::empty()).unwrap();
    }
    builder.build().unwrap()
}

/// The values of all records in fetched batches, by offset.
pub(super) fn values(records: &Bytes) -> Vec<(i64, Vec<u8>)> {
    let mut values = Vec::new();
    for batch in taffrail_core::record::split_batches(records.clone()) {
        let batch = batch.unwrap();
        batch.verify_crc().unwrap();
        let mut decompressor = taffrail_core::record::Decompressor::new(Default::default());
        let view = batch.as_ref();
        for record in view.records(&mut decompressor).unwrap() {
            let record = record.unwrap();
            values.push((record.offset, record.value.unwrap_or_default().to_vec()));
        }
    }
    values
}
