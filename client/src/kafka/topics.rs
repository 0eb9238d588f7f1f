//! Topics: who has them, and what creates, grows and deletes them.

use taffrail_core::ids::Uuid;
use taffrail_protocol::message::create_partitions_request::CreatePartitionsTopic;
use taffrail_protocol::message::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use taffrail_protocol::message::metadata_request::MetadataRequestTopic;
use taffrail_protocol::message::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use taffrail_protocol::message::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, MetadataRequest, MetadataResponse, Request,
    TopicName, from_wire_id,
};
use taffrail_protocol::versions::VersionRange;

use super::error::check;
use super::{KafkaClient, KafkaError, Patience};

/// Versions that name topics and say whether they may be created.
const METADATA: VersionRange = VersionRange { min: 4, max: 12 };
/// Versions that take -1 for what the broker knows best.
const CREATE_TOPICS: VersionRange = VersionRange { min: 4, max: 7 };
/// Versions that name topics.
const DELETE_TOPICS: VersionRange = VersionRange { min: 1, max: 5 };
const CREATE_PARTITIONS: VersionRange = VersionRange { min: 0, max: 3 };

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id; zero where brokers do not know of ids.
    pub id: Uuid,
    /// Whether the cluster keeps something of its own there.
    pub internal: bool,
    /// Its partitions, by their numbers.
    pub partitions: Vec<Partition>,
}

/// A partition as a broker knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Its number.
    pub partition: i32,
    /// Who leads it, if anybody does.
    pub leader: Option<i32>,
    /// Epoch of the leader; -1 where brokers do not tell.
    pub leader_epoch: i32,
    /// Who keeps it; the first is the preferred leader.
    pub replicas: Vec<i32>,
    /// Which of these are in sync.
    pub isr: Vec<i32>,
    /// Which of these are away.
    pub offline: Vec<i32>,
}

/// A topic that is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions; the cluster's default without it.
    pub partitions: Option<i32>,
    /// How many replicas of each; the cluster's default without it.
    pub replication_factor: Option<i16>,
    /// Settings of its own.
    pub settings: Vec<(String, String)>,
}

/// What became of a new topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Its name.
    pub name: String,
    /// Its id; zero if it was only checked, and where brokers do not know of ids.
    pub id: Uuid,
    /// How many partitions it has; -1 where brokers do not tell.
    pub partitions: i32,
    /// How many replicas each of them has; -1 where brokers do not tell.
    pub replication_factor: i16,
}

impl Topic {
    pub(super) fn of(topic: MetadataResponseTopic) -> Self {
        let mut partitions: Vec<Partition> = topic.partitions.into_iter().map(Partition::of).collect();
        partitions.sort_unstable_by_key(|partition| partition.partition);
        Self {
            name: topic.name.map(|name| name.to_string()).unwrap_or_default(),
            id: from_wire_id(topic.topic_id),
            internal: topic.is_internal,
            partitions,
        }
    }
}

impl Partition {
    fn of(partition: MetadataResponsePartition) -> Self {
        let numbers = |ids: Vec<taffrail_protocol::message::BrokerId>| ids.into_iter().map(|id| id.0).collect();
        Self {
            partition: partition.partition_index,
            leader: (partition.leader_id.0 >= 0).then_some(partition.leader_id.0),
            leader_epoch: partition.leader_epoch,
            replicas: numbers(partition.replica_nodes),
            isr: numbers(partition.isr_nodes),
            offline: numbers(partition.offline_replicas),
        }
    }

    /// Whether it lacks replicas in sync.
    pub fn is_under_replicated(&self) -> bool {
        self.isr.len() < self.replicas.len()
    }
}

pub(super) fn topic_name(name: &str) -> TopicName {
    TopicName(name.to_owned().into())
}

impl KafkaClient {
    /// The topics of these names, in their order.
    ///
    /// # Errors
    /// The refusal of the first that is not there or may not be seen.
    pub async fn topics(&mut self, names: &[String]) -> Result<Vec<Topic>, KafkaError> {
        let patience = Patience::new(self.timeout);
        loop {
            match self.topics_once(names).await {
                Ok(topics) => return Ok(topics),
                // The same code as for a topic that is about to be known, and people wait for an answer.
                Err(error) if error.code() == Some(taffrail_core::errors::ErrorCode::UnknownTopicOrPartition) => {
                    return Err(error);
                }
                Err(error) => patience.after(error).await?,
            }
        }
    }

    /// Those topics of these names that are there.
    ///
    /// # Errors
    /// When no broker answers.
    pub async fn topics_that_exist(&mut self, names: &[String]) -> Result<Vec<Topic>, KafkaError> {
        let answer = self.metadata(Some(names)).await?;
        Ok(answer.topics.into_iter().filter(|topic| !topic.partitions.is_empty()).map(Topic::of).collect())
    }

