//! A decision in the making.

use super::{Decision, Reply};
use crate::event::MetadataEvent;
use crate::image::MetadataImage;

/// Collects events and shows the image as it would be with them, so that later items of a command see earlier ones.
pub(super) struct Draft {
    image: MetadataImage,
    events: Vec<MetadataEvent>,
}

impl Draft {
    pub(super) fn new(image: &MetadataImage) -> Self {
        Self { image: image.clone(), events: Vec::new() }
    }

    /// The image with all events so far.
    pub(super) fn image(&self) -> &MetadataImage {
        &self.image
    }

    /// Adds an event, which must fit: it was made from [`Draft::image`].
    pub(super) fn emit(&mut self, event: MetadataEvent) {
        let applied = self.image.apply(&event);
        assert!(applied.is_ok(), "a decision fits the image it was made from: {applied:?}");
        self.events.push(event);
    }

    /// The decision; without events unless `keep`.
    pub(super) fn decided(self, reply: Reply, keep: bool) -> Decision {
        Decision { events: if keep { self.events } else { Vec::new() }, reply }
    }
}
