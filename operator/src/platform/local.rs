//! The platform of `taffrail up`: everything runs in this process, so there is nothing to place.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use taffrail_core::control::{Command, Reply};
use taffrail_core::image::MetadataImage;

use super::{Platform, PlatformError};

type Proposal = Pin<Box<dyn Future<Output = Result<Reply, PlatformError>> + Send>>;

/// One process that is broker, controller and operator.
#[derive(Clone)]
pub struct LocalPlatform {
    metadata: Arc<dyn Fn() -> Arc<MetadataImage> + Send + Sync>,
    propose: Arc<dyn Fn(Command) -> Proposal + Send + Sync>,
}

impl LocalPlatform {
    /// A platform that reads the metadata and proposes commands by these means.
    pub fn new<F>(
        metadata: impl Fn() -> Arc<MetadataImage> + Send + Sync + 'static,
        propose: impl Fn(Command) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Reply, PlatformError>> + Send + 'static,
    {
        Self { metadata: Arc::new(metadata), propose: Arc::new(move |command| Box::pin(propose(command))) }
    }
}

impl Platform for LocalPlatform {
    fn metadata(&self) -> Arc<MetadataImage> {
        (self.metadata)()
    }

    async fn propose(&self, command: Command) -> Result<Reply, PlatformError> {
        (self.propose)(command).await
    }
}
