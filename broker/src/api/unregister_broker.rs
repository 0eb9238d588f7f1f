//! UnregisterBroker: a broker will never come back. Decided by the controller.

use taffrail_core::control::{Command, ControlError, Reply};
use taffrail_core::ids::BrokerId;
use taffrail_protocol::message::{UnregisterBrokerRequest, UnregisterBrokerResponse};

use super::wire;
use crate::broker::{self, Broker};
use crate::client_info::ClientInfo;

/// How long the controller may take: the request does not say.
const WAIT_MS: i32 = 30_000;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: UnregisterBrokerRequest,
    _version: i16,
) -> UnregisterBrokerResponse {
    let command = Command::UnregisterBroker { broker: BrokerId(request.broker_id.0) };
    let outcome: Result<(), ControlError> = match broker.propose(command, wire::deadline(WAIT_MS)).await {
        Ok(Reply::Done) => Ok(()),
        other => Err(broker::refusal(other)),
    };
    let (code, message) = wire::outcome(&outcome);
    UnregisterBrokerResponse::default().with_error_code(code).with_error_message(message)
}
