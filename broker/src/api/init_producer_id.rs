//! InitProducerId for idempotent producers: a number that nobody else has.

use taffrail_core::control::{Command, ControlError, Reply};
use taffrail_core::errors::ErrorCode;
use taffrail_protocol::message::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};
use tokio::sync::Mutex;

use super::wire;
use crate::broker::{self, Broker};
use crate::client_info::ClientInfo;

/// How long a producer waits for its id when the controller has to be asked for more.
const ALLOCATE_WAIT_MS: i32 = 10_000;

/// The producer ids that this broker may hand out. Ids that are left at a restart are lost, never used twice.
#[derive(Default)]
pub(crate) struct ProducerIds {
    next: Mutex<std::ops::Range<i64>>,
}

impl ProducerIds {
    /// The next id; asks the controller for a block of them when there is none.
    async fn next(&self, broker: &Broker) -> Result<i64, ControlError> {
        // Held while the controller is asked: those behind want ids of the same block.
        let mut ids = self.next.lock().await;
        if ids.is_empty() {
            let command = Command::AllocateProducerIds(broker.identity());
            match broker.propose(command, wire::deadline(ALLOCATE_WAIT_MS)).await {
                Ok(Reply::ProducerIdsAllocated(block)) => *ids = block.first..block.first + i64::from(block.count),
                other => return Err(broker::refusal(other)),
            }
        }
        ids.next().ok_or_else(|| ControlError::plain(ErrorCode::CoordinatorNotAvailable))
    }
}

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: InitProducerIdRequest,
    _version: i16,
) -> InitProducerIdResponse {
    let refused = |error: ErrorCode| {
        InitProducerIdResponse::default()
            .with_error_code(error.code())
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1)
    };
    if let Some(error) = objection(&request) {
        return refused(error);
    }
    match broker.producer_ids.next(broker).await {
        Ok(id) => InitProducerIdResponse::default().with_producer_id(ProducerId(id)).with_producer_epoch(0),
        Err(error) => {
            tracing::warn!(%error, "no producer id could be allocated");
            // Kafka tells the client to come again while the controller gives no block.
            refused(ErrorCode::CoordinatorLoadInProgress)
        }
    }
}

/// What is wrong with a request, if anything.
fn objection(request: &InitProducerIdRequest) -> Option<ErrorCode> {
    let id_and_epoch = (*request.producer_id, request.producer_epoch);
    match (&request.transactional_id, id_and_epoch) {
        (Some(id), _) if id.is_empty() => Some(ErrorCode::InvalidRequest),
        // There are no transactions: an error that no client repeats the request for.
        (Some(_), _) => Some(ErrorCode::TransactionalIdAuthorizationFailed),
        (None, (-1, -1)) => None,
        (None, (-1, _) | (_, -1)) => Some(ErrorCode::InvalidRequest),
        (None, _) => None,
    }
}
