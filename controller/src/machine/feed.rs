//! What has been applied, for whoever follows.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::persisted::metadata::EventBatch;
use tokio::sync::watch;

/// Events kept for followers that are a little behind; who is further behind gets a snapshot, which is cheaper then.
const KEPT_EVENTS_MAX: usize = 65_536;

/// The newest image, and the batches that led to it.
#[derive(Debug)]
pub(crate) struct Feed {
    state: Mutex<State>,
    offset: watch::Sender<i64>,
}

#[derive(Debug, Default)]
struct State {
    image: Arc<MetadataImage>,
    batches: VecDeque<Arc<EventBatch>>,
    events: usize,
}

/// What a follower gets next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Batches of events, the first of which starts where the follower is.
    Batches(Vec<Arc<EventBatch>>),
    /// Everything anew.
    Snapshot(Arc<MetadataImage>),
    /// Nothing yet.
    Wait,
}

impl Default for Feed {
    fn default() -> Self {
        let (offset, _) = watch::channel(-1);
        Self { state: Mutex::default(), offset }
    }
}

impl Feed {
    /// The newest image.
    pub(crate) fn image(&self) -> Arc<MetadataImage> {
        Arc::clone(&self.state.lock().image)
    }

    /// Tells of every new offset.
    pub(crate) fn subscribe(&self) -> watch::Receiver<i64> {
        self.offset.subscribe()
    }

    /// Makes `image` the newest; `batches` led to it from the one before.
    pub(super) fn publish(&self, image: MetadataImage, batches: Vec<EventBatch>) {
        let offset = image.offset();
        {
            let mut state = self.state.lock();
            state.image = Arc::new(image);
            for batch in batches {
                state.events += batch.events.len();
                state.batches.push_back(Arc::new(batch));
            }
            while state.events > KEPT_EVENTS_MAX && state.batches.len() > 1 {
                let oldest = state.batches.pop_front();
                state.events -= oldest.map_or(0, |batch| batch.events.len());
            }
        }
        self.offset.send_replace(offset);
    }

    /// Makes `image` the newest, with nothing that leads to it.
    pub(super) fn reset(&self, image: MetadataImage) {
        let offset = image.offset();
        *self.state.lock() = State { image: Arc::new(image), ..State::default() };
        self.offset.send_replace(offset);
    }

    /// What a follower gets that wants the event at `offset` next: at most `batches_max` batches.
    pub(crate) fn next(&self, offset: i64, batches_max: usize) -> Step {
        let state = self.state.lock();
        if offset > state.image.offset() {
            // A follower that is ahead has heard it from a controller that is ahead of this one.
            return Step::Wait;
        }
        let at = state.batches.partition_point(|batch| batch.base_offset < offset);
        match state.batches.get(at) {
            Some(batch) if batch.base_offset == offset => {
                Step::Batches(state.batches.iter().skip(at).take(batches_max).cloned().collect())
            }
            // Gone, or in the middle of a batch, which nobody who follows can be.
            _ => Step::Snapshot(Arc::clone(&state.image)),
        }
    }
}

#[cfg(test)]
mod tests {
    use taffrail_core::event::MetadataEvent;

    use super::*;

    fn batch(base_offset: i64, events: usize) -> EventBatch {
        let event = MetadataEvent::FeatureLevelChanged { name: "f".into(), level: 1 };
        EventBatch { base_offset, events: vec![event; events] }
    }

    fn image(offset: i64) -> MetadataImage {
        MetadataImage::from_snapshot(offset, []).unwrap()
    }

    #[test]
    fn a_follower_gets_batches_while_they_are_kept_and_else_a_snapshot() {
        let feed = Feed::default();
        assert!(matches!(feed.next(0, 8), Step::Wait));
        feed.publish(image(2), vec![batch(0, 3)]);
        feed.publish(image(4), vec![batch(3, 1), batch(4, 1)]);
        let bases = |step: Step| match step {
            Step::Batches(batches) => Some(batches.iter().map(|batch| batch.base_offset).collect::<Vec<_>>()),
            _ => None,
        };
        assert_eq!(bases(feed.next(0, 8)), Some(vec![0, 3, 4]));
        assert_eq!(bases(feed.next(3, 1)), Some(vec![3]));
        assert!(matches!(feed.next(1, 8), Step::Snapshot(_)), "in the middle of a batch");
        assert!(matches!(feed.next(5, 8), Step::Wait));
        feed.publish(image(4 + KEPT_EVENTS_MAX as i64), vec![batch(5, KEPT_EVENTS_MAX)]);
        assert!(matches!(feed.next(3, 8), Step::Snapshot(_)), "gone");
        assert_eq!(bases(feed.next(5, 8)), Some(vec![5]));
        feed.reset(image(9));
        assert!(matches!(feed.next(5, 8), Step::Snapshot(image) if image.offset() == 9));
    }
}
