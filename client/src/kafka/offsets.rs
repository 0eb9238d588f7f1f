//! Where partitions begin and end, where a time is, and the deletion of records below an offset: questions to leaders.

use std::collections::{BTreeMap, BTreeSet};

use taffrail_protocol::message::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use taffrail_protocol::message::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use taffrail_protocol::message::{BrokerId, DeleteRecordsRequest, ListOffsetsRequest};
use taffrail_protocol::versions::VersionRange;

use super::topics::topic_name;
use super::{KafkaClient, KafkaError, Patience, check};

/// Versions that give one offset for each time.
const LIST_OFFSETS: VersionRange = VersionRange { min: 1, max: 9 };
const DELETE_RECORDS: VersionRange = VersionRange { min: 0, max: 2 };

/// The replica id of a client that is no replica.
const NO_REPLICA: BrokerId = BrokerId(-1);

/// Name of a topic and number of a partition.
pub type PartitionKey = (String, i32);

/// What is looked for in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetAt {
    /// The first offset that is there.
    Start,
    /// Behind the last offset that consumers can read.
    End,
    /// The first record of this time or later, in milliseconds since 1970.
    Time(i64),
}

impl OffsetAt {
    fn timestamp(self) -> i64 {
        match self {
            Self::Start => -2,
            Self::End => -1,
            Self::Time(time_ms) => time_ms.max(0),
        }
    }
}

impl KafkaClient {
    /// The offset at `at` in each of `partitions`. A time behind the last record leads to the end.
    ///
    /// # Errors
    /// The refusal of the first that has no leader, or is not there.
    pub async fn offsets(
        &mut self,
        partitions: &[PartitionKey],
        at: OffsetAt,
    ) -> Result<BTreeMap<PartitionKey, i64>, KafkaError> {
        let mut found = self.list_offsets(partitions, at).await?;
        let beyond: Vec<PartitionKey> =
            found.iter().filter(|(_, offset)| **offset < 0).map(|(partition, _)| partition.clone()).collect();
        if !beyond.is_empty() {
            found.extend(self.list_offsets(&beyond, OffsetAt::End).await?);
        }
        Ok(found)
    }

