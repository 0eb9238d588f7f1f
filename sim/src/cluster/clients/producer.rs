//! An idempotent producer of one partition: it sends a batch until it is acknowledged by all replicas in sync, and only then
//! the next one.

use std::rc::Rc;
use std::time::Duration;

use taffrail_core::errors::ErrorCode;
use taffrail_core::record::{BatchBuilder, BatchOptions};
use taffrail_protocol::message::produce_request::{PartitionProduceData, TopicProduceData};
use taffrail_protocol::message::produce_response::PartitionProduceResponse;
use taffrail_protocol::message::{InitProducerIdRequest, ProduceRequest};
use taffrail_runtime::{random, task, time};

use super::{AGAIN, Leader, Surroundings, topic_name};
use crate::cluster::ledger::Value;

const PRODUCE_VERSION: i16 = 12;
const INIT_PRODUCER_ID_VERSION: i16 = 4;

/// Every replica in sync has to have it.
const ACKS_ALL: i16 = -1;

/// How long a broker may wait for the replicas.
const TIMEOUT_MS: i32 = 2_000;

/// Most records of a batch.
const RECORDS_MAX: u64 = 3;

/// Longest pause between two batches.
const PAUSE_MAX_MS: u64 = 40;

/// One batch in so many is sent once more after it was acknowledged.
const REPEATED_ONE_IN: u64 = 16;

/// How long after that at most: also behind later batches.
const REPEATED_AFTER_MAX_MS: u64 = 1_500;

struct Producer {
    client: u8,
    partition: i32,
    surroundings: Surroundings,
    leader: Leader,
    /// Id and epoch.
    identity: (i64, i16),
    sequence: i32,
}

/// Produces to `partition` for ever.
pub(in crate::cluster) async fn produce(client: u8, partition: i32, surroundings: Surroundings) {
    let leader = Leader::new(client, partition, &surroundings);
    let mut producer = Producer { client, partition, surroundings, leader, identity: (-1, -1), sequence: 0 };
    producer.identify().await;
    loop {
        time::sleep(Duration::from_millis(1 + random::u64() % PAUSE_MAX_MS)).await;
        if producer.surroundings.producing.get() {
            producer.send_next().await;
        }
    }
}

impl Producer {
    fn note(&self, what: impl std::fmt::Display) {
        self.surroundings.trace.note(format_args!("producer {}/{}", self.client, self.partition), what);
    }

    async fn identify(&mut self) {
        let request = InitProducerIdRequest::default().with_transactional_id(None).with_transaction_timeout_ms(60_000);
        loop {
            match self.leader.connection().await.call(INIT_PRODUCER_ID_VERSION, &request).await {
                Ok(answer) if answer.error_code == 0 => {
                    self.identity = (answer.producer_id.0, answer.producer_epoch);
                    return self.note(format_args!("is {:?}", self.identity));
                }
                Ok(answer) => self.note(format_args!("gets no identity: error {}", answer.error_code)),
                Err(error) => self.note(error),
            }
            self.leader.lost().await;
        }
    }

    /// Sends the next batch until it is acknowledged.
    async fn send_next(&mut self) {
        let count = 1 + random::u64() % RECORDS_MAX;
        let values: Vec<Value> = (0..count).map(|_| self.surroundings.ledger.send(self.partition)).collect();
        let Some(request) = self.request(&values) else { return };
        loop {
            let answer = self.leader.connection().await.call(PRODUCE_VERSION, &request).await;
            let answer = answer.map(|answer| {
                let topics = answer.responses.into_iter();
                topics.flat_map(|topic| topic.partition_responses).next()
            });
            match answer {
                Ok(Some(partition)) => {
                    if self.take(&partition, &values).await {
                        // A replica that began behind what was deleted knows no producer of that.
                        let may_repeat = !self.surroundings.is_operated;
                        if random::u64().is_multiple_of(REPEATED_ONE_IN) && may_repeat {
                            self.repeat(request);
                        }
                        return;
                    }
                }
                Ok(None) => self.leader.lost().await,
                Err(error) => {
                    self.note(format_args!("{values:?}: {error}"));
                    self.leader.lost().await;
                }
            }
        }
    }

    /// Has a request arrive once more, over a connection of its own, as one does that was sent again because no answer came.
    fn repeat(&self, request: ProduceRequest) {
        let mut leader = Leader::new(self.client, self.partition, &self.surroundings);
        let (name, trace) =
            (format!("repeater {}/{}", self.client, self.partition), Rc::clone(&self.surroundings.trace));
        task::spawn_local(async move {
            time::sleep(Duration::from_millis(random::u64() % REPEATED_AFTER_MAX_MS)).await;
            match leader.connection().await.call(PRODUCE_VERSION, &request).await {
                Ok(_) => trace.note(name, "a batch came twice"),
                Err(error) => trace.note(name, error),
            }
        });
    }

    fn request(&self, values: &[Value]) -> Option<ProduceRequest> {
        let (producer_id, producer_epoch) = self.identity;
        let options =
            BatchOptions { producer_id, producer_epoch, base_sequence: self.sequence, ..BatchOptions::default() };
        let mut builder = BatchBuilder::new(options);
        for value in values {
            builder.push(time::unix_ms(), None, Some(&value.to_be_bytes())).ok()?;
        }
        let records = builder.build().ok()?.into();
        let data = PartitionProduceData::default().with_index(self.partition).with_records(Some(records));
        let topic = TopicProduceData::default().with_name(topic_name()).with_partition_data(vec![data]);
        Some(ProduceRequest::default().with_acks(ACKS_ALL).with_timeout_ms(TIMEOUT_MS).with_topic_data(vec![topic]))
    }

    /// Takes an answer; whether the batch is done with.
    async fn take(&mut self, answer: &PartitionProduceResponse, values: &[Value]) -> bool {
        let error = ErrorCode::from_code(answer.error_code).unwrap_or(ErrorCode::UnknownServerError);
        self.note(format_args!("{values:?}: {} at {}", error.name(), answer.base_offset));
        match error {
            ErrorCode::None => {
                self.sequence += i32::try_from(values.len()).unwrap_or_default();
                if answer.base_offset >= 0 {
                    self.surroundings.ledger.acknowledged(self.partition, answer.base_offset, values);
                }
                *self.surroundings.progress.borrow_mut().entry((self.client, self.partition)).or_default() += 1;
                return true;
            }
            // Its batches before were all acknowledged, so every leader knows of them.
            ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId | ErrorCode::InvalidProducerEpoch => {
                self.surroundings.ledger.break_promise(format!(
                    "producer-state-survives: producer {} of partition {} is told {}",
                    self.client,
                    self.partition,
                    error.name()
                ));
                time::sleep(AGAIN).await;
            }
            ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch | ErrorCode::UnknownTopicOrPartition => {
                self.leader.lost().await;
            }
            // The replicas may come, the room on the disk too; or another broker leads by then.
            _ => self.leader.lost().await,
        }
        false
    }
}
