//! Clusters of pods: the operator on Kubernetes.
//!
//! [`operator`] watches and has a [`keeper`] for each Cluster. A keeper makes passes of four steps: [`observed`] is what
//! there is, [`wanted`] what makes sense of what is asked for, [`build`] and [`rollout`] decide as pure functions, and the
//! keeper carries it out through [`api`] and [`link`]. Status is a report and never an input.

pub mod api;
pub mod brought;
pub mod build;
pub mod cache;
pub mod caches;
pub mod claims;
pub mod conditions;
pub mod events;
#[cfg(test)]
mod fixtures;
pub mod groups;
pub mod identity;
pub mod keeper;
pub mod lease;
pub mod link;
pub mod listeners;
pub mod losses;
pub mod metrics;
pub mod names;
pub mod observed;
pub mod offline;
pub mod operator;
pub mod parking;
pub mod quantity;
pub mod rebalance;
pub mod relocate;
pub mod revision;
pub mod rollout;
pub mod rules;
pub mod scale;
pub mod status;
pub mod throttle;
pub mod topics;
pub mod wanted;
