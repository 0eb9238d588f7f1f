//! Producer ids: each block goes to one broker, once.

use super::draft::Draft;
use super::{BrokerIdentity, ControlError, ProducerIdBlock, brokers};
use crate::errors::ErrorCode;
use crate::event::MetadataEvent;

/// How many ids a block has (Kafka's `PRODUCER_ID_BLOCK_SIZE`): one trip to the controller for so many new producers.
pub const PRODUCER_ID_BLOCK: i32 = 1_000;

pub(super) fn allocate(draft: &mut Draft, broker: BrokerIdentity) -> Result<ProducerIdBlock, ControlError> {
    brokers::check_identity(draft, broker)?;
    let first = draft.image().next_producer_id();
    let next = first.checked_add(i64::from(PRODUCER_ID_BLOCK)).ok_or_else(|| {
        ControlError::new(
            ErrorCode::UnknownServerError,
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
        )
    })?;
    draft.emit(MetadataEvent::ProducerIdsAllocated { broker: broker.id, next });
    Ok(ProducerIdBlock { first, count: PRODUCER_ID_BLOCK })
}
