//! Clients: they speak Kafka's protocol over the simulated network, and write everything into the ledger.

mod committer;
mod connection;
mod consumer;
mod operators;
mod person;
mod producer;
mod restarter;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use taffrail_protocol::message::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use taffrail_protocol::message::metadata_request::MetadataRequestTopic;
use taffrail_protocol::message::{CreateTopicsRequest, MetadataRequest, TopicName};
use taffrail_runtime::{random, time};

pub(super) use self::committer::commit_offsets;
use self::connection::{Broken, Connection};
pub(super) use self::consumer::consume;
pub(super) use self::operators::{delete_records, move_replicas};
pub(super) use self::person::elect_anybody;
pub(super) use self::producer::produce;
pub(super) use self::restarter::{GRANT_MS, restart};
use super::ledger::Ledger;
use super::machines::{BROKERS_MAX, MACHINES, broker_address};
use super::trace::Trace;

/// The topic.
pub(super) const TOPIC: &str = "simulated";

/// Its partitions.
pub(super) const PARTITIONS: i32 = 2;

/// Replicas that must have a record before it is acknowledged.
pub(super) const MIN_IN_SYNC: usize = 2;

/// The last versions that name topics.
const METADATA_VERSION: i16 = 12;
const CREATE_TOPICS_VERSION: i16 = 7;

/// Pause before something is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// What clients share.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) ledger: Ledger,
    pub(super) trace: Rc<Trace>,
    /// Whether producers go on.
    pub(super) producing: Rc<Cell<bool>>,
    /// Batches that were acknowledged to each producer, of each partition, since the last look.
    pub(super) progress: Rc<std::cell::RefCell<BTreeMap<(u8, i32), u64>>>,
    /// Whether somebody operates the cluster in this run.
    pub(super) is_operated: bool,
    /// Whether those who operate the cluster are at work now.
    pub(super) operating: Rc<Cell<bool>>,
    /// The broker that is to be stopped in order and started again, as somebody has a grant for it.
    pub(super) to_restart: Rc<Cell<Option<u8>>>,
}

/// A time from the first of these milliseconds on, and before the second, by chance.
fn between((low, high): (u64, u64)) -> Duration {
    Duration::from_millis(low + random::u64() % (high - low))
}

fn topic_name() -> TopicName {
    TopicName(TOPIC.to_owned().into())
}

/// Where to start asking: clients do not all begin with the same broker.
fn any_broker(client: u8, attempt: u64) -> u8 {
    1 + ((u64::from(client) + attempt) % u64::from(MACHINES)) as u8
}

/// The leader of a partition, as a broker tells it.
async fn find_leader(client: u8, attempt: u64, partition: i32) -> Result<Option<u8>, Broken> {
    let mut connection = Connection::dial(broker_address(any_broker(client, attempt))).await?;
    let topic = MetadataRequestTopic::default().with_name(Some(topic_name()));
    let request = MetadataRequest::default().with_topics(Some(vec![topic]));
    let answer = connection.call(METADATA_VERSION, &request).await?;
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    let found =
        partitions.filter(|it| it.partition_index == partition).find_map(|it| u8::try_from(it.leader_id.0).ok());
    Ok(found.filter(|leader| (1..=BROKERS_MAX).contains(leader)))
}

/// The way to the leader of one partition, found again when it is lost.
struct Leader {
    client: u8,
    partition: i32,
    attempts: u64,
    connection: Option<Connection>,
    trace: Rc<Trace>,
}

impl Leader {
    fn new(client: u8, partition: i32, surroundings: &Surroundings) -> Self {
        Self { client, partition, attempts: 0, connection: None, trace: Rc::clone(&surroundings.trace) }
    }

    /// Does not return before there is a connection.
    async fn connection(&mut self) -> &mut Connection {
        while self.connection.is_none() {
            self.attempts += 1;
            match self.find().await {
                Ok(connection) => self.connection = connection,
                Err(error) => self.trace.note(format_args!("client {}/{}", self.client, self.partition), error),
            }
            if self.connection.is_none() {
                time::sleep(AGAIN).await;
            }
        }
        self.connection.as_mut().unwrap_or_else(|| unreachable!("the loop ends with a connection"))
    }

    async fn find(&self) -> Result<Option<Connection>, Broken> {
        match find_leader(self.client, self.attempts, self.partition).await? {
            Some(leader) => Ok(Some(Connection::dial(broker_address(leader)).await?)),
            None => Ok(None),
        }
    }

    /// Whoever answered is no leader, or does not answer.
    async fn lost(&mut self) {
        self.connection = None;
        time::sleep(AGAIN).await;
    }
}

/// Creates the topic; returns when it is there.
pub(super) async fn create_topic(surroundings: Surroundings) {
    for attempt in 0.. {
        let created = try_to_create(attempt).await;
        surroundings.trace.note("admin", format!("create: {created:?}"));
        // TOPIC_ALREADY_EXISTS: the answer before was lost.
        if matches!(created, Ok(0 | 36)) {
            return;
        }
        time::sleep(AGAIN).await;
    }
}

async fn try_to_create(attempt: u64) -> Result<i16, Broken> {
    let mut connection = Connection::dial(broker_address(any_broker(0, attempt))).await?;
    let minimum = CreatableTopicConfig::default()
        .with_name("min.insync.replicas".to_owned().into())
        .with_value(Some(MIN_IN_SYNC.to_string().into()));
    let topic = CreatableTopic::default()
        .with_name(topic_name())
        .with_num_partitions(PARTITIONS)
        .with_replication_factor(i16::from(MACHINES))
        .with_configs(vec![minimum]);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(5_000);
    let answer = connection.call(CREATE_TOPICS_VERSION, &request).await?;
    Ok(answer.topics.first().map_or(-1, |topic| topic.error_code))
}
