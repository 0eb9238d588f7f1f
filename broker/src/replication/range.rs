//! Asking a leader which offsets it keeps (ListOffsets), when it called a fetch out of range.
//!
//! One request asks for one end of all such partitions, so two are sent, one behind the other: where the logs begin, and
//! where they end.

use std::collections::BTreeMap;

use bytes::BytesMut;
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{BrokerId, LeaderEpoch, Offset};
use taffrail_core::image::PartitionKey;
use taffrail_core::partition::following::LogRange;
use taffrail_protocol::message::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use taffrail_protocol::message::{
    BrokerId as WireBrokerId, ListOffsetsRequest, ListOffsetsResponse, StrBytes, TopicName,
};
use taffrail_protocol::request::{self, EncodeError};

/// The timestamps that stand for the ends of a log.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

/// Which end of the logs is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Start,
    End,
}

/// One partition of a question.
#[derive(Debug, Clone)]
struct Asked {
    key: PartitionKey,
    topic: StrBytes,
    leader_epoch: LeaderEpoch,
}

/// A ListOffsets request.
#[derive(Debug, Clone)]
pub(super) struct RangeQuestion {
    end: End,
    asked: Vec<Asked>,
}

/// Answers for which the other end is still to come.
#[derive(Debug, Default)]
pub(super) struct RangeAnswers {
    starts: BTreeMap<PartitionKey, Result<Offset, ErrorCode>>,
}

impl RangeQuestion {
    /// The questions for the ranges of these partitions, to be sent in this order; none if there are none. Those of a topic
    /// lie together.
    pub(super) fn both<'a>(asked: impl Iterator<Item = (PartitionKey, &'a str, LeaderEpoch)>) -> Vec<Self> {
        let asked = asked.map(|(key, topic, leader_epoch)| Asked { key, topic: topic.to_owned().into(), leader_epoch });
        let asked: Vec<_> = asked.collect();
        if asked.is_empty() {
            return Vec::new();
        }
        vec![Self { end: End::Start, asked: asked.clone() }, Self { end: End::End, asked }]
    }

    /// Appends the frame of the request.
    pub(super) fn encode(
        &self,
        version: i16,
        number: i32,
        client_id: &str,
        own: BrokerId,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let timestamp = match self.end {
            End::Start => EARLIEST,
            End::End => LATEST,
        };
        let partition = |asked: &Asked| {
            ListOffsetsPartition::default()
                .with_partition_index(asked.key.1)
                .with_current_leader_epoch(asked.leader_epoch)
                .with_timestamp(timestamp)
        };
        let topics = self.asked.chunk_by(|one, next| one.key.0 == next.key.0).map(|asked| {
            ListOffsetsTopic::default()
                .with_name(TopicName(asked[0].topic.clone()))
                .with_partitions(asked.iter().map(partition).collect())
        });
        let message = ListOffsetsRequest::default().with_replica_id(WireBrokerId(own.0)).with_topics(topics.collect());
        request::encode(version, number, Some(client_id), &message, out)
    }
}

