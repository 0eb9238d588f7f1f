//! Resources and reconcilers: from what people write down to what the cluster does.
//!
//! [`crd`] has the resources, [`yaml`] reads files of them, [`reconcile`] compares them with the cluster, [`platform`]
//! carries decisions out. [`local`] drives it all for the one process of `taffrail up`, [`kubernetes`] for clusters of pods.

pub mod crd;
pub mod kubernetes;
pub mod local;
pub mod platform;
pub mod reconcile;
pub mod yaml;