    async fn topics_once(&mut self, names: &[String]) -> Result<Vec<Topic>, KafkaError> {
        let answer = self.metadata(Some(names)).await?;
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let is_named = |topic: &&MetadataResponseTopic| topic.name.as_ref().is_some_and(|it| it.as_str() == name);
            let what = format!("topic {name}");
            let topic = answer.topics.iter().find(is_named).ok_or_else(|| KafkaError::NotAnswered(what.clone()))?;
            check(what, topic.error_code, None)?;
            found.push(Topic::of(topic.clone()));
        }
        Ok(found)
    }

    /// Asks for topics (all without names), and takes note of where brokers are.
    pub(super) async fn metadata(&mut self, names: Option<&[String]>) -> Result<MetadataResponse, KafkaError> {
        let named = |name: &String| MetadataRequestTopic::default().with_name(Some(topic_name(name)));
        let topics = names.map(|names| names.iter().map(named).collect());
        let request = MetadataRequest::default().with_topics(topics).with_allow_auto_topic_creation(false);
        let answer = self.ask_any(METADATA, &request).await?;
        for broker in &answer.brokers {
            let address = match broker.host.contains(':') {
                true => format!("[{}]:{}", broker.host.as_str(), broker.port),
                false => format!("{}:{}", broker.host.as_str(), broker.port),
            };
            let before = self.addresses.insert(broker.node_id.0, address.clone());
            if before.is_some_and(|before| before != address) {
                self.connections.remove(&broker.node_id.0);
            }
        }
        self.addresses.retain(|id, _| answer.brokers.iter().any(|broker| broker.node_id.0 == *id));
        self.controller = answer.controller_id.0;
        Ok(answer)
    }

    /// Asks the broker that the cluster calls its controller, which other products insist on, or else any.
    pub(super) async fn ask_controller<R: Request>(
        &mut self,
        versions: VersionRange,
        request: &R,
    ) -> Result<R::Response, KafkaError> {
        self.metadata(Some(&[])).await?;
        let controller = self.controller;
        if self.addresses.contains_key(&controller) {
            return self.ask(controller, versions, request).await;
        }
        self.ask_any(versions, request).await
    }

    /// Creates topics, or only checks whether it could; gives what became of each.
    ///
    /// # Errors
    /// When nobody answers.
    pub async fn create_topics(
        &mut self,
        topics: &[NewTopic],
        validate_only: bool,
    ) -> Result<Vec<(String, Result<CreatedTopic, KafkaError>)>, KafkaError> {
        let setting = |(name, value): &(String, String)| {
            CreatableTopicConfig::default().with_name(name.clone().into()).with_value(Some(value.clone().into()))
        };
        let creatable = topics.iter().map(|topic| {
            CreatableTopic::default()
                .with_name(topic_name(&topic.name))
                .with_num_partitions(topic.partitions.unwrap_or(-1))
                .with_replication_factor(topic.replication_factor.unwrap_or(-1))
                .with_configs(topic.settings.iter().map(setting).collect())
        });
        let request = CreateTopicsRequest::default()
            .with_topics(creatable.collect())
            .with_timeout_ms(self.timeout_ms())
            .with_validate_only(validate_only);
        let answer = self.ask_controller(CREATE_TOPICS, &request).await?;
        let outcome = answer.topics.into_iter().map(|topic| {
            let name = topic.name.to_string();
            let created = CreatedTopic {
                name: name.clone(),
                id: from_wire_id(topic.topic_id),
                partitions: topic.num_partitions,
                replication_factor: topic.replication_factor,
            };
            let outcome = check(format!("topic {name}"), topic.error_code, topic.error_message.as_deref());
            (name, outcome.map(|()| created))
        });
        Ok(outcome.collect())
    }

    /// Deletes topics; gives what became of each.
    ///
    /// # Errors
    /// When nobody answers.
    pub async fn delete_topics(
        &mut self,
        names: &[String],
    ) -> Result<Vec<(String, Result<(), KafkaError>)>, KafkaError> {
        let request = DeleteTopicsRequest::default()
            .with_topic_names(names.iter().map(|name| topic_name(name)).collect())
            .with_timeout_ms(self.timeout_ms());
        let answer = self.ask_controller(DELETE_TOPICS, &request).await?;
        let outcome = answer.responses.into_iter().map(|topic| {
            let name = topic.name.map(|name| name.to_string()).unwrap_or_default();
            let outcome = check(format!("topic {name}"), topic.error_code, topic.error_message.as_deref());
            (name, outcome)
        });
        Ok(outcome.collect())
    }

    /// Has a topic have `count` partitions.
    ///
    /// # Errors
    /// The refusal.
    pub async fn create_partitions(&mut self, topic: &str, count: i32) -> Result<(), KafkaError> {
        let grown = CreatePartitionsTopic::default().with_name(topic_name(topic)).with_count(count);
        let request = CreatePartitionsRequest::default()
            .with_topics(vec![grown.with_assignments(None)])
            .with_timeout_ms(self.timeout_ms());
        let answer = self.ask_controller(CREATE_PARTITIONS, &request).await?;
        let what = format!("topic {topic}");
        let result = answer.results.first().ok_or_else(|| KafkaError::NotAnswered(what.clone()))?;
        check(what, result.error_code, result.error_message.as_deref())
    }
}
