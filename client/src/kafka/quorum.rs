//! Who keeps the metadata, and how far each of them is (KIP-595, KIP-853).

use taffrail_core::ids::Uuid;
use taffrail_protocol::message::describe_quorum_request::{PartitionData, TopicData};
use taffrail_protocol::message::describe_quorum_response::ReplicaState;
use taffrail_protocol::message::{DescribeQuorumRequest, from_wire_id};
use taffrail_protocol::versions::VersionRange;

use super::topics::topic_name;
use super::{KafkaClient, KafkaError, check};

const DESCRIBE_QUORUM: VersionRange = VersionRange { min: 0, max: 2 };

/// The topic under which clients know the log of metadata.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// Who keeps the metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quorum {
    /// Who leads, if anybody does.
    pub leader: Option<i32>,
    /// Epoch of the leader.
    pub leader_epoch: i32,
    /// Up to where the log is committed.
    pub high_watermark: i64,
    /// Who votes.
    pub voters: Vec<QuorumReplica>,
    /// Who only follows: brokers, and controllers that do not vote yet.
    pub observers: Vec<QuorumReplica>,
}

/// A copy of the log of metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumReplica {
    /// Who has it.
    pub id: i32,
    /// Id of its directory; zero where the cluster does not tell.
    pub directory_id: Uuid,
    /// The end of its log, if that is known.
    pub log_end: Option<i64>,
    /// When it asked for news last, in milliseconds since 1970, if that is known.
    pub last_fetch_ms: Option<i64>,
    /// When it had everything last, in milliseconds since 1970, if that is known.
    pub last_caught_up_ms: Option<i64>,
}

impl QuorumReplica {
    fn of(state: &ReplicaState) -> Self {
        let known = |number: i64| (number >= 0).then_some(number);
        Self {
            id: state.replica_id.0,
            directory_id: from_wire_id(state.replica_directory_id),
            log_end: known(state.log_end_offset),
            last_fetch_ms: known(state.last_fetch_timestamp),
            last_caught_up_ms: known(state.last_caught_up_timestamp),
        }
    }
}

impl Quorum {
    /// The leader's copy.
    pub fn leading(&self) -> Option<&QuorumReplica> {
        self.voters.iter().find(|voter| Some(voter.id) == self.leader)
    }

    /// Records that `replica` lacks of the leader's log, if both ends are known.
    pub fn lag(&self, replica: &QuorumReplica) -> Option<i64> {
        let (end, its) = (self.leading()?.log_end?, replica.log_end?);
        Some((end - its).max(0))
    }
}

impl KafkaClient {
    /// Who keeps the metadata, and how far each of them is.
    ///
    /// # Errors
    /// The refusal.
    pub async fn quorum(&mut self) -> Result<Quorum, KafkaError> {
        let topic = TopicData::default()
            .with_topic_name(topic_name(METADATA_TOPIC))
            .with_partitions(vec![PartitionData::default()]);
        let request = DescribeQuorumRequest::default().with_topics(vec![topic]);
        let answer = self.ask_any(DESCRIBE_QUORUM, &request).await?;
        let what = "quorum of the controllers";
        check(what, answer.error_code, answer.error_message.as_deref())?;
        let partition = answer.topics.iter().flat_map(|topic| &topic.partitions).next();
        let partition = partition.ok_or_else(|| KafkaError::NotAnswered(what.to_owned()))?;
        check(what, partition.error_code, partition.error_message.as_deref())?;
        Ok(Quorum {
            leader: (partition.leader_id.0 >= 0).then_some(partition.leader_id.0),
            leader_epoch: partition.leader_epoch,
            high_watermark: partition.high_watermark,
            voters: partition.current_voters.iter().map(QuorumReplica::of).collect(),
            observers: partition.observers.iter().map(QuorumReplica::of).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_counted_from_the_leaders_end_and_never_negative() {
        let replica = |id, log_end| QuorumReplica {
            id,
            directory_id: Uuid::default(),
            log_end,
            last_fetch_ms: None,
            last_caught_up_ms: None,
        };
        let quorum = |leader| Quorum {
            leader,
            leader_epoch: 3,
            high_watermark: 9,
            voters: vec![replica(1, Some(10)), replica(2, Some(7)), replica(3, None)],
            observers: vec![replica(4, Some(11))],
        };
        let lags = |quorum: &Quorum| {
            quorum.voters.iter().chain(&quorum.observers).map(|it| quorum.lag(it)).collect::<Vec<_>>()
        };
        assert_eq!(lags(&quorum(Some(1))), [Some(0), Some(3), None, Some(0)]);
        assert_eq!(lags(&quorum(None)), [None; 4], "without a leader nobody knows");
    }
}
