//! Replication: how this broker keeps up with the leaders of the partitions that it follows.
//!
//! [`Fetchers`] has one task for each leader. What it asks and what an answer means is decided by [`plan`], a machine
//! without I/O, and by `core::partition::following`; [`fetcher`] talks over a [`link`] and acts on the logs.

mod answers;
mod backoff;
mod check;
mod fetcher;
mod fetchers;
mod inbox;
mod link;
mod plan;
mod position;
mod range;
mod work;

pub(crate) use fetchers::Fetchers;
