//! AlterConfigs: what it does not name goes back to its default.

use taffrail_core::control::{ConfigAlteration, ConfigChanges, Outcome};
use taffrail_protocol::message::alter_configs_request::AlterConfigsResource;
use taffrail_protocol::message::alter_configs_response::AlterConfigsResourceResponse;
use taffrail_protocol::message::{AlterConfigsRequest, AlterConfigsResponse};

use super::incremental_alter_configs::{alter, config_resource};
use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: AlterConfigsRequest,
    _version: i16,
) -> AlterConfigsResponse {
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
    AlterConfigsResponse::default().with_responses(request.resources.iter().zip(outcomes).map(entry).collect())
}

fn alteration(broker: &Broker, resource: &AlterConfigsResource) -> Outcome<ConfigAlteration> {
    let settings = resource.configs.iter();
    let settings = settings.map(|config| (wire::shared(&config.name), config.value.as_ref().map(wire::shared)));
    Ok(ConfigAlteration {
        resource: config_resource(broker, resource.resource_type, wire::shared(&resource.resource_name))?,
        changes: ConfigChanges::Replace(settings.collect()),
    })
}