impl RangeAnswers {
    /// Takes the answer to `question`. Gives, once both ends are known, the range of each partition or why there is none.
    pub(super) fn take(
        &mut self,
        question: &RangeQuestion,
        response: &ListOffsetsResponse,
    ) -> Vec<(PartitionKey, Result<LogRange, ErrorCode>)> {
        let mut answers = BTreeMap::new();
        for topic in &response.topics {
            for partition in &topic.partitions {
                let offset = match ErrorCode::from_code(partition.error_code) {
                    Some(ErrorCode::None) if partition.offset >= 0 => Ok(partition.offset),
                    Some(ErrorCode::None) | None => Err(ErrorCode::UnknownServerError),
                    Some(error) => Err(error),
                };
                answers.insert((topic.name.0.as_str(), partition.partition_index), offset);
            }
        }
        let mut ranges = Vec::new();
        for Asked { key, topic, .. } in &question.asked {
            let answer = answers.remove(&(topic.as_str(), key.1)).unwrap_or(Err(ErrorCode::UnknownServerError));
            match question.end {
                End::Start => drop(self.starts.insert(*key, answer)),
                End::End => {
                    let start = self.starts.remove(key).unwrap_or(Err(ErrorCode::UnknownServerError));
                    let range = start.and_then(|start| Ok(LogRange { start, end: answer? }));
                    ranges.push((*key, range));
                }
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use taffrail_core::ids::Uuid;
    use taffrail_protocol::message::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
    use taffrail_protocol::{header, versions::ApiKey};

    use super::*;

    const ONE: Uuid = Uuid([1; 16]);
    const TWO: Uuid = Uuid([2; 16]);

    fn questions() -> Vec<RangeQuestion> {
        let asked = [((ONE, 0), "one", 4), ((ONE, 2), "one", 5), ((TWO, 0), "two", 6)];
        RangeQuestion::both(asked.into_iter())
    }

    fn answer(partitions: &[(&'static str, i32, i16, i64)]) -> ListOffsetsResponse {
        let topic = |(topic, partition, error, offset): &(&'static str, i32, i16, i64)| {
            let partition = ListOffsetsPartitionResponse::default()
                .with_partition_index(*partition)
                .with_error_code(*error)
                .with_offset(*offset);
            ListOffsetsTopicResponse::default()
                .with_name(TopicName(StrBytes::from_static_str(topic)))
                .with_partitions(vec![partition])
        };
        ListOffsetsResponse::default().with_topics(partitions.iter().map(topic).collect())
    }

    #[test]
    fn a_leader_is_asked_for_both_ends_of_all_logs() {
        let read: Vec<_> = questions()
            .iter()
            .map(|question| {
                let mut out = BytesMut::new();
                question.encode(7, 1, "me", BrokerId(3), &mut out).unwrap();
                let mut body: Bytes = out.split_off(4).freeze();
                assert_eq!(header::parse(&mut body).unwrap().key, ApiKey::ListOffsets);
                let request: ListOffsetsRequest = request::decode(7, body).unwrap();
                assert_eq!(request.replica_id.0, 3);
                let partitions = request.topics.iter().flat_map(|topic| {
                    let name = topic.name.0.to_string();
                    topic
                        .partitions
                        .iter()
                        .map(move |it| (name.clone(), it.partition_index, it.current_leader_epoch, it.timestamp))
                });
                partitions.collect::<Vec<_>>()
            })
            .collect();
        let all = |timestamp| {
            [("one", 0, 4), ("one", 2, 5), ("two", 0, 6)]
                .map(|(topic, partition, epoch)| (topic.to_owned(), partition, epoch, timestamp))
                .to_vec()
        };
        assert_eq!(read, [all(EARLIEST), all(LATEST)]);
        assert!(RangeQuestion::both(std::iter::empty()).is_empty());
    }

    #[test]
    fn a_range_is_known_when_both_ends_are() {
        let mut answers = RangeAnswers::default();
        let questions = questions();
        let starts = answer(&[("one", 0, 0, 3), ("one", 2, 0, -1), ("two", 0, 0, 4), ("stranger", 0, 0, 0)]);
        assert_eq!(answers.take(&questions[0], &starts), []);
        let fenced = ErrorCode::FencedLeaderEpoch;
        let ends = answer(&[("one", 0, 0, 9), ("one", 2, 0, 9), ("two", 0, fenced.code(), -1)]);
        let expected = [
            ((ONE, 0), Ok(LogRange { start: 3, end: 9 })),
            ((ONE, 2), Err(ErrorCode::UnknownServerError)),
            ((TWO, 0), Err(fenced)),
        ];
        assert_eq!(answers.take(&questions[1], &ends), expected);
        assert_eq!(
            answers.take(&questions[1], &ends)[0],
            ((ONE, 0), Err(ErrorCode::UnknownServerError)),
            "an end alone is no range"
        );
    }
}
