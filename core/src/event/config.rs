//! Whose settings an event speaks of.

use std::fmt;
use std::sync::Arc;

use crate::ids::BrokerId;

/// Kinds of things that have settings kept in the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    /// A topic, by name.
    Topic,
    /// A broker, by number; the empty name stands for all brokers.
    Broker,
}

impl ResourceKind {
    /// Kafka's number of it (`ConfigResource.Type`).
    pub fn code(self) -> i8 {
        match self {
            Self::Topic => 2,
            Self::Broker => 4,
        }
    }

    /// The kind that Kafka gives `code`, if it is one whose settings are kept.
    pub fn from_code(code: i8) -> Option<Self> {
        [Self::Topic, Self::Broker].into_iter().find(|it| it.code() == code)
    }
}

/// Something that has settings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigResource {
    /// What it is.
    pub kind: ResourceKind,
    /// Its name.
    pub name: Arc<str>,
}

impl ConfigResource {
    /// A topic's settings.
    pub fn topic(name: impl Into<Arc<str>>) -> Self {
        Self { kind: ResourceKind::Topic, name: name.into() }
    }

    /// One broker's settings.
    pub fn broker(id: BrokerId) -> Self {
        Self { kind: ResourceKind::Broker, name: id.to_string().into() }
    }

    /// The settings of all brokers.
    pub fn broker_default() -> Self {
        Self { kind: ResourceKind::Broker, name: "".into() }
    }
}

impl fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ResourceKind::Topic => write!(f, "topic '{}'", self.name),
            ResourceKind::Broker if self.name.is_empty() => f.write_str("all brokers"),
            ResourceKind::Broker => write!(f, "broker {}", self.name),
        }
    }
}
