//! Partitions whose replicas are being moved, and how much of them is there already.

use std::collections::{BTreeMap, BTreeSet};

use taffrail_protocol::message::{BrokerId, ListPartitionReassignmentsRequest};
use taffrail_protocol::versions::VersionRange;

use super::{KafkaClient, KafkaError, PartitionKey, check};

const LIST_PARTITION_REASSIGNMENTS: VersionRange = VersionRange { min: 0, max: 0 };

/// A partition whose replicas are being moved (KIP-455).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Name of the topic.
    pub topic: String,
    /// Number of the partition.
    pub partition: i32,
    /// Who leads it, if anybody does.
    pub leader: Option<i32>,
    /// Bytes of the leader's log, if it tells.
    pub leader_bytes: Option<i64>,
    /// Who keeps it now, those that come and those that go too.
    pub replicas: Vec<i32>,
    /// Who is to get a replica.
    pub adding: Vec<Copied>,
    /// Whose replica goes when those are in sync.
    pub removing: Vec<i32>,
}

/// A replica that is being made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The broker that gets it.
    pub broker: i32,
    /// Bytes that it has, if it tells.
    pub bytes: Option<i64>,
}

impl Move {
    /// Bytes that replicas to be made lack of the leader's log; `None` while the leader, or one of them, does not tell. Logs
    /// are copied byte for byte, so this ends at 0.
    pub fn bytes_left(&self) -> Option<i64> {
        let leader_bytes = self.leader_bytes?;
        self.adding.iter().map(|copied| copied.bytes.map(|bytes| (leader_bytes - bytes).max(0))).sum()
    }
}

impl KafkaClient {
    /// The partitions whose replicas are being moved, by topic and number.
    ///
    /// # Errors
    /// The refusal of the list. Brokers that do not tell sizes are left out of them.
    pub async fn moves(&mut self) -> Result<Vec<Move>, KafkaError> {
        let request = ListPartitionReassignmentsRequest::default().with_timeout_ms(self.timeout_ms()).with_topics(None);
        let answer = self.ask_controller(LIST_PARTITION_REASSIGNMENTS, &request).await?;
        check("moves of partitions", answer.error_code, answer.error_message.as_deref())?;
        let numbers = |ids: &[BrokerId]| -> Vec<i32> { ids.iter().map(|id| id.0).collect() };
        let mut moves = Vec::new();
        for topic in &answer.topics {
            let partitions = topic.partitions.iter().map(|moving| Move {
                topic: topic.name.to_string(),
                partition: moving.partition_index,
                leader: None,
                leader_bytes: None,
                replicas: numbers(&moving.replicas),
                adding: moving.adding_replicas.iter().map(|id| Copied { broker: id.0, bytes: None }).collect(),
                removing: numbers(&moving.removing_replicas),
            });
            moves.extend(partitions);
        }
        moves.sort_unstable_by(|one, other| (&one.topic, one.partition).cmp(&(&other.topic, other.partition)));
        self.measure(&mut moves).await?;
        Ok(moves)
    }

    /// Fills in who leads, and sizes.
    async fn measure(&mut self, moves: &mut [Move]) -> Result<(), KafkaError> {
        let names: BTreeSet<String> = moves.iter().map(|moving| moving.topic.clone()).collect();
        let topics = self.topics_that_exist(&names.into_iter().collect::<Vec<_>>()).await?;
        let mut asked: BTreeMap<i32, Vec<PartitionKey>> = BTreeMap::new();
        for moving in moves.iter_mut() {
            let topic = topics.iter().find(|topic| topic.name == moving.topic);
            let partition = topic.and_then(|it| it.partitions.iter().find(|it| it.partition == moving.partition));
            moving.leader = partition.and_then(|partition| partition.leader);
            for broker in moving.adding.iter().map(|copied| copied.broker).chain(moving.leader) {
                asked.entry(broker).or_default().push((moving.topic.clone(), moving.partition));
            }
        }
        for (broker, partitions) in asked {
            let Ok(sizes) = self.sizes(broker, &partitions).await else { continue };
            for moving in moves.iter_mut() {
                let Some(bytes) = sizes.get(&(moving.topic.clone(), moving.partition)) else { continue };
                if moving.leader == Some(broker) {
                    moving.leader_bytes = Some(*bytes);
                }
                if let Some(copied) = moving.adding.iter_mut().find(|copied| copied.broker == broker) {
                    copied.bytes = Some(*bytes);
                }
            }
        }
        Ok(())
    }

    /// How many bytes of each of `partitions` a broker has.
    async fn sizes(
        &mut self,
        broker: i32,
        partitions: &[PartitionKey],
    ) -> Result<BTreeMap<PartitionKey, i64>, KafkaError> {
        let mut sizes = BTreeMap::new();
        for directory in self.log_dirs(broker, Some(partitions)).await? {
            sizes.extend(directory.sizes);
        }
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_what_all_new_replicas_lack() {
        let copied = |broker, bytes| Copied { broker, bytes };
        let moving = |leader_bytes, adding| Move {
            topic: "t".to_owned(),
            partition: 0,
            leader: Some(1),
            leader_bytes,
            replicas: vec![1, 2, 3],
            adding,
            removing: Vec::new(),
        };
        let cases = [
            (Some(100), vec![copied(2, Some(30)), copied(3, Some(100))], Some(70)),
            // The leader was asked first, and has grown since.
            (Some(100), vec![copied(2, Some(110))], Some(0)),
            (Some(100), vec![copied(2, None)], None),
            (None, vec![copied(2, Some(3))], None),
            (Some(100), vec![], Some(0)),
        ];
        for (leader_bytes, adding, expected) in cases {
            assert_eq!(moving(leader_bytes, adding.clone()).bytes_left(), expected, "{adding:?}");
        }
    }
}
