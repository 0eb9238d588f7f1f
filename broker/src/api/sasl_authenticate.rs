//! SaslAuthenticate: what another broker of the cluster says to show that it is one.

use taffrail_core::errors::ErrorCode;
use taffrail_protocol::message::{SaslAuthenticateRequest, SaslAuthenticateResponse};

use crate::broker::Broker;
use crate::client_info::ClientInfo;
use crate::introduction::IntroductionError;

pub(crate) async fn handle(
    broker: &Broker,
    client: &ClientInfo,
    request: SaslAuthenticateRequest,
    _version: i16,
) -> SaslAuthenticateResponse {
    let answer = SaslAuthenticateResponse::default();
    let Some(secret) = broker.cluster_secret() else {
        // Kafka's words on a plaintext listener.
        let text = "SaslAuthenticate request received after successful authentication";
        let refused = answer.with_error_code(ErrorCode::IllegalSaslState.code());
        return refused.with_error_message(Some(text.into()));
    };
    match client.introduction.take(secret, &request.auth_bytes) {
        Ok(said) => answer.with_auth_bytes(said.into()),
        Err(error) => {
            tracing::warn!(address = %client.address, client_id = %client.client_id, %error, "not one of the cluster");
            let code = match error {
                IntroductionError::OutOfTurn => ErrorCode::IllegalSaslState,
                IntroductionError::Length { .. } | IntroductionError::Stranger => ErrorCode::SaslAuthenticationFailed,
            };
            answer.with_error_code(code.code()).with_error_message(Some(error.to_string().into()))
        }
    }
}
