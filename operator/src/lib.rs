//! Resources and reconcilers: from what people write down to what the cluster does.
//!
//! [`crd`] has the resources, [`yaml`] reads files of them, [`reconcile`] compares them with the cluster, [`platform`]
//! carries decisions out, and [`local`] drives it all for the one process of `taffrail up`.

pub mod crd;
pub mod local;
pub mod platform;
pub mod reconcile;
pub mod yaml;
