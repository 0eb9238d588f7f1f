//! Resources and reconcilers: from what people write down to what the cluster does.

pub mod crd;
pub mod yaml;
