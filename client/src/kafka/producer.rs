//! A producer of one topic. It is idempotent: what it has to send again, because an answer was lost or a leader has moved, is
//! in the log once.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use taffrail_core::record::{BatchBuilder, BatchOptions, Compression, increment_sequence};
use taffrail_protocol::message::produce_request::{PartitionProduceData, TopicProduceData};
use taffrail_protocol::message::{InitProducerIdRequest, ProduceRequest};
use taffrail_protocol::versions::VersionRange;

use super::topics::topic_name;
use super::{KafkaClient, KafkaError, PartitionKey, Patience, check, partitioner};

/// Versions that name topics.
const PRODUCE: VersionRange = VersionRange { min: 3, max: 12 };
const INIT_PRODUCER_ID: VersionRange = VersionRange { min: 0, max: 4 };

/// Every replica in sync has to have it.
const ACKS_ALL: i16 = -1;

/// How many bytes of records a batch has, unless one record alone is larger: below what brokers take by default
/// (`message.max.bytes`), however badly it can be compressed.
const BATCH_BYTES: usize = 900 << 10;

/// How long a transaction would last, which there is none of.
const TRANSACTION_TIMEOUT_MS: i32 = 60_000;

/// What holds for all records.
#[derive(Debug, Clone, Copy)]
pub struct ProducerOptions {
    /// How batches are compressed.
    pub compression: Compression,
}

/// A record to produce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Its key, if it has one; records of the same key go to the same partition.
    pub key: Option<Bytes>,
    /// Its value; `None` is null, a tombstone in compacted topics.
    pub value: Option<Bytes>,
    /// Its headers: name and value.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The partition, if it is not the key that decides.
    pub partition: Option<i32>,
}

/// What was written to one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Produced {
    /// Offset of the first record.
    pub first_offset: i64,
    /// Offset of the last record.
    pub last_offset: i64,
    /// How many records there were.
    pub records: u64,
}

/// A batch that is not acknowledged yet.
struct Batch {
    records: Bytes,
    count: i32,
}

/// The producer.
pub struct Producer {
    topic: String,
    options: ProducerOptions,
    partitions: usize,
    /// Id and epoch.
    identity: (i64, i16),
    sequences: BTreeMap<i32, i32>,
    /// Where records without a key go next.
    next: usize,
    produced: BTreeMap<i32, Produced>,
}

