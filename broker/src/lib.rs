//! The broker role: Kafka listeners, handlers of requests, replicas of partitions, group coordinators.
//!
//! A [`Broker`] is made of its storage and its way to the controller. Whoever follows the metadata log calls
//! [`Broker::follow`] with each new image; [`Broker::serve`] runs a listener. Nothing else comes in from outside.

mod api;
mod auto_topics;
mod broker;
mod client_info;
mod fetch;
mod listener;
mod metadata;
mod metrics;
mod replica;

pub use broker::{Broker, BrokerParts, Committed, Controller};
pub use client_info::ClientInfo;
pub use listener::ListenerLimits;
pub use metadata::MetadataCache;
pub use metrics::Metrics;

#[cfg(test)]
mod tests;
