//! Broker settings by who gave them: the layers that a value is looked up in.

use std::collections::BTreeMap;

use super::setting::{Scope, Setting};
use super::{synonyms, table};

/// Settings that somebody gave: name to value.
pub type Overrides = BTreeMap<String, String>;

/// Where a value comes from. The numbers are those of DescribeConfigs (`ConfigSource`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i8)]
pub enum Source {
    /// Set on the topic.
    Topic = 1,
    /// Set at run time for this broker.
    DynamicBroker = 2,
    /// Set at run time for all brokers.
    DynamicDefault = 3,
    /// Given to the process at start.
    Static = 4,
    /// Nobody gave one.
    Default = 5,
}

/// What has been set for one broker, in three layers over the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerLayers {
    /// Set at run time for this broker; the strongest.
    pub dynamic_broker: Overrides,
    /// Set at run time for all brokers.
    pub dynamic_default: Overrides,
    /// Given to the process at start.
    pub static_broker: Overrides,
}

impl BrokerLayers {
    /// The layers, strongest first.
    pub fn layers(&self) -> [(Source, &Overrides); 3] {
        [
            (Source::DynamicBroker, &self.dynamic_broker),
            (Source::DynamicDefault, &self.dynamic_default),
            (Source::Static, &self.static_broker),
        ]
    }

    /// The value that somebody gave to broker setting `name`, and who.
    pub fn given(&self, name: &str) -> Option<(&str, Source)> {
        self.layers().into_iter().find_map(|(source, layer)| Some((layer.get(name)?.as_str(), source)))
    }

    /// Names of no setting of ours that were set at run time, and who set each, strongest first. Kafka takes any name for
    /// brokers, for the sake of plugins, and so do its tools and operators.
    pub fn custom(&self) -> BTreeMap<&str, Vec<Source>> {
        let mut custom: BTreeMap<&str, Vec<Source>> = BTreeMap::new();
        for (source, layer) in
            [(Source::DynamicBroker, &self.dynamic_broker), (Source::DynamicDefault, &self.dynamic_default)]
        {
            for name in layer.keys().filter(|name| table::find(Scope::Broker, name).is_none()) {
                custom.entry(name).or_default().push(source);
            }
        }
        custom
    }

    /// The value of broker setting `name`, given or by default; `None` if it has none.
    pub fn value(&self, name: &str) -> Option<&str> {
        let default = || table::find(Scope::Broker, name).and_then(|setting| setting.default);
        self.given(name).map(|(value, _)| value).or_else(default)
    }

    /// The `min.insync.replicas` of topics without one of their own.
    pub fn min_in_sync(&self) -> Option<u32> {
        self.value("min.insync.replicas")?.trim().parse().ok()
    }

    /// The value that topics without one of their own have, in the topic setting's unit.
    ///
    /// Of the broker settings behind a topic setting the finest unit with a value wins, whichever layer gave it, as in
    /// Kafka: `log.retention.ms` over `log.retention.minutes` over `log.retention.hours`.
    pub fn topic_default(&self, setting: &Setting) -> Option<String> {
        for synonym in synonyms::of_topic(setting.name) {
            let Some(value) = self.value(synonym.name) else { continue };
            if synonym.factor == 1 {
                return Some(value.to_owned());
            }
            // Negative hours mean "no limit", as -1 milliseconds do.
            let number: i64 = value.trim().parse().ok()?;
            let scaled = if number < 0 { -1 } else { number.saturating_mul(synonym.factor) };
            return Some(scaled.to_string());
        }
        setting.default.map(str::to_owned)
    }
}
