//! Follows the metadata log: every event that the controllers commit reaches the broker, in order, once.

use std::sync::Arc;
use std::time::Duration;

use taffrail_core::image::{ApplyError, MetadataImage};
use taffrail_protocol::rpc::{CallError, Update};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time;

use crate::broker::Broker;
use crate::controller_handle::ControllerHandle;

/// Pause before a broken stream is asked for again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);

/// Why a stream of metadata ended.
#[derive(Debug, thiserror::Error)]
enum StreamEnd {
    #[error("the controller closed it")]
    Closed,
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("it went on at offset {found} where {expected} was due")]
    Gap { expected: i64, found: i64 },
}

/// Follows the controllers until `shutdown`, and has `broker` act on what they commit. One such task runs for a broker.
pub async fn follow_metadata(controllers: &ControllerHandle, broker: &Broker, shutdown: &Shutdown) {
    let mut image = MetadataImage::default();
    loop {
        let end = tokio::select! {
            end = follow(controllers, broker, &mut image) => end,
            () = shutdown.triggered() => return,
        };
        match end {
            StreamEnd::Closed | StreamEnd::Call(_) => {
                tracing::info!(offset = image.offset(), reason = %end, "the stream of metadata ended; asking again");
            }
            StreamEnd::Apply(_) | StreamEnd::Gap { .. } => {
                // What was applied is not what the controllers have: only a snapshot helps.
                tracing::error!(offset = image.offset(), reason = %end, "the metadata do not fit; starting from a snapshot");
                image = MetadataImage::default();
            }
        }
        tokio::select! {
            () = time::sleep(RECONNECT_PAUSE) => {}
            () = shutdown.triggered() => return,
        }
    }
}

async fn follow(controllers: &ControllerHandle, broker: &Broker, image: &mut MetadataImage) -> StreamEnd {
    match follow_stream(controllers, broker, image).await {
        Ok(()) => StreamEnd::Closed,
        Err(end) => end,
    }
}

async fn follow_stream(
    controllers: &ControllerHandle,
    broker: &Broker,
    image: &mut MetadataImage,
) -> Result<(), StreamEnd> {
    let opened = controllers.follow(image.offset() + 1, image.cluster_id()).await;
    let mut stream = opened.map_err(|error| CallError::Refused { error, active: None })?;
    while let Some(update) = stream.next().await? {
        match update {
            Update::Snapshot(snapshot) => {
                *image = snapshot;
                broker.follow(Arc::new(image.clone()), None).await;
            }
            Update::Events(batch) => {
                let expected = image.offset() + 1;
                if batch.base_offset != expected {
                    return Err(StreamEnd::Gap { expected, found: batch.base_offset });
                }
                for event in &batch.events {
                    image.apply(event)?;
                }
                broker.follow(Arc::new(image.clone()), Some(&batch.events)).await;
            }
        }
    }
    Ok(())
}
