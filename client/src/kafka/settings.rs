//! Settings of topics, and what changes them.

use std::collections::BTreeMap;

use taffrail_protocol::message::describe_configs_request::DescribeConfigsResource;
use taffrail_protocol::message::describe_configs_response::DescribeConfigsResult;
use taffrail_protocol::message::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use taffrail_protocol::message::{DescribeConfigsRequest, IncrementalAlterConfigsRequest};
use taffrail_protocol::versions::VersionRange;

use super::error::check;
use super::{KafkaClient, KafkaError};

const DESCRIBE_CONFIGS: VersionRange = VersionRange { min: 1, max: 4 };
const INCREMENTAL_ALTER_CONFIGS: VersionRange = VersionRange { min: 0, max: 1 };

/// Kafka's number for a topic among the things that have settings.
const TOPIC_RESOURCE: i8 = 2;

/// Kafka's number for a setting that is the topic's own.
const SETTING_OF_TOPIC: i8 = 1;

/// Topics whose settings are asked for at once.
const RESOURCES_MAX: usize = 500;

/// Operations on a setting.
const SET: i8 = 0;
const DELETE: i8 = 1;

/// A setting that holds for a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSetting {
    /// Its name.
    pub name: String,
    /// Its value; nothing if it is a secret.
    pub value: Option<String>,
    /// Kafka's number for where the value comes from.
    pub source: i8,
    /// Whether it is a secret.
    pub sensitive: bool,
}

/// A change of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigChange {
    /// Give it this value.
    Set(String, String),
    /// Go by the cluster's default again.
    Delete(String),
}

impl TopicSetting {
    fn all(result: &DescribeConfigsResult) -> Vec<Self> {
        let mut settings: Vec<Self> = result
            .configs
            .iter()
            .map(|setting| Self {
                name: setting.name.to_string(),
                value: setting.value.as_ref().map(ToString::to_string),
                source: setting.config_source,
                sensitive: setting.is_sensitive,
            })
            .collect();
        settings.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        settings
    }

    /// Whether the topic itself has it, and it is no default.
    pub fn is_own(&self) -> bool {
        self.source == SETTING_OF_TOPIC
    }
}

impl KafkaClient {
    /// The settings that hold for each of these topics, in the order of their names.
    ///
    /// # Errors
    /// The refusal of the first.
    pub async fn topic_settings(&mut self, topics: &[String]) -> Result<Vec<Vec<TopicSetting>>, KafkaError> {
        let mut settings = Vec::with_capacity(topics.len());
        for topics in topics.chunks(RESOURCES_MAX) {
            let resource = |topic: &String| {
                DescribeConfigsResource::default()
                    .with_resource_type(TOPIC_RESOURCE)
                    .with_resource_name(topic.clone().into())
                    .with_configuration_keys(None)
            };
            let request = DescribeConfigsRequest::default().with_resources(topics.iter().map(resource).collect());
            let answer = self.ask_any(DESCRIBE_CONFIGS, &request).await?;
            let told: BTreeMap<String, DescribeConfigsResult> =
                answer.results.into_iter().map(|result| (result.resource_name.to_string(), result)).collect();
            for topic in topics {
                let what = format!("settings of topic {topic}");
                let result = told.get(topic).ok_or_else(|| KafkaError::NotAnswered(what.clone()))?;
                check(what, result.error_code, result.error_message.as_deref())?;
                settings.push(TopicSetting::all(result));
            }
        }
        Ok(settings)
    }

    /// Changes settings of a topic, all or none, or only checks whether it could.
    ///
    /// # Errors
    /// The refusal.
    pub async fn alter_topic(
        &mut self,
        topic: &str,
        changes: &[ConfigChange],
        validate_only: bool,
    ) -> Result<(), KafkaError> {
        let change = |change: &ConfigChange| {
            let (name, operation, value) = match change {
                ConfigChange::Set(name, value) => (name, SET, Some(value.clone().into())),
                ConfigChange::Delete(name) => (name, DELETE, None),
            };
            let config = AlterableConfig::default().with_name(name.clone().into());
            config.with_config_operation(operation).with_value(value)
        };
        let resource = AlterConfigsResource::default()
            .with_resource_type(TOPIC_RESOURCE)
            .with_resource_name(topic.to_owned().into())
            .with_configs(changes.iter().map(change).collect());
        let request =
            IncrementalAlterConfigsRequest::default().with_resources(vec![resource]).with_validate_only(validate_only);
        let answer = self.ask_controller(INCREMENTAL_ALTER_CONFIGS, &request).await?;
        let what = format!("topic {topic}");
        let result = answer.responses.first().ok_or_else(|| KafkaError::NotAnswered(what.clone()))?;
        check(what, result.error_code, result.error_message.as_deref())
    }
}
