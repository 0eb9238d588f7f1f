//! DescribeCluster: the brokers, for administrative clients (KIP-700, KIP-919, KIP-1073).

use taffrail_core::errors::ErrorCode;
use taffrail_protocol::message::describe_cluster_response::DescribeClusterBroker;
use taffrail_protocol::message::{BrokerId as WireBrokerId, DescribeClusterRequest, DescribeClusterResponse};

use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

const ENDPOINT_BROKERS: i8 = 1;
const ENDPOINT_CONTROLLERS: i8 = 2;

pub(crate) async fn handle(
    broker: &Broker,
    client: &ClientInfo,
    request: DescribeClusterRequest,
    _version: i16,
) -> DescribeClusterResponse {
    let error = match request.endpoint_type {
        ENDPOINT_BROKERS => None,
        ENDPOINT_CONTROLLERS => {
            let text =
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER";
            Some((ErrorCode::MismatchedEndpointType, text.to_owned()))
        }
        other => Some((ErrorCode::UnsupportedEndpointType, format!("Unsupported endpoint type {other}"))),
    };
    if let Some((code, message)) = error {
        return DescribeClusterResponse::default()
            .with_error_code(code.code())
            .with_error_message(Some(wire::text(&message)));
    }
    let image = broker.metadata.image();
    let listed = image.brokers().values().filter(|broker| !broker.fenced || request.include_fenced_brokers);
    let entry = |broker: &std::sync::Arc<taffrail_core::event::BrokerRegistration>| {
        let endpoint = wire::endpoint(broker, &client.listener)?;
        let entry = DescribeClusterBroker::default()
            .with_broker_id(WireBrokerId(broker.id.0))
            .with_host(wire::text(&endpoint.host))
            .with_port(i32::from(endpoint.port))
            .with_rack(broker.rack.as_deref().map(wire::text))
            .with_is_fenced(broker.fenced);
        Some(entry)
    };
    let operations =
        if request.include_cluster_authorized_operations { wire::CLUSTER_OPERATIONS } else { wire::NO_OPERATIONS };
    DescribeClusterResponse::default()
        .with_endpoint_type(ENDPOINT_BROKERS)
        .with_cluster_id(wire::text(&image.cluster_id().unwrap_or_default().to_string()))
        .with_controller_id(wire::controller_id(&image, broker.id))
        .with_brokers(listed.filter_map(entry).collect())
        .with_cluster_authorized_operations(operations)
}
