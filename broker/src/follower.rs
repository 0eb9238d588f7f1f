//! Follows the metadata log: every event that the controllers commit reaches the broker, in order, once.

use std::sync::Arc;
use std::time::Duration;

use taffrail_core::event::MetadataEvent;
use taffrail_core::image::{ApplyError, MetadataImage};
use taffrail_core::planted::{PlantedBug, is_planted};
use taffrail_protocol::rpc::{CallError, Update};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time;

use crate::broker::Broker;
use crate::controller_handle::ControllerHandle;

/// Pause before a broken stream is asked for again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);

/// How long a stream may give nothing although a controller has told of more.
const STALE_AFTER: Duration = Duration::from_secs(1);

/// Why a stream of metadata ended.
#[derive(Debug, thiserror::Error)]
enum StreamEnd {
    #[error("the controller closed it")]
    Closed,
    #[error("it is behind what the controllers have committed")]
    Stale,
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("it went on at offset {found} where {expected} was due")]
    Gap { expected: i64, found: i64 },
}

/// Follows the controllers until `shutdown`, and has `broker` act on what they commit. One such task runs for a broker.
///
/// What was committed before `caught_up_at`, the epoch of the broker's registration, is history: a topic in it may be
/// gone by now, and one that is missing in it may be there. Acting on that would set aside the partitions of every topic
/// that history has not told yet, so the broker sees the first image when history is over.
pub async fn follow_metadata(controllers: &ControllerHandle, broker: &Broker, caught_up_at: i64, shutdown: &Shutdown) {
    let mut follower = Follower { broker, image: MetadataImage::default(), caught_up_at, behind: true };
    loop {
        let end = tokio::select! {
            end = follower.follow(controllers) => end,
            () = shutdown.triggered() => return,
        };
        let offset = follower.image.offset();
        match end {
            StreamEnd::Closed | StreamEnd::Stale | StreamEnd::Call(_) => {
                tracing::info!(offset, reason = %end, "the stream of metadata ended; asking again");
            }
            StreamEnd::Apply(_) | StreamEnd::Gap { .. } => {
                // What was applied is not what the controllers have: only all of it anew helps.
                tracing::error!(offset, reason = %end, "the metadata do not fit; starting anew");
                follower.start_anew();
            }
        }
        tokio::select! {
            () = time::sleep(RECONNECT_PAUSE) => {}
            () = shutdown.triggered() => return,
        }
    }
}

/// The image on its way from the controllers to the broker.
struct Follower<'a> {
    broker: &'a Broker,
    image: MetadataImage,
    /// Offset of the first image that the broker may see.
    caught_up_at: i64,
    /// Whether the broker has not seen what `image` was made from.
    behind: bool,
}

impl Follower<'_> {
    fn start_anew(&mut self) {
        self.caught_up_at = self.caught_up_at.max(self.image.offset());
        self.image = MetadataImage::default();
        self.behind = true;
    }

    async fn follow(&mut self, controllers: &ControllerHandle) -> StreamEnd {
        match self.follow_stream(controllers).await {
            Ok(()) => StreamEnd::Closed,
            Err(end) => end,
        }
    }

    async fn follow_stream(&mut self, controllers: &ControllerHandle) -> Result<(), StreamEnd> {
        let opened = controllers.follow(self.image.offset() + 1, self.image.cluster_id()).await;
        let mut stream = opened.map_err(|error| CallError::Refused { error, active: None })?;
        loop {
            // Here, because replicas are changed by one task only.
            let update = tokio::select! {
                update = stream.next() => update?,
                // Its controller may have stopped, or be cut off; the connection would show that only much later.
                () = stale(controllers, self.image.offset()) => return Err(StreamEnd::Stale),
                () = self.broker.retry_due() => {
                    self.broker.retry().await;
                    continue;
                }
            };
            let Some(update) = update else { return Ok(()) };
            match update {
                Update::Snapshot(snapshot) => {
                    self.image = snapshot;
                    self.behind = true;
                    self.act(&[]).await;
                }
                Update::Events(batch) => {
                    let expected = self.image.offset() + 1;
                    if batch.base_offset != expected {
                        return Err(StreamEnd::Gap { expected, found: batch.base_offset });
                    }
                    for event in &batch.events {
                        self.image.apply(event)?;
                    }
                    let is_missed = is_planted(PlantedBug::ReplicasNotTold)
                        && matches!(batch.events[..], [MetadataEvent::PartitionChanged { .. }, ..]);
                    self.act(if is_missed { &[] } else { &batch.events }).await;
                }
            }
        }
    }

    /// Has the broker act on the image, which `events` made from the one before; not while it is history.
    async fn act(&mut self, events: &[MetadataEvent]) {
        if self.behind && self.image.offset() < self.caught_up_at {
            return;
        }
        let events = if self.behind { None } else { Some(events) };
        self.broker.follow(Arc::new(self.image.clone()), events).await;
        self.behind = false;
    }
}

/// Waits until a controller has told of metadata past `offset`, and a stream has had the time to bring them.
async fn stale(controllers: &ControllerHandle, offset: i64) {
    controllers.is_past(offset).await;
    time::sleep(STALE_AFTER).await;
}
