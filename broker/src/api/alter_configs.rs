//! AlterConfigs: what it does not name goes back to its default.

use taffrail_core::control::{ConfigAlteration, ConfigChanges, Outcome};
use taffrail_protocol::message::alter_configs_request::AlterConfigsResource;
use taffrail_protocol::message::alter_configs_response::AlterConfigsResourceResponse;
use taffrail_protocol::message::{AlterConfigsRequest, AlterConfigsResponse};

use super::config_changes::{answers, carry_out, config_resource};
use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: AlterConfigsRequest,
    _version: i16,
) -> AlterConfigsResponse {
    let planned = request.resources.iter().map(|it| alteration(broker, it).into()).collect();
    let outcomes = carry_out(broker, planned, request.validate_only).await;
    AlterConfigsResponse::default().with_responses(answers!(AlterConfigsResourceResponse, request.resources, outcomes))
}

fn alteration(broker: &Broker, resource: &AlterConfigsResource) -> Outcome<ConfigAlteration> {
    let settings = resource.configs.iter();
    let settings = settings.map(|config| (wire::shared(&config.name), config.value.as_ref().map(wire::shared)));
    Ok(ConfigAlteration {
        resource: config_resource(broker, resource.resource_type, wire::shared(&resource.resource_name))?,
        changes: ConfigChanges::Replace(settings.collect()),
    })
}
