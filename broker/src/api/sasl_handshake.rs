//! SaslHandshake: no mechanism is enabled, which Kafka says like this on a plaintext listener.

use taffrail_core::errors::ErrorCode;
use taffrail_protocol::message::{SaslHandshakeRequest, SaslHandshakeResponse};

use crate::broker::Broker;
use crate::client_info::ClientInfo;

pub(crate) async fn handle(
    _broker: &Broker,
    _client: &ClientInfo,
    _request: SaslHandshakeRequest,
    _version: i16,
) -> SaslHandshakeResponse {
    SaslHandshakeResponse::default().with_error_code(ErrorCode::IllegalSaslState.code())
}
