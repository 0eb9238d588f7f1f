//! The Cluster: its settings.

mod apply;
mod build;
mod fetch;
mod validate;

pub use apply::apply;
pub use build::{ClusterPlan, build};
pub use fetch::{ObservedCluster, fetch};
pub use validate::{Settings, ValidCluster, validate};
