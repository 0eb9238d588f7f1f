//! The one table of settings, and what is made of it.
//!
//! Every setting has one row: name, type, default, valid values, how it is changed, whether we act on it, what it does.
//! The controller checks against it, DescribeConfigs prints it, the schema of the resources and the documentation page
//! are made from it. Kafka's names keep Kafka's meaning; those that we do not act on are known all the same, so that
//! tools which set them go on working, and are marked so.

mod broker_config;
mod describe;
mod host_limits;
mod layers;
mod nearest;
mod setting;
mod synonyms;
mod table;
mod throttled_replicas;
mod topic_config;
mod typed;
mod validate;

#[cfg(test)]
mod tests;

pub use broker_config::{BrokerConfig, validate_broker};
pub use describe::{Described, SynonymValue, describe_broker, describe_topic};
pub use host_limits::host_limits;
pub use layers::{BrokerLayers, Overrides, Source};
pub use nearest::{hint, nearest};
pub use setting::{Kind, Scope, Setting, Update, Valid};
pub use synonyms::{Synonym, TOPIC_SYNONYMS, of_broker as broker_synonyms, of_topic as topic_synonyms};
pub use table::{find, settings};
pub use throttled_replicas::ThrottledReplicas;
pub use topic_config::{CleanupPolicy, CompressionType, TopicConfig, validate_topic};
pub use validate::{ConfigError, VALUE_BYTES_MAX, check, known, list_items, validate};

pub(crate) use validate::parse_boolean;
