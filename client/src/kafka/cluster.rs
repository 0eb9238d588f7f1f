//! A cluster as a whole: its brokers, all topics, and what lies in the directories of each broker.

use std::collections::BTreeMap;

use taffrail_protocol::message::DescribeLogDirsRequest;
use taffrail_protocol::message::describe_log_dirs_request::DescribableLogDirTopic;
use taffrail_protocol::message::describe_log_dirs_response::DescribeLogDirsResult;
use taffrail_protocol::versions::VersionRange;

use super::topics::topic_name;
use super::{KafkaClient, KafkaError, PartitionKey, Topic, check};

/// The versions from 4 on tell how large volumes are.
const DESCRIBE_LOG_DIRS: VersionRange = VersionRange { min: 1, max: 4 };

/// A cluster as its brokers describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterInfo {
    /// Its id.
    pub cluster_id: Option<String>,
    /// Brokers that are there, by their numbers.
    pub brokers: Vec<ClusterBroker>,
    /// Topics, by their names, those with trouble too.
    pub topics: Vec<Topic>,
}

/// A broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterBroker {
    /// Its number.
    pub id: i32,
    /// Where clients reach it.
    pub host: String,
    /// The port there.
    pub port: i32,
    /// Where it stands, if it says so.
    pub rack: Option<String>,
}

/// A directory in which a broker keeps partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDir {
    /// Its path on that machine.
    pub path: String,
    /// Why nothing can be told of it: it is offline, most likely.
    pub error: Option<String>,
    /// Bytes of each partition.
    pub sizes: BTreeMap<PartitionKey, i64>,
    /// Bytes of its volume, if the broker tells.
    pub total_bytes: Option<i64>,
    /// Free bytes of its volume, if the broker tells.
    pub usable_bytes: Option<i64>,
}

impl LogDir {
    fn of(directory: DescribeLogDirsResult) -> Self {
        let path = directory.log_dir.to_string();
        let error = check(format!("directory {path}"), directory.error_code, None).err();
        let mut sizes = BTreeMap::new();
        for topic in directory.topics {
            // A replica that moves between directories is counted where it is whole.
            for partition in topic.partitions.iter().filter(|partition| !partition.is_future_key) {
                sizes.insert((topic.name.to_string(), partition.partition_index), partition.partition_size);
            }
        }
        let known = |bytes: i64| (bytes >= 0).then_some(bytes);
        let (total_bytes, usable_bytes) = (known(directory.total_bytes), known(directory.usable_bytes));
        Self { path, error: error.map(|error| error.to_string()), sizes, total_bytes, usable_bytes }
    }
}

impl KafkaClient {
    /// What the cluster knows of itself and of all its topics.
    ///
    /// # Errors
    /// When no broker answers.
    pub async fn cluster(&mut self) -> Result<ClusterInfo, KafkaError> {
        let answer = self.metadata(None).await?;
        let mut topics: Vec<Topic> = answer.topics.into_iter().map(Topic::of).collect();
        topics.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let mut brokers: Vec<ClusterBroker> = answer
            .brokers
            .into_iter()
            .map(|broker| ClusterBroker {
                id: broker.node_id.0,
                host: broker.host.to_string(),
                port: broker.port,
                rack: broker.rack.map(|rack| rack.to_string()),
            })
            .collect();
        brokers.sort_unstable_by_key(|broker| broker.id);
        Ok(ClusterInfo { cluster_id: answer.cluster_id.map(|id| id.to_string()), brokers, topics })
    }

    /// What lies in the directories of a broker: all of it, or of these partitions.
    ///
    /// # Errors
    /// When the broker does not tell.
    pub async fn log_dirs(
        &mut self,
        broker: i32,
        partitions: Option<&[PartitionKey]>,
    ) -> Result<Vec<LogDir>, KafkaError> {
        let topics = partitions.map(|partitions| {
            let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
            for (topic, partition) in partitions {
                topics.entry(topic).or_default().push(*partition);
            }
            let topic = |(topic, partitions): (&str, Vec<i32>)| {
                DescribableLogDirTopic::default().with_topic(topic_name(topic)).with_partitions(partitions)
            };
            topics.into_iter().map(topic).collect()
        });
        if !self.addresses.contains_key(&broker) {
            self.metadata(Some(&[])).await?;
        }
        let request = DescribeLogDirsRequest::default().with_topics(topics);
        let answer = self.ask(broker, DESCRIBE_LOG_DIRS, &request).await?;
        check(format!("directories of broker {broker}"), answer.error_code, None)?;
        Ok(answer.results.into_iter().map(LogDir::of).collect())
    }
}
