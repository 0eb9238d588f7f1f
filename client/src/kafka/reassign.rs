//! Moves of replicas: which brokers are to keep a partition, and the end of a move that is under way (KIP-455).

use std::collections::BTreeMap;

use taffrail_protocol::message::alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};
use taffrail_protocol::message::{AlterPartitionReassignmentsRequest, BrokerId};
use taffrail_protocol::versions::VersionRange;

use super::topics::topic_name;
use super::{KafkaClient, KafkaError, PartitionKey, check};

const ALTER_PARTITION_REASSIGNMENTS: VersionRange = VersionRange { min: 0, max: 1 };

/// What is to become of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reassignment {
    /// The partition.
    pub partition: PartitionKey,
    /// Who is to keep it, the preferred leader first; `None` takes back a move that is under way.
    pub replicas: Option<Vec<i32>>,
}

impl KafkaClient {
    /// Has partitions be kept by other brokers; gives what became of each. The moves themselves take their time.
    ///
    /// # Errors
    /// When nobody answers, or all of it is refused.
    pub async fn reassign(
        &mut self,
        wanted: &[Reassignment],
    ) -> Result<Vec<(PartitionKey, Result<(), KafkaError>)>, KafkaError> {
        let mut topics: BTreeMap<&str, Vec<ReassignablePartition>> = BTreeMap::new();
        for Reassignment { partition: (topic, partition), replicas } in wanted {
            let brokers = replicas.as_ref().map(|ids| ids.iter().copied().map(BrokerId).collect());
            let partition = ReassignablePartition::default().with_partition_index(*partition).with_replicas(brokers);
            topics.entry(topic).or_default().push(partition);
        }
        let topic = |(topic, partitions): (&str, Vec<ReassignablePartition>)| {
            ReassignableTopic::default().with_name(topic_name(topic)).with_partitions(partitions)
        };
        let request = AlterPartitionReassignmentsRequest::default()
            .with_timeout_ms(self.timeout_ms())
            .with_topics(topics.into_iter().map(topic).collect());
        let answer = self.ask_controller(ALTER_PARTITION_REASSIGNMENTS, &request).await?;
        check("moves of partitions", answer.error_code, answer.error_message.as_deref())?;
        let mut outcomes = Vec::with_capacity(wanted.len());
        for topic in &answer.responses {
            for partition in &topic.partitions {
                let key = (topic.name.to_string(), partition.partition_index);
                let what = format!("{}-{}", key.0, key.1);
                outcomes.push((key, check(what, partition.error_code, partition.error_message.as_deref())));
            }
        }
        Ok(outcomes)
    }
}