    /// Where each of `partitions` begins and ends, without those that are not there or that nobody leads now.
    ///
    /// # Errors
    /// The refusal of a leader.
    pub async fn bounds(
        &mut self,
        partitions: &[PartitionKey],
    ) -> Result<BTreeMap<PartitionKey, (i64, i64)>, KafkaError> {
        let topics = self.topics_that_exist(&topic_names(partitions)).await?;
        let led: BTreeMap<PartitionKey, i32> = topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(move |partition| (topic, partition)))
            .filter_map(|(topic, it)| it.leader.map(|leader| ((topic.name.clone(), it.partition), leader)))
            .collect();
        let asked: Vec<PartitionKey> = partitions.iter().filter(|it| led.contains_key(*it)).cloned().collect();
        self.leaders.extend(led);
        let starts = self.offsets(&asked, OffsetAt::Start).await?;
        let ends = self.offsets(&asked, OffsetAt::End).await?;
        let both = starts.into_iter().filter_map(|(key, start)| ends.get(&key).map(|end| (key.clone(), (start, *end))));
        Ok(both.collect())
    }

    /// The partitions of a topic, or those of these numbers.
    ///
    /// # Errors
    /// When the topic is not there, or has no partition of such a number.
    pub async fn partitions(&mut self, topic: &str, numbers: &[i32]) -> Result<Vec<PartitionKey>, KafkaError> {
        let topics = self.topics(&[topic.to_owned()]).await?;
        let there: Vec<i32> =
            topics.iter().flat_map(|topic| topic.partitions.iter().map(|partition| partition.partition)).collect();
        if let Some(unknown) = numbers.iter().find(|number| !there.contains(number)) {
            return Err(KafkaError::NoPartition { topic: topic.to_owned(), partition: *unknown, count: there.len() });
        }
        let wanted = if numbers.is_empty() { there } else { numbers.to_vec() };
        Ok(wanted.into_iter().map(|number| (topic.to_owned(), number)).collect())
    }

    async fn list_offsets(
        &mut self,
        partitions: &[PartitionKey],
        at: OffsetAt,
    ) -> Result<BTreeMap<PartitionKey, i64>, KafkaError> {
        let (patience, mut found) = (Patience::new(self.timeout), BTreeMap::new());
        loop {
            let missing: Vec<PartitionKey> =
                partitions.iter().filter(|partition| !found.contains_key(*partition)).cloned().collect();
            if missing.is_empty() {
                return Ok(found);
            }
            if let Err(error) = self.list_offsets_once(&missing, at, &mut found).await {
                self.forget_leaders();
                patience.after(error).await?;
            }
        }
    }

    async fn list_offsets_once(
        &mut self,
        partitions: &[PartitionKey],
        at: OffsetAt,
        found: &mut BTreeMap<PartitionKey, i64>,
    ) -> Result<(), KafkaError> {
        for (leader, led) in self.leaders_known(partitions).await? {
            let partition = |(_, partition): &PartitionKey| {
                ListOffsetsPartition::default().with_partition_index(*partition).with_timestamp(at.timestamp())
            };
            let topics = by_topic(&led, partition).into_iter().map(|(topic, partitions)| {
                ListOffsetsTopic::default().with_name(topic_name(&topic)).with_partitions(partitions)
            });
            let request = ListOffsetsRequest::default().with_replica_id(NO_REPLICA).with_topics(topics.collect());
            let answer = self.ask(leader, LIST_OFFSETS, &request).await?;
            for topic in answer.topics {
                for partition in topic.partitions {
                    let key = (topic.name.to_string(), partition.partition_index);
                    take(key, partition.error_code, partition.offset, found)?;
                }
            }
            if let Some((topic, partition)) = led.iter().find(|partition| !found.contains_key(*partition)) {
                return Err(KafkaError::NotAnswered(format!("offsets of {topic}-{partition}")));
            }
        }
        Ok(())
    }

    /// Deletes the records before an offset in each partition; -1 is the end. Gives where each of them begins now.
    ///
    /// # Errors
    /// The refusal of the first, after which others may be done.
    pub async fn delete_records(
        &mut self,
        before: &BTreeMap<PartitionKey, i64>,
    ) -> Result<BTreeMap<PartitionKey, i64>, KafkaError> {
        let (patience, mut done) = (Patience::new(self.timeout), BTreeMap::new());
        loop {
            let missing: Vec<PartitionKey> = before.keys().filter(|it| !done.contains_key(*it)).cloned().collect();
            if missing.is_empty() {
                return Ok(done);
            }
            if let Err(error) = self.delete_records_once(&missing, before, &mut done).await {
                patience.after(error).await?;
            }
        }
    }

    async fn delete_records_once(
        &mut self,
        partitions: &[PartitionKey],
        before: &BTreeMap<PartitionKey, i64>,
        done: &mut BTreeMap<PartitionKey, i64>,
    ) -> Result<(), KafkaError> {
        for (leader, led) in self.leaders(partitions).await? {
            let partition = |key: &PartitionKey| {
                let offset = before.get(key).copied().unwrap_or_default();
                DeleteRecordsPartition::default().with_partition_index(key.1).with_offset(offset)
            };
            let topics = by_topic(&led, partition).into_iter().map(|(topic, partitions)| {
                DeleteRecordsTopic::default().with_name(topic_name(&topic)).with_partitions(partitions)
            });
            let request =
                DeleteRecordsRequest::default().with_topics(topics.collect()).with_timeout_ms(self.timeout_ms());
            let answer = self.ask(leader, DELETE_RECORDS, &request).await?;
            for topic in answer.topics {
                for partition in topic.partitions {
                    let key = (topic.name.to_string(), partition.partition_index);
                    take(key, partition.error_code, partition.low_watermark, done)?;
                }
            }
            if let Some((topic, partition)) = led.iter().find(|partition| !done.contains_key(*partition)) {
                return Err(KafkaError::NotAnswered(format!("{topic}-{partition}")));
            }
        }
        Ok(())
    }

    /// Who leads which of `partitions`, by the newest metadata.
    ///
    /// # Errors
    /// The refusal of the first that is not there; LEADER_NOT_AVAILABLE for one that nobody leads.
    pub(super) async fn leaders(
        &mut self,
        partitions: &[PartitionKey],
    ) -> Result<BTreeMap<i32, Vec<PartitionKey>>, KafkaError> {
        let topics: BTreeMap<String, _> =
            self.topics(&topic_names(partitions)).await?.into_iter().map(|topic| (topic.name.clone(), topic)).collect();
        let mut led: BTreeMap<i32, Vec<PartitionKey>> = BTreeMap::new();
        for (name, partition) in partitions {
            let Some(topic) = topics.get(name) else { continue };
            let found = topic.partitions.iter().find(|it| it.partition == *partition);
            let found = found.ok_or_else(|| KafkaError::NoPartition {
                topic: name.clone(),
                partition: *partition,
                count: topic.partitions.len(),
            })?;
            let leader = found.leader.ok_or_else(|| KafkaError::leaderless(name, *partition))?;
            self.leaders.insert((name.clone(), *partition), leader);
            led.entry(leader).or_default().push((name.clone(), *partition));
        }
        Ok(led)
    }

    /// The same as it was known last.
    pub(super) async fn leaders_known(
        &mut self,
        partitions: &[PartitionKey],
    ) -> Result<BTreeMap<i32, Vec<PartitionKey>>, KafkaError> {
        let mut led: BTreeMap<i32, Vec<PartitionKey>> = BTreeMap::new();
        for partition in partitions {
            match self.leaders.get(partition) {
                Some(leader) => led.entry(*leader).or_default().push(partition.clone()),
                None => return self.leaders(partitions).await,
            }
        }
        Ok(led)
    }

    /// Asks anew who leads, the next time.
    pub(super) fn forget_leaders(&mut self) {
        self.leaders.clear();
    }
}

/// The topics of partitions, each once.
fn topic_names(partitions: &[PartitionKey]) -> Vec<String> {
    let names: BTreeSet<&String> = partitions.iter().map(|(topic, _)| topic).collect();
    names.into_iter().cloned().collect()
}

/// What `partition` makes of each partition, topic by topic.
fn by_topic<T>(partitions: &[PartitionKey], partition: impl Fn(&PartitionKey) -> T) -> BTreeMap<String, Vec<T>> {
    let mut topics: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for key in partitions {
        topics.entry(key.0.clone()).or_default().push(partition(key));
    }
    topics
}

/// Notes the offset that was told of a partition, if it was not refused.
fn take(
    key: PartitionKey,
    error_code: i16,
    offset: i64,
    told: &mut BTreeMap<PartitionKey, i64>,
) -> Result<(), KafkaError> {
    check(format!("{}-{}", key.0, key.1), error_code, None)?;
    told.insert(key, offset);
    Ok(())
}
