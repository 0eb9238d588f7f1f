//! A consumer of partitions from given offsets on, without a group. Each leader is asked by a task of its own over a connection
//! of its own, which is a few answers ahead of whoever reads them. When one of them fails all end, and new ones go on at what
//! was given out last.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
use taffrail_core::record::{BatchError, Decompressor, Record, split_batches};
use taffrail_protocol::message::FetchRequest;
use taffrail_protocol::message::fetch_request::{FetchPartition, FetchTopic};
use taffrail_protocol::message::fetch_response::PartitionData;
use taffrail_protocol::versions::VersionRange;
use taffrail_runtime::task;
use tokio::sync::mpsc;

use super::error::DamageError;
use super::negotiated::Connection;
use super::topics::topic_name;
use super::{KafkaClient, KafkaError, PartitionKey, Patience, check};

/// Versions that name topics.
const FETCH: VersionRange = VersionRange { min: 4, max: 12 };

/// How long a broker may wait for records.
const WAIT_MS: i32 = 500;

/// No session of fetches is asked for (KIP-227).
const NO_SESSION: i32 = -1;

/// How much is fetched before it is wanted.
#[derive(Debug, Clone, Copy)]
pub struct FetchLimits {
    /// Most bytes of a partition in an answer; a larger batch comes alone.
    pub partition_bytes_max: i32,
    /// Most bytes of an answer.
    pub answer_bytes_max: i32,
    /// Partitions' answers that wait to be read.
    pub answers_max: usize,
}

impl Default for FetchLimits {
    /// For who reads all that there is.
    fn default() -> Self {
        Self { partition_bytes_max: 4 << 20, answer_bytes_max: 16 << 20, answers_max: 8 }
    }
}

/// The consumer.
pub struct Consumer {
    limits: FetchLimits,
    /// The next offset of each partition.
    positions: BTreeMap<PartitionKey, i64>,
    fetching: Option<Fetching>,
}

/// The tasks that fetch, which end when this goes.
struct Fetching {
    answers: mpsc::Receiver<Result<Fetched, KafkaError>>,
    tasks: Vec<task::JoinHandle<()>>,
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.tasks.iter().for_each(task::JoinHandle::abort);
    }
}

/// Records of one partition, as they came.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The partition.
    pub partition: PartitionKey,
    /// The offset that was asked for; the first batch may begin before it.
    pub from_offset: i64,
    /// The offset behind these records.
    pub next_offset: i64,
    batches: Bytes,
}

