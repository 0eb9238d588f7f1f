//! IncrementalAlterConfigs: changes only the settings that it names (KIP-339), and levels of loggers (KIP-412).

use taffrail_core::control::{ConfigAlteration, ConfigChanges, ConfigOp, ConfigOperation, ControlError, Outcome};
use taffrail_core::errors::ErrorCode;
use taffrail_protocol::message::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use taffrail_protocol::message::incremental_alter_configs_response::AlterConfigsResourceResponse;
use taffrail_protocol::message::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

use super::config_changes::{Planned, answers, carry_out, config_resource};
use super::describe_configs::kind;
use super::{broker_loggers, wire};
use crate::broker::Broker;
use crate::client_info::ClientInfo;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: IncrementalAlterConfigsRequest,
    _version: i16,
) -> IncrementalAlterConfigsResponse {
    let planned = request.resources.iter().map(|it| plan(broker, &request, it)).collect();
    let outcomes = carry_out(broker, planned, request.validate_only).await;
    IncrementalAlterConfigsResponse::default().with_responses(answers!(
        AlterConfigsResourceResponse,
        request.resources,
        outcomes
    ))
}

fn plan(broker: &Broker, request: &IncrementalAlterConfigsRequest, resource: &AlterConfigsResource) -> Planned {
    if resource.resource_type == kind::BROKER_LOGGER {
        return Planned::Settled(alter_loggers(broker, request, resource));
    }
    alteration(broker, resource).into()
}

fn alter_loggers(
    broker: &Broker,
    request: &IncrementalAlterConfigsRequest,
    resource: &AlterConfigsResource,
) -> Outcome<()> {
    let same = |it: &&AlterConfigsResource| {
        (it.resource_type, &it.resource_name) == (resource.resource_type, &resource.resource_name)
    };
    if request.resources.iter().filter(same).count() > 1 {
        return Err(ControlError::new(ErrorCode::InvalidRequest, "Each resource must appear at most once."));
    }
    let unknown = |code| {
        let text = format!("Unknown operation type {code} is not allowed for the BROKER_LOGGER resource");
        ControlError::new(ErrorCode::InvalidRequest, text)
    };
    let operations = operations(resource, unknown)?;
    broker_loggers::alter(broker, &resource.resource_name, &operations, request.validate_only)
}

fn alteration(broker: &Broker, resource: &AlterConfigsResource) -> Outcome<ConfigAlteration> {
    let unknown = |code| ControlError::new(ErrorCode::UnknownServerError, format!("Unknown operation type {code}"));
    let operations = operations(resource, unknown)?;
    Ok(ConfigAlteration {
        resource: config_resource(broker, resource.resource_type, wire::shared(&resource.resource_name))?,
        changes: ConfigChanges::Incremental(operations),
    })
}

/// What is asked for one resource; `unknown` says what is wrong with the code of an operation that there is not.
fn operations(resource: &AlterConfigsResource, unknown: fn(i8) -> ControlError) -> Outcome<Vec<ConfigOperation>> {
    let operation = |config: &AlterableConfig| {
        let op = ConfigOp::from_code(config.config_operation).ok_or_else(|| unknown(config.config_operation))?;
        Ok(ConfigOperation { name: wire::shared(&config.name), op, value: config.value.as_ref().map(wire::shared) })
    };
    resource.configs.iter().map(operation).collect()
}
