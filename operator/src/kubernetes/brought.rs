//! Resources that come along with the operator.
//!
//! Helm looks every kind up before it creates anything, so a Cluster cannot be in the same release as its definition. The
//! chart brings it as a text in a file, and the operator creates what is not there yet. It is never changed or deleted
//! afterwards: once it exists it belongs to its user.

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use futures::future::select;
use kube::{Client, ResourceExt};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time;

use super::api::{ApiError, Kube, Namespaced};
use crate::yaml::{Problems, Resources, load_files};

/// Pause before another try: the definition may be younger than this process.
const RETRY: Duration = Duration::from_millis(500);

/// The resources of one file, to be created where there are none of their names.
pub struct Brought {
    resources: Resources,
}

impl Brought {
    /// Reads and checks the file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(file: PathBuf) -> Result<Self, Problems> {
        Ok(Self { resources: load_files(&[file])? })
    }

    /// Creates what is missing, and tries again until all of it is there or it is time to stop.
    pub async fn create_missing(self, client: Client, stop: Shutdown) {
        while let Err(error) = self.try_to_create(&client).await {
            tracing::warn!(%error, "what comes along cannot be created yet");
            select(pin!(time::sleep(RETRY)), pin!(stop.triggered())).await;
            if stop.is_triggered() {
                return;
            }
        }
    }

    async fn try_to_create(&self, client: &Client) -> Result<(), ApiError> {
        for cluster in &self.resources.clusters {
            create(client, &cluster.resource).await?;
        }
        for topic in &self.resources.topics {
            create(client, &topic.resource).await?;
        }
        for group in &self.resources.groups {
            create(client, &group.resource).await?;
        }
        Ok(())
    }
}

/// Creates one, in the namespace of this process unless it names another.
async fn create<K: Namespaced>(client: &Client, resource: &K) -> Result<(), ApiError> {
    let mut resource = resource.clone();
    resource.meta_mut().namespace.get_or_insert_with(|| client.default_namespace().to_owned());
    let (kind, name) = (K::kind(&()), resource.name_any());
    match Kube::new(client.clone()).create(&resource).await? {
        Some(_) => tracing::info!(%kind, name, "created, as it came along"),
        None => tracing::info!(%kind, name, "is there already, and is left as it is"),
    }
    Ok(())
}
