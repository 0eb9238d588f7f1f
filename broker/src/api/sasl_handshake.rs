//! SaslHandshake: clients are told what Kafka says on a plaintext listener, that no mechanism is enabled. There is one for
//! other brokers of the cluster, if that has a secret.

use taffrail_core::errors::ErrorCode;
use taffrail_protocol::message::{SaslHandshakeRequest, SaslHandshakeResponse};

use crate::broker::Broker;
use crate::client_info::ClientInfo;
use crate::introduction::MECHANISM;

pub(crate) async fn handle(
    broker: &Broker,
    client: &ClientInfo,
    request: SaslHandshakeRequest,
    _version: i16,
) -> SaslHandshakeResponse {
    if broker.cluster_secret().is_none() || *request.mechanism != *MECHANISM {
        return SaslHandshakeResponse::default().with_error_code(ErrorCode::IllegalSaslState.code());
    }
    client.introduction.begin();
    SaslHandshakeResponse::default().with_mechanisms(vec![MECHANISM.into()])
}
