//! A consumer of one partition, which reads it from the beginning on and for ever.

use std::time::Duration;

use taffrail_core::errors::ErrorCode;
use taffrail_core::record::{DecompressLimits, Decompressor, split_batches};
use taffrail_protocol::message::FetchRequest;
use taffrail_protocol::message::fetch_request::{FetchPartition, FetchTopic};
use taffrail_protocol::message::fetch_response::PartitionData;
use taffrail_runtime::{random, time};

use super::{Leader, Surroundings, topic_name};

const FETCH_VERSION: i16 = 12;

/// How long the broker may wait for records.
const WAIT_MS: i32 = 300;

/// Largest answer that is asked for; small, so that reading takes several steps.
const BYTES_MAX: i32 = 4 << 10;

/// Longest pause between two fetches.
const PAUSE_MAX_MS: u64 = 60;

struct Consumer {
    name: String,
    partition: i32,
    surroundings: Surroundings,
    next_offset: i64,
    /// Newest high watermark that a leader told.
    high_watermark: i64,
}

/// Consumes `partition` for ever, and shows how far it is.
pub(in crate::cluster) async fn consume(client: u8, partition: i32, surroundings: Surroundings) {
    let mut leader = Leader::new(client, partition, &surroundings);
    let name = format!("consumer {client}/{partition}");
    let mut consumer = Consumer { name, partition, surroundings, next_offset: 0, high_watermark: 0 };
    loop {
        time::sleep(Duration::from_millis(1 + random::u64() % PAUSE_MAX_MS)).await;
        let request = consumer.request();
        let answer = leader.connection().await.call(FETCH_VERSION, &request).await;
        let answer = answer.map(|answer| answer.responses.into_iter().flat_map(|topic| topic.partitions).next());
        match answer {
            Ok(Some(data)) => {
                if let Err(refusal) = consumer.take(&data) {
                    consumer.surroundings.trace.note(&consumer.name, refusal);
                    leader.lost().await;
                }
            }
            Ok(None) => leader.lost().await,
            Err(error) => {
                consumer.surroundings.trace.note(&consumer.name, error);
                leader.lost().await;
            }
        }
    }
}

impl Consumer {
    fn request(&self) -> FetchRequest {
        let partition = FetchPartition::default()
            .with_partition(self.partition)
            .with_fetch_offset(self.next_offset)
            .with_partition_max_bytes(BYTES_MAX);
        let topic = FetchTopic::default().with_topic(topic_name()).with_partitions(vec![partition]);
        FetchRequest::default()
            .with_max_wait_ms(WAIT_MS)
            .with_min_bytes(1)
            .with_max_bytes(BYTES_MAX)
            .with_session_epoch(-1)
            .with_topics(vec![topic])
    }

    /// Takes an answer.
    ///
    /// # Errors
    /// Why another leader has to be looked for.
    fn take(&mut self, data: &PartitionData) -> Result<(), String> {
        let error = ErrorCode::from_code(data.error_code).unwrap_or(ErrorCode::UnknownServerError);
        let asked = self.surroundings.ledger.with(self.partition, |seen| seen.asked_to_delete);
        if error == ErrorCode::OffsetOutOfRange && self.next_offset < asked {
            self.next_offset = asked;
            return Err(format!("what is before {asked} is deleted"));
        }
        if error == ErrorCode::OffsetOutOfRange && self.next_offset <= self.high_watermark {
            let (name, next, seen) = (&self.name, self.next_offset, self.high_watermark);
            self.broken(format!(
                "consumed-stays: {name} is told that offset {next} does not exist, and was told of a high watermark of {seen}"
            ));
        }
        if error != ErrorCode::None {
            return Err(error.name().to_owned());
        }
        self.high_watermark = self.high_watermark.max(data.high_watermark);
        for batch in split_batches(data.records.clone().unwrap_or_default()) {
            // The last one may be cut off.
            let Ok(batch) = batch else { break };
            if let Err(error) = batch.verify_crc() {
                return Err(format!("a damaged batch: {error}"));
            }
            let mut decompressor = Decompressor::new(DecompressLimits::default());
            let records =
                batch.as_ref().records(&mut decompressor).map_err(|error| error.to_string())?.collect::<Vec<_>>();
            for record in records {
                let record = record.map_err(|error| error.to_string())?;
                if record.offset >= self.next_offset {
                    let value =
                        record.value.and_then(|value| value.first_chunk()).map_or(0, |it| u64::from_be_bytes(*it));
                    self.take_record(record.offset, value);
                }
            }
        }
        Ok(())
    }

    fn take_record(&mut self, offset: i64, value: u64) {
        if offset != self.next_offset {
            let (name, next) = (&self.name, self.next_offset);
            self.broken(format!("offsets-follow-each-other: {name} was given offset {offset} where {next} was due"));
        }
        self.next_offset = offset + 1;
        self.surroundings.trace.note(&self.name, format_args!("{value} at {offset}"));
        self.surroundings.ledger.consumed(&self.name, self.partition, offset, value);
    }

    fn broken(&self, what: String) {
        self.surroundings.ledger.break_promise(what);
    }
}