impl Producer {
    /// A producer of `topic`, which has to be there.
    ///
    /// # Errors
    /// The refusal of the topic, or of an identity.
    pub async fn new(client: &mut KafkaClient, topic: &str, options: ProducerOptions) -> Result<Self, KafkaError> {
        let found = client.topics(&[topic.to_owned()]).await?;
        let partitions = found.first().map_or(0, |topic| topic.partitions.len());
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(TRANSACTION_TIMEOUT_MS);
        let patience = Patience::new(client.timeout);
        let identity = loop {
            let answer = client.ask_any(INIT_PRODUCER_ID, &request).await?;
            match check("identity of a producer", answer.error_code, None) {
                Ok(()) => break (answer.producer_id.0, answer.producer_epoch),
                Err(error) => patience.after(error).await?,
            }
        };
        let (sequences, produced) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { topic: topic.to_owned(), options, partitions, identity, sequences, next: 0, produced })
    }

    /// What was written so far, by partition.
    pub fn produced(&self) -> &BTreeMap<i32, Produced> {
        &self.produced
    }

    /// Writes records; returns when all replicas in sync have them. Records of a partition keep their order.
    ///
    /// # Errors
    /// The first refusal; records before it, and those of other partitions, may be written.
    pub async fn send(&mut self, client: &mut KafkaClient, records: &[Outgoing]) -> Result<(), KafkaError> {
        let mut batches = self.batches(records)?;
        let patience = Patience::new(client.timeout);
        while !batches.is_empty() {
            if let Err(error) = self.send_once(client, &mut batches).await {
                client.forget_leaders();
                patience.after(error).await?;
            }
            batches.retain(|_, batches| !batches.is_empty());
        }
        Ok(())
    }

    /// Sends the first batch of each partition, and takes those away that are acknowledged.
    async fn send_once(
        &mut self,
        client: &mut KafkaClient,
        batches: &mut BTreeMap<i32, VecDeque<Batch>>,
    ) -> Result<(), KafkaError> {
        let partitions: Vec<PartitionKey> = batches.keys().map(|partition| (self.topic.clone(), *partition)).collect();
        for (leader, led) in client.leaders_known(&partitions).await? {
            let data = led.iter().filter_map(|(_, partition)| {
                let batch = batches.get(partition)?.front()?;
                Some(PartitionProduceData::default().with_index(*partition).with_records(Some(batch.records.clone())))
            });
            let topic =
                TopicProduceData::default().with_name(topic_name(&self.topic)).with_partition_data(data.collect());
            let request = ProduceRequest::default()
                .with_acks(ACKS_ALL)
                .with_timeout_ms(client.timeout_ms())
                .with_topic_data(vec![topic]);
            let answer = client.ask(leader, PRODUCE, &request).await?;
            let mut outcome = Ok(());
            for partition in answer.responses.iter().flat_map(|topic| &topic.partition_responses) {
                let what = format!("{}-{}", self.topic, partition.index);
                match check(what, partition.error_code, partition.error_message.as_deref()) {
                    Ok(()) => {
                        if let Some(batch) = batches.get_mut(&partition.index).and_then(VecDeque::pop_front) {
                            self.take_note(partition.index, partition.base_offset, batch.count);
                        }
                    }
                    Err(error) => outcome = Err(error),
                }
            }
            outcome?;
        }
        Ok(())
    }

    fn take_note(&mut self, partition: i32, base_offset: i64, count: i32) {
        let last_offset = base_offset + i64::from(count) - 1;
        let first = Produced { first_offset: base_offset, last_offset, records: 0 };
        let produced = self.produced.entry(partition).or_insert(first);
        produced.last_offset = last_offset;
        produced.records += u64::try_from(count).unwrap_or_default();
    }

    /// The batches of each partition.
    fn batches(&mut self, records: &[Outgoing]) -> Result<BTreeMap<i32, VecDeque<Batch>>, KafkaError> {
        let mut of_partition: BTreeMap<i32, Vec<&Outgoing>> = BTreeMap::new();
        // Records without a key share a partition, so that they share batches, and the next ones get another.
        self.next = (self.next + 1) % self.partitions.max(1);
        for record in records {
            of_partition.entry(self.partition(record)?).or_default().push(record);
        }
        let mut batches: BTreeMap<i32, VecDeque<Batch>> = BTreeMap::new();
        for (partition, records) in of_partition {
            let mut builder = self.builder(partition);
            for record in records {
                let bytes = record.key.as_ref().map_or(0, Bytes::len) + record.value.as_ref().map_or(0, Bytes::len);
                if builder.record_count() > 0 && builder.bytes_len() + bytes > BATCH_BYTES {
                    batches.entry(partition).or_default().push_back(self.close(partition, builder)?);
                    builder = self.builder(partition);
                }
                let headers = record.headers.iter().map(|(name, value)| (&name[..], value.as_deref()));
                let (key, value) = (record.key.as_deref(), record.value.as_deref());
                let offset = i64::from(builder.record_count());
                builder.append(offset, record.timestamp_ms, key, value, headers).map_err(|it| self.unwritable(it))?;
            }
            batches.entry(partition).or_default().push_back(self.close(partition, builder)?);
        }
        Ok(batches)
    }

    fn builder(&self, partition: i32) -> BatchBuilder {
        let (producer_id, producer_epoch) = self.identity;
        let base_sequence = self.sequences.get(&partition).copied().unwrap_or(0);
        let compression = self.options.compression;
        BatchBuilder::new(BatchOptions {
            producer_id,
            producer_epoch,
            base_sequence,
            compression,
            ..BatchOptions::default()
        })
    }

    fn close(&mut self, partition: i32, builder: BatchBuilder) -> Result<Batch, KafkaError> {
        let count = builder.record_count();
        let records = builder.build().map_err(|error| self.unwritable(error))?.into();
        let sequence = self.sequences.entry(partition).or_default();
        *sequence = increment_sequence(*sequence, count);
        Ok(Batch { records, count })
    }

    fn unwritable(&self, source: taffrail_core::record::BuildError) -> KafkaError {
        KafkaError::Unwritable { topic: self.topic.clone(), source }
    }

    fn partition(&self, record: &Outgoing) -> Result<i32, KafkaError> {
        let index = match (record.partition, &record.key) {
            (Some(partition), _) => {
                let is_there = usize::try_from(partition).is_ok_and(|index| index < self.partitions);
                let (topic, count) = (self.topic.clone(), self.partitions);
                return if is_there { Ok(partition) } else { Err(KafkaError::NoPartition { topic, partition, count }) };
            }
            (None, Some(key)) => partitioner::partition(key, self.partitions.max(1)),
            (None, None) => self.next,
        };
        Ok(i32::try_from(index).unwrap_or_default())
    }
}
