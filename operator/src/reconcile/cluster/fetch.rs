//! What is there.

use taffrail_core::config::Overrides;
use taffrail_core::event::ConfigResource;
use taffrail_core::image::MetadataImage;

/// The cluster as the metadata have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedCluster {
    /// Settings of all brokers that were set at run time.
    pub dynamic: Overrides,
}

/// Reads the cluster from the metadata.
pub fn fetch(image: &MetadataImage) -> ObservedCluster {
    let overrides = image.overrides(&ConfigResource::broker_default());
    ObservedCluster { dynamic: overrides.map(|overrides| Overrides::clone(overrides)).unwrap_or_default() }
}
