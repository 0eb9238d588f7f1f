//! The broker role: Kafka listeners, handlers of requests, replicas of partitions, group coordinators.
//!
//! A [`Broker`] is made of its storage and its way to the controller. Whoever follows the metadata log calls
//! [`Broker::follow`] with each new image; [`Broker::serve`] runs a listener. Nothing else comes in from outside.

mod api;
mod auto_topics;
mod broker;
mod client_info;
mod controller_handle;
mod coordinator;
mod fetch;
mod follower;
mod introduction;
mod lag;
mod listener;
mod loggers;
mod metadata;
mod metrics;
mod registration;
mod replica;
mod replication;

pub use broker::{Answer, Broker, BrokerParts, Controller};
pub use client_info::ClientInfo;
pub use controller_handle::ControllerHandle;
pub use follower::follow_metadata;
pub use listener::{ConnectionLimits, ListenerLimits};
pub use loggers::Loggers;
pub use metadata::MetadataCache;
pub use metrics::{Granularity, Loss, Metrics, Scrape, ScrapeOptions, write_head};
pub use registration::{Registration, RegistrationError};
pub use replication::keep_in_sync;
pub use taffrail_protocol::rpc::Committed;

#[cfg(test)]
mod tests;
