//! Replication: how this broker keeps up with the leaders of the partitions that it follows, and how it has those that keep up
//! with it counted as in sync.
//!
//! [`Fetchers`] has one task for each leader. What it asks and what an answer means is decided by [`plan`], a machine
//! without I/O, and by `core::partition::following`; [`fetcher`] talks over a [`link`] and acts on the logs. [`isr`] brings
//! what leaders propose to the controllers.

mod answers;
mod backoff;
mod check;
mod fetcher;
mod fetchers;
mod inbox;
mod isr;
mod link;
mod plan;
mod position;
mod range;
mod work;

pub(crate) use fetcher::peer;
pub(crate) use fetchers::Fetchers;
pub(crate) use isr::IsrChanges;
pub use isr::keep_in_sync;
pub(crate) use link::{Link, LinkError};
