//! What carries decisions out: this process alone, or (later) Kubernetes.

pub mod groups;
pub mod local;

use std::future::Future;
use std::sync::Arc;

use taffrail_core::control::{Command, ControlError, Reply};
use taffrail_core::image::MetadataImage;

/// Why a platform could not do something.
#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    /// The controllers refuse it.
    #[error("the controller refuses: {0}")]
    Refused(ControlError),
    /// The controllers cannot be reached.
    #[error("the controller cannot be reached: {0}")]
    Unreachable(String),
    /// The answer is not one to this command.
    #[error("the controller gave no answer to {0}")]
    UnexpectedReply(&'static str),
}

/// Where a cluster runs, as the reconcilers see it. Truth about topics and settings is in the metadata on every platform;
/// what platforms differ in (pods, disks, services) comes with the one for Kubernetes.
pub trait Platform: Sync {
    /// The newest metadata that there are.
    fn metadata(&self) -> Arc<MetadataImage>;

    /// Asks the active controller to do something, and waits until it is committed.
    fn propose(&self, command: Command) -> impl Future<Output = Result<Reply, PlatformError>> + Send;
}
