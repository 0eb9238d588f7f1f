//! IncrementalAlterConfigs: changes only the settings that it names (KIP-339).

use std::sync::Arc;

use taffrail_core::control::{
    AlterConfigs, Command, ConfigAlteration, ConfigChanges, ConfigOp, ConfigOperation, ControlError, Outcome, Reply,
};
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::{ConfigResource, ResourceKind};
use taffrail_protocol::message::incremental_alter_configs_request::AlterConfigsResource;
use taffrail_protocol::message::incremental_alter_configs_response::AlterConfigsResourceResponse;
use taffrail_protocol::message::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

use super::describe_configs::check_broker_id;
use super::wire;
use crate::broker::{self, Broker};
use crate::client_info::ClientInfo;

/// How long the answer waits for the change to count on this broker. Kafka's request has no timeout of its own.
pub(super) const WAIT_MS: i32 = 30_000;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: IncrementalAlterConfigsRequest,
    _version: i16,
) -> IncrementalAlterConfigsResponse {
    let alterations: Vec<Outcome<ConfigAlteration>> =
        request.resources.iter().map(|it| alteration(broker, it)).collect();
    let outcomes = alter(broker, alterations, request.validate_only).await;
    let entry = |(resource, outcome): (&AlterConfigsResource, Outcome<()>)| {
        let (code, message) = wire::outcome(&outcome);
        AlterConfigsResourceResponse::default()
            .with_error_code(code)
            .with_error_message(message)
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone())
    };
    let responses = request.resources.iter().zip(outcomes).map(entry).collect();
    IncrementalAlterConfigsResponse::default().with_responses(responses)
}

fn alteration(broker: &Broker, resource: &AlterConfigsResource) -> Outcome<ConfigAlteration> {
    let operation = |config: &taffrail_protocol::message::incremental_alter_configs_request::AlterableConfig| {
        let op = ConfigOp::from_code(config.config_operation).ok_or_else(|| {
            let text = format!("Unknown operation type {}", config.config_operation);
            ControlError::new(ErrorCode::UnknownServerError, text)
        })?;
        Ok(ConfigOperation { name: wire::shared(&config.name), op, value: config.value.as_ref().map(wire::shared) })
    };
    let operations = resource.configs.iter().map(operation).collect::<Outcome<Vec<_>>>()?;
    Ok(ConfigAlteration {
        resource: config_resource(broker, resource.resource_type, wire::shared(&resource.resource_name))?,
        changes: ConfigChanges::Incremental(operations),
    })
}

/// The resource that a request names, if its settings are kept in the metadata and this broker may be asked for them.
pub(super) fn config_resource(broker: &Broker, kind: i8, name: Arc<str>) -> Outcome<ConfigResource> {
    let kind = ResourceKind::from_code(kind).ok_or_else(|| {
        ControlError::new(ErrorCode::InvalidRequest, format!("Unexpected resource type {kind} for resource {name}"))
    })?;
    // As in Kafka, settings of a single broker are changed at that broker.
    if kind == ResourceKind::Broker && !name.is_empty() {
        check_broker_id(broker, &name, "expected {}, but received")?;
    }
    Ok(ConfigResource { kind, name })
}

/// Has the controller make those changes that can be asked for at all; gives an outcome for each, in their order.
pub(super) async fn alter(
    broker: &Broker,
    alterations: Vec<Outcome<ConfigAlteration>>,
    validate_only: bool,
) -> Vec<Outcome<()>> {
    let resources: Vec<ConfigAlteration> = alterations.iter().filter_map(|it| it.as_ref().ok().cloned()).collect();
    let count = resources.len();
    let mut decided = if resources.is_empty() {
        Vec::new()
    } else {
        let command = Command::AlterConfigs(AlterConfigs { resources, validate_only });
        match broker.propose(command, wire::deadline(WAIT_MS)).await {
            Ok(Reply::ConfigsAltered(altered)) => altered.into_iter().map(|it| it.outcome).collect(),
            other => vec![Err(broker::refusal(other)); count],
        }
    }
    .into_iter();
    let next = |alteration: Outcome<ConfigAlteration>| match alteration {
        Ok(_) => decided.next().unwrap_or_else(|| Err(ControlError::plain(ErrorCode::UnknownServerError))),
        Err(error) => Err(error),
    };
    alterations.into_iter().map(next).collect()
}
