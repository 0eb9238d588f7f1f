//! FindCoordinator: which broker has a group.

use std::sync::Arc;

use taffrail_core::errors::ErrorCode;
use taffrail_core::topic_name;
use taffrail_protocol::message::find_coordinator_response::Coordinator;
use taffrail_protocol::message::{BrokerId as WireBrokerId, FindCoordinatorRequest, FindCoordinatorResponse, StrBytes};

use super::wire;
use crate::auto_topics;
use crate::broker::Broker;
use crate::client_info::ClientInfo;
use crate::coordinator::partition_of;

/// The first version that asks for several keys at once (KIP-699).
const MANY_KEYS_SINCE: i16 = 4;
/// What a key stands for.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

/// A broker that clients can reach.
struct Node {
    id: i32,
    host: StrBytes,
    port: i32,
}

pub(crate) async fn handle(
    broker: &Broker,
    client: &ClientInfo,
    request: FindCoordinatorRequest,
    version: i16,
) -> FindCoordinatorResponse {
    let error = match request.key_type {
        GROUP => ensure_topic(broker).await,
        // There are no transactions: an error that no client repeats the request for.
        TRANSACTION => Some(ErrorCode::TransactionalIdAuthorizationFailed),
        _ => Some(ErrorCode::InvalidRequest),
    };
    let find = |key: &StrBytes| match error {
        Some(error) => Err(error),
        None => coordinator_of(broker, client, key),
    };
    let response = FindCoordinatorResponse::default();
    if version >= MANY_KEYS_SINCE {
        let entry = |key: &StrBytes| {
            let (error, node) = answer(find(key));
            Coordinator::default()
                .with_key(key.clone())
                .with_error_code(error.code())
                .with_error_message(message(error))
                .with_node_id(WireBrokerId(node.id))
                .with_host(node.host)
                .with_port(node.port)
        };
        return response.with_coordinators(request.coordinator_keys.iter().map(entry).collect());
    }
    let (error, node) = answer(find(&request.key));
    response
        .with_error_code(error.code())
        .with_error_message(message(error))
        .with_node_id(WireBrokerId(node.id))
        .with_host(node.host)
        .with_port(node.port)
}

fn message(error: ErrorCode) -> Option<StrBytes> {
    (!error.is_none()).then(|| wire::text(error.message()))
}

fn answer(found: Result<Node, ErrorCode>) -> (ErrorCode, Node) {
    match found {
        Ok(node) => (ErrorCode::None, node),
        Err(error) => (error, Node { id: -1, host: StrBytes::default(), port: -1 }),
    }
}

/// Creates the offsets topic for the first group that is asked for.
async fn ensure_topic(broker: &Broker) -> Option<ErrorCode> {
    if broker.metadata.image().topic(topic_name::CONSUMER_OFFSETS).is_some() {
        return None;
    }
    let failed = auto_topics::create(broker, &[Arc::from(topic_name::CONSUMER_OFFSETS)]).await;
    (!failed.is_empty()).then_some(ErrorCode::CoordinatorNotAvailable)
}

fn coordinator_of(broker: &Broker, client: &ClientInfo, group_id: &str) -> Result<Node, ErrorCode> {
    let image = broker.metadata.image();
    let unavailable = ErrorCode::CoordinatorNotAvailable;
    let topic = image.topic(topic_name::CONSUMER_OFFSETS).ok_or(unavailable)?;
    let index = partition_of(group_id, topic.partition_count()).ok_or(unavailable)?;
    let leader = topic.partition(index).ok_or(unavailable)?.leader;
    if !image.is_active(leader) {
        return Err(unavailable);
    }
    let node = wire::node_endpoint(&image, leader, &client.listener).ok_or(unavailable)?;
    Ok(Node { id: node.node_id, host: node.host, port: node.port })
}
