//! The cluster's metadata as this broker knows it.
//!
//! The image is published only after the replicas have followed it: whoever reads here that this broker leads a partition
//! finds it open.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use taffrail_core::image::MetadataImage;
use taffrail_runtime::time;
use tokio::sync::watch;

/// The newest image that this broker acts on.
pub struct MetadataCache {
    image: ArcSwap<MetadataImage>,
    offset: watch::Sender<i64>,
}

impl Default for MetadataCache {
    fn default() -> Self {
        let image = MetadataImage::default();
        let (offset, _) = watch::channel(image.offset());
        Self { image: ArcSwap::from_pointee(image), offset }
    }
}

impl MetadataCache {
    /// The image. Hold on to it for the whole of an answer, so that the answer is of one piece.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.image.load_full()
    }

    /// The same for answers that are made in one go: it writes to nothing that other shards read.
    pub(crate) fn glance(&self) -> Guard<Arc<MetadataImage>> {
        self.image.load()
    }

    /// Makes `image` the one that is read from now on.
    pub(crate) fn publish(&self, image: Arc<MetadataImage>) {
        let offset = image.offset();
        self.image.store(image);
        self.offset.send_replace(offset);
    }

    /// Waits until the image contains the event at `offset`.
    pub(crate) async fn reached(&self, offset: i64) {
        let mut seen = self.offset.subscribe();
        // The sender lives in `self`, so the channel cannot close while we wait.
        let _ = seen.wait_for(|seen| *seen >= offset).await;
    }

    /// Waits until a broker is about to leave, and the image contains more than the event at `told`.
    pub(crate) async fn someone_leaves(&self, told: i64) {
        let is_leaving = |offset: &i64| {
            *offset > told && self.glance().brokers().values().any(|broker| broker.shutting_down && !broker.fenced)
        };
        let _ = self.offset.subscribe().wait_for(is_leaving).await;
    }

    /// Waits until the image contains the event at `offset`; tells whether that was so before `deadline`.
    pub async fn wait_for(&self, offset: i64, deadline: time::Instant) -> bool {
        time::timeout_at(deadline, self.reached(offset)).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taffrail_core::event::MetadataEvent;
    use taffrail_core::ids::Uuid;

    use super::*;

    #[tokio::test]
    async fn a_wait_ends_when_the_image_has_come_so_far_and_not_before() {
        let cache = MetadataCache::default();
        assert!(!cache.wait_for(0, time::monotonic()).await);
        let mut image = MetadataImage::default();
        image.apply(&MetadataEvent::ClusterCreated { cluster_id: Uuid([7; 16]) }).unwrap();
        cache.publish(Arc::new(image));
        assert!(cache.wait_for(0, time::monotonic() + Duration::from_secs(5)).await);
        assert_eq!(cache.image().cluster_id(), Some(Uuid([7; 16])));
    }
}
