//! DescribeConfigs: every known setting of a topic or of this broker, its value, and where that comes from.

use taffrail_core::config::{BrokerLayers, Described, Source, describe_broker, describe_topic};
use taffrail_core::control::{ControlError, Outcome};
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::ConfigResource;
use taffrail_core::topic_name;
use taffrail_protocol::message::describe_configs_request::DescribeConfigsResource;
use taffrail_protocol::message::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use taffrail_protocol::message::{DescribeConfigsRequest, DescribeConfigsResponse};

use super::{broker_loggers, wire};
use crate::broker::Broker;
use crate::client_info::ClientInfo;

/// Kafka's kinds of resources (`ConfigResource.Type`).
pub(super) mod kind {
    pub(crate) const TOPIC: i8 = 2;
    pub(crate) const BROKER: i8 = 4;
    pub(crate) const BROKER_LOGGER: i8 = 8;
    pub(crate) const CLIENT_METRICS: i8 = 16;
    pub(crate) const GROUP: i8 = 32;
    pub(crate) const ALL: [i8; 5] = [TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP];
}

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: DescribeConfigsRequest,
    _version: i16,
) -> DescribeConfigsResponse {
    let unknown = request.resources.iter().find(|resource| !kind::ALL.contains(&resource.resource_type));
    // Kafka refuses the whole request for one resource of a kind that it does not know.
    let refusal = unknown.map(|resource| {
        let text = format!("Unexpected resource type UNKNOWN for resource {}", &*resource.resource_name);
        ControlError::new(ErrorCode::InvalidRequest, text)
    });
    let describe = |resource: &DescribeConfigsResource| {
        let described = match &refusal {
            Some(error) => Err(error.clone()),
            None => describe(broker, resource, &request),
        };
        let (code, message) = wire::outcome(&described);
        let asked = resource.configuration_keys.as_deref().unwrap_or_default();
        let wanted = |it: &DescribeConfigsResourceResult| asked.is_empty() || asked.contains(&it.name);
        let configs = described.unwrap_or_default().into_iter().filter(wanted);
        DescribeConfigsResult::default()
            .with_error_code(code)
            .with_error_message(message)
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone())
            .with_configs(configs.collect())
    };
    DescribeConfigsResponse::default().with_results(request.resources.iter().map(describe).collect())
}

fn describe(
    broker: &Broker,
    resource: &DescribeConfigsResource,
    request: &DescribeConfigsRequest,
) -> Outcome<Vec<DescribeConfigsResourceResult>> {
    if resource.resource_type == kind::BROKER_LOGGER {
        return broker_loggers::describe(broker, &resource.resource_name);
    }
    let mut entries: Vec<_> = described(broker, resource)?.into_iter().map(|it| entry(it, request)).collect();
    if resource.resource_type == kind::BROKER {
        let layers = broker.layers.load();
        let all = layers.custom().into_iter();
        // The defaults of all brokers know nothing of one broker.
        let of_all = |source: &Source| !resource.resource_name.is_empty() || *source == Source::DynamicDefault;
        let named = all.map(|(name, sources)| (name, sources.into_iter().filter(of_all).collect::<Vec<_>>()));
        entries.extend(named.filter_map(|(name, sources)| custom_entry(name, &sources, request)));
    }
    Ok(entries)
}

fn described(broker: &Broker, resource: &DescribeConfigsResource) -> Outcome<Vec<Described>> {
    let name = &*resource.resource_name;
    let layers = broker.layers.load();
    match resource.resource_type {
        kind::TOPIC => {
            topic_name::validate(name)
                .map_err(|error| ControlError::new(ErrorCode::InvalidTopicException, error.to_string()))?;
            let image = broker.metadata.image();
            let topic = image.topic(name).ok_or_else(|| ControlError::bare(ErrorCode::UnknownTopicOrPartition))?;
            let own = image.overrides(&ConfigResource::topic(std::sync::Arc::clone(&topic.name)));
            Ok(describe_topic(own.map_or(&Default::default(), |own| &**own), &layers).collect())
        }
        kind::BROKER if name.is_empty() => {
            let defaults = BrokerLayers { dynamic_default: layers.dynamic_default.clone(), ..BrokerLayers::default() };
            let set = |it: &Described| defaults.dynamic_default.contains_key(it.setting.name);
            let mut described: Vec<Described> = describe_broker(&defaults).filter(set).collect();
            for it in &mut described {
                it.synonyms.retain(|synonym| synonym.source == Source::DynamicDefault);
            }
            Ok(described)
        }
        kind::BROKER => {
            check_node_id(
                broker,
                name,
                "Broker id",
                "Unexpected broker id, expected {} or empty string, but received",
            )?;
            Ok(describe_broker(&layers).collect())
        }
        // Metrics of clients and new groups have no settings, because they are not there.
        _ => Ok(Vec::new()),
    }
}

/// Refuses what is not this broker's id. `subject` is what the error calls it; `text`, with `{}` where our id belongs, goes
/// before an id that is another broker's.
pub(super) fn check_node_id(broker: &Broker, name: &str, subject: &str, text: &str) -> Outcome<()> {
    let refused = |text| Err(ControlError::new(ErrorCode::InvalidRequest, text));
    match name.parse::<i32>() {
        Ok(id) if id == broker.id.0 => Ok(()),
        Ok(_) => refused(format!("{} {name}", text.replace("{}", &broker.id.to_string()))),
        Err(_) => refused(format!("{subject} must be an integer, but it is: {name}")),
    }
}

/// A setting of somebody else's: as in Kafka, nothing is known of it, so that its value is not shown.
fn custom_entry(
    name: &str,
    sources: &[Source],
    request: &DescribeConfigsRequest,
) -> Option<DescribeConfigsResourceResult> {
    let source = *sources.first()? as i8;
    let synonym =
        |source: &Source| DescribeConfigsSynonym::default().with_name(wire::text(name)).with_source(*source as i8);
    let synonyms = if request.include_synonyms { sources.iter().map(synonym).collect() } else { Vec::new() };
    let entry = DescribeConfigsResourceResult::default().with_name(wire::text(name)).with_value(None);
    Some(entry.with_read_only(true).with_config_source(source).with_is_sensitive(true).with_synonyms(synonyms))
}

fn entry(described: Described, request: &DescribeConfigsRequest) -> DescribeConfigsResourceResult {
    let Described { setting, value, source, synonyms } = described;
    let synonym = |synonym: &taffrail_core::config::SynonymValue| {
        DescribeConfigsSynonym::default()
            .with_name(wire::text(synonym.name))
            .with_value(synonym.value.as_deref().map(wire::text))
            .with_source(synonym.source as i8)
    };
    let synonyms = if request.include_synonyms { synonyms.iter().map(synonym).collect() } else { Vec::new() };
    let documentation = request.include_documentation.then(|| wire::text(setting.doc));
    let read_only = setting.scope == taffrail_core::config::Scope::Broker && setting.read_only();
    DescribeConfigsResourceResult::default()
        .with_name(wire::text(setting.name))
        .with_value(value.as_deref().map(wire::text))
        .with_read_only(read_only)
        .with_config_source(source as i8)
        .with_is_sensitive(setting.sensitive())
        .with_synonyms(synonyms)
        .with_config_type(setting.kind as i8)
        .with_documentation(documentation)
}