impl Fetched {
    /// Shows each record in turn, until `visit` breaks off.
    ///
    /// # Errors
    /// When a batch is damaged.
    pub fn visit(
        &self,
        decompressor: &mut Decompressor,
        mut visit: impl FnMut(&Record<'_>) -> ControlFlow<()>,
    ) -> Result<(), KafkaError> {
        let mut offset = self.from_offset;
        for batch in split_batches(self.batches.clone()) {
            let flow = batch.map_err(DamageError::from).and_then(|batch| {
                offset = batch.header().base_offset;
                batch.verify_crc()?;
                if batch.header().is_control() {
                    return Ok(ControlFlow::Continue(()));
                }
                for record in batch.as_ref().records(decompressor)? {
                    let record = record?;
                    if record.offset >= self.from_offset && visit(&record).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            });
            let (topic, partition) = &self.partition;
            let flow = flow.map_err(|source| KafkaError::Damaged {
                topic: topic.clone(),
                partition: *partition,
                offset,
                source,
            })?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Consumer {
    /// A consumer that begins at these offsets.
    pub fn new(positions: BTreeMap<PartitionKey, i64>) -> Self {
        Self::with_limits(positions, FetchLimits::default())
    }

    /// The same for who reads a little.
    pub fn with_limits(positions: BTreeMap<PartitionKey, i64>, limits: FetchLimits) -> Self {
        Self { limits, positions, fetching: None }
    }

    /// The next offset of each partition.
    pub fn positions(&self) -> &BTreeMap<PartitionKey, i64> {
        &self.positions
    }

    /// Leaves a partition out from now on.
    pub fn leave(&mut self, partition: &PartitionKey) {
        self.positions.remove(partition);
    }

    /// Waits for records of any partition; without partitions there are none, however long it takes. To break off the wait
    /// loses nothing.
    ///
    /// # Errors
    /// What does not pass, or has not passed in time.
    pub async fn next(&mut self, client: &mut KafkaClient) -> Result<Fetched, KafkaError> {
        if self.positions.is_empty() {
            return std::future::pending().await;
        }
        let patience = Patience::new(client.timeout);
        loop {
            let fetching = match &mut self.fetching {
                Some(fetching) => fetching,
                None => match Fetching::start(client, &self.positions, self.limits).await {
                    Ok(fetching) => self.fetching.insert(fetching),
                    Err(error) => {
                        patience.after(error).await?;
                        continue;
                    }
                },
            };
            match fetching.answers.recv().await {
                Some(Ok(fetched)) => {
                    // Of a partition that was left out something may be on the way still.
                    if let Some(position) = self.positions.get_mut(&fetched.partition) {
                        *position = fetched.next_offset;
                        return Ok(fetched);
                    }
                }
                Some(Err(error)) => {
                    self.fetching = None;
                    patience.after(error).await?;
                }
                None => self.fetching = None,
            }
        }
    }
}

impl Fetching {
    async fn start(
        client: &mut KafkaClient,
        positions: &BTreeMap<PartitionKey, i64>,
        limits: FetchLimits,
    ) -> Result<Self, KafkaError> {
        let (sender, answers) = mpsc::channel(limits.answers_max);
        let mut fetching = Self { answers, tasks: Vec::new() };
        let partitions: Vec<PartitionKey> = positions.keys().cloned().collect();
        for (broker, led) in client.leaders(&partitions).await? {
            let connection = client.dial(broker).await?;
            let positions = led.into_iter().filter_map(|key| positions.get(&key).map(|offset| (key.clone(), *offset)));
            let fetcher = Fetcher {
                broker,
                connection,
                timeout: client.timeout,
                limits,
                positions: positions.collect(),
                sender: sender.clone(),
            };
            fetching.tasks.push(task::spawn(fetcher.run()));
        }
        Ok(fetching)
    }
}

/// Fetches from one leader.
struct Fetcher {
    broker: i32,
    connection: Connection,
    timeout: Duration,
    limits: FetchLimits,
    positions: Vec<(PartitionKey, i64)>,
    sender: mpsc::Sender<Result<Fetched, KafkaError>>,
}

impl Fetcher {
    async fn run(mut self) {
        loop {
            let fetched = self.fetch().await;
            let has_failed = fetched.is_err();
            let answers = match fetched {
                Ok(fetched) => fetched.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            for answer in answers {
                if self.sender.send(answer).await.is_err() {
                    return;
                }
            }
            if has_failed {
                return;
            }
            // Whoever is first gets most of an answer.
            self.positions.rotate_left(1);
        }
    }

    async fn fetch(&mut self) -> Result<Vec<Fetched>, KafkaError> {
        let request = self.request();
        let timeout = self.timeout + Duration::from_millis(WAIT_MS.unsigned_abs().into());
        let answer = self.connection.call_within(timeout, FETCH, &request).await;
        let answer = answer.map_err(|source| KafkaError::Broker { broker: self.broker, source })?;
        check(format!("fetch from broker {}", self.broker), answer.error_code, None)?;
        let mut fetched = Vec::new();
        for topic in answer.responses {
            for data in topic.partitions {
                let found = self
                    .positions
                    .iter_mut()
                    .find(|((name, partition), _)| *partition == data.partition_index && name == topic.topic.as_str());
                if let Some((key, position)) = found
                    && let Some(records) = take(key, *position, data)?
                {
                    *position = records.next_offset;
                    fetched.push(records);
                }
            }
        }
        Ok(fetched)
    }

    fn request(&self) -> FetchRequest {
        let topics = self.positions.iter().map(|((topic, partition), offset)| {
            let partition = FetchPartition::default()
                .with_partition(*partition)
                .with_fetch_offset(*offset)
                .with_partition_max_bytes(self.limits.partition_bytes_max);
            FetchTopic::default().with_topic(topic_name(topic)).with_partitions(vec![partition])
        });
        FetchRequest::default()
            .with_max_wait_ms(WAIT_MS)
            .with_min_bytes(1)
            .with_max_bytes(self.limits.answer_bytes_max)
            .with_session_epoch(NO_SESSION)
            .with_topics(topics.collect())
    }
}

/// The whole batches in an answer, if there are any.
fn take(key: &PartitionKey, from_offset: i64, data: PartitionData) -> Result<Option<Fetched>, KafkaError> {
    let (topic, partition) = key;
    check(format!("{topic}-{partition} at offset {from_offset}"), data.error_code, None)?;
    let batches = data.records.unwrap_or_default();
    let (mut bytes, mut next_offset) = (0, from_offset);
    for batch in split_batches(batches.clone()) {
        match batch {
            Ok(batch) => {
                bytes += batch.bytes().len();
                next_offset = next_offset.max(batch.header().last_offset() + 1);
            }
            // The last one may be cut off; it comes again.
            Err(BatchError::Truncated { .. }) => break,
            Err(error) => {
                let source = DamageError::Batch(error);
                return Err(KafkaError::Damaged {
                    topic: topic.clone(),
                    partition: *partition,
                    offset: next_offset,
                    source,
                });
            }
        }
    }
    let fetched = Fetched { partition: key.clone(), from_offset, next_offset, batches: batches.slice(..bytes) };
    Ok((bytes > 0).then_some(fetched))
}
