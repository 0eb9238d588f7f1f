//! Changing settings.
//!
//! The metadata keep what was set explicitly, also when it equals the default: such a value does not follow the default
//! when that changes. Each resource is changed whole or not at all; settings are checked with all that the resource has,
//! because some exclude each other.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::draft::Draft;
use super::topic_rules::{MIN_IN_SYNC, UNCLEAN};
use super::{
    AlterConfigs, AlteredResource, ConfigChanges, ConfigOp, ConfigOperation, ControlError, Inputs, Outcome, elections,
};
use crate::collections::HashMap;
use crate::config::{self, BrokerConfig, BrokerLayers, Kind, Overrides, Scope, Update, VALUE_BYTES_MAX};
use crate::errors::ErrorCode;
use crate::event::{ConfigResource, MetadataEvent, ResourceKind};
use crate::ids::BrokerId;
use crate::image::MetadataImage;
use crate::topic_name;

/// Names of no setting of ours that one broker, or all of them, may be given. Kafka has no limit.
const CUSTOM_SETTINGS_MAX: usize = 1_000;

/// Longest name of such a setting.
const CUSTOM_NAME_BYTES_MAX: usize = 1_024;

/// The explicit settings of a topic that is about to be created, as events.
pub(super) fn for_new_topic(
    topic: &Arc<str>,
    configs: &[(Arc<str>, Option<Arc<str>>)],
    layers: &BrokerLayers,
) -> Outcome<Vec<MetadataEvent>> {
    let nulls: Vec<&str> = configs.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| &**name).collect();
    if !nulls.is_empty() {
        let text = format!("Null value not supported for topic configs: {}", nulls.join(","));
        return Err(ControlError::new(ErrorCode::InvalidConfig, text));
    }
    let mut overrides = Overrides::new();
    for (name, value) in configs {
        overrides.insert(name.to_string(), value.as_deref().unwrap_or_default().to_owned());
    }
    let resource = ConfigResource::topic(Arc::clone(topic));
    check_topic(&overrides, layers)?;
    Ok(difference(&resource, &Overrides::new(), &overrides))
}

pub(super) fn alter(draft: &mut Draft, request: &AlterConfigs, inputs: &Inputs<'_>) -> Vec<AlteredResource> {
    let layers = draft.image().broker_layers(None, inputs.static_config);
    let mut times: HashMap<&ConfigResource, usize> = HashMap::default();
    for alteration in &request.resources {
        *times.entry(&alteration.resource).or_default() += 1;
    }
    let mut results = Vec::with_capacity(request.resources.len());
    for alteration in &request.resources {
        let resource = &alteration.resource;
        let outcome = if times.get(resource) == Some(&1) {
            changed(draft.image(), &layers, resource, &alteration.changes)
        } else {
            Err(ControlError::new(ErrorCode::InvalidRequest, "Each resource must appear at most once."))
        };
        let outcome = outcome.map(|events| {
            let concerns_leaders = events.iter().any(sets_leader_rules);
            events.into_iter().for_each(|event| draft.emit(event));
            if concerns_leaders {
                reconsider_leaders(draft, resource, inputs);
            }
        });
        results.push(AlteredResource { resource: resource.clone(), outcome });
    }
    results
}

/// Whether a changed setting decides who may lead.
fn sets_leader_rules(event: &MetadataEvent) -> bool {
    let MetadataEvent::ConfigChanged { name, .. } = event else { return false };
    matches!(&**name, MIN_IN_SYNC | UNCLEAN)
}

/// Looks again at the partitions whose leaders the settings of `resource` decide.
fn reconsider_leaders(draft: &mut Draft, resource: &ConfigResource, inputs: &Inputs<'_>) {
    let rules = inputs.rules(draft.image());
    let topics: Vec<_> = match resource.kind {
        ResourceKind::Topic => draft.image().topic(&resource.name).cloned().into_iter().collect(),
        ResourceKind::Broker => draft.image().topics().iter().cloned().collect(),
    };
    for topic in topics {
        elections::reconsider(draft, rules, &topic);
    }
}

/// What changes for one resource, or why nothing may.
fn changed(
    image: &MetadataImage,
    layers: &BrokerLayers,
    resource: &ConfigResource,
    changes: &ConfigChanges,
) -> Outcome<Vec<MetadataEvent>> {
    let before = image.overrides(resource).map(|overrides| Overrides::clone(overrides)).unwrap_or_default();
    let after = match changes {
        ConfigChanges::Incremental(operations) => incremental(&before, resource.kind, operations)?,
        ConfigChanges::Replace(settings) => replaced(settings)?,
    };
    match resource.kind {
        ResourceKind::Topic => {
            if resource.name.is_empty() {
                return Err(refused("Default topic resources are not allowed."));
            }
            topic_name::validate(&resource.name)
                .map_err(|error| ControlError::new(ErrorCode::InvalidTopicException, error.to_string()))?;
            check_topic(&after, layers)?;
            if image.topic(&resource.name).is_none() {
                let text = format!("The topic '{}' does not exist.", resource.name);
                return Err(ControlError::new(ErrorCode::UnknownTopicOrPartition, text));
            }
        }
        ResourceKind::Broker => {
            check_broker(&resource.name, &before, &after)?;
            check_together(layers, &resource.name, &after)?;
            check_broker_exists(image, &resource.name)?;
        }
    }
    Ok(difference(resource, &before, &after))
}

fn incremental(before: &Overrides, kind: ResourceKind, operations: &[ConfigOperation]) -> Outcome<Overrides> {
    check_names(operations.iter().map(|operation| &operation.name))?;
    check_nulls(operations)?;
    let mut after = before.clone();
    for operation in operations {
        let name = operation.name.to_string();
        let value = operation.value.as_deref().unwrap_or_default();
        match operation.op {
            ConfigOp::Set => {
                after.insert(name, value.to_owned());
            }
            ConfigOp::Delete => {
                after.remove(&name);
            }
            ConfigOp::Append | ConfigOp::Subtract => {
                let value = list_after(after.get(&name), kind, operation, value)?;
                after.insert(name, value);
            }
        }
    }
    Ok(after)
}

/// A list with items added or taken out. A list that was not set starts from its default.
fn list_after(
    current: Option<&String>,
    kind: ResourceKind,
    operation: &ConfigOperation,
    value: &str,
) -> Outcome<String> {
    let known = config::find(scope(kind), &operation.name);
    let Some(setting) = known.filter(|setting| setting.kind == Kind::List) else {
        let verb = if operation.op == ConfigOp::Append { "append" } else { "subtract" };
        let name = &operation.name;
        let text = match kind {
            ResourceKind::Topic => format!("Can't {} to key {name} because its type is not LIST.", verb.to_uppercase()),
            ResourceKind::Broker if known.is_none() => format!("Unknown config name: {name}"),
            ResourceKind::Broker => format!("Config value {verb} is not allowed for config key: {name}"),
        };
        return Err(ControlError::new(ErrorCode::InvalidConfig, text));
    };
    let current = current.map(String::as_str).or(setting.default).unwrap_or_default();
    let mut items: Vec<&str> = current.split(',').filter(|item| !item.is_empty()).collect();
    for item in value.split(',') {
        let present = items.iter().position(|known| *known == item);
        match (operation.op, present) {
            (ConfigOp::Append, None) => items.push(item),
            (ConfigOp::Subtract, Some(index)) => {
                items.remove(index);
            }
            _ => {}
        }
    }
    Ok(items.join(","))
}

fn replaced(settings: &[(Arc<str>, Option<Arc<str>>)]) -> Outcome<Overrides> {
    check_names(settings.iter().map(|(name, _)| name))?;
    refuse_nulls(settings.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name))?;
    Ok(settings
        .iter()
        .map(|(name, value)| (name.to_string(), value.as_deref().unwrap_or_default().to_owned()))
        .collect())
}

/// Refuses a name that comes twice.
pub(super) fn check_names<'a>(names: impl Iterator<Item = &'a Arc<str>>) -> Outcome<()> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(refused("Error due to duplicate config keys"));
        }
    }
    Ok(())
}

/// Refuses operations that need a value and have none.
pub(super) fn check_nulls(operations: &[ConfigOperation]) -> Outcome<()> {
    let lacks_value = |operation: &&ConfigOperation| operation.op != ConfigOp::Delete && operation.value.is_none();
    refuse_nulls(operations.iter().filter(lacks_value).map(|operation| &operation.name))
}

fn refuse_nulls<'a>(names: impl Iterator<Item = &'a Arc<str>>) -> Outcome<()> {
    let nulls: Vec<&str> = names.map(|name| &**name).collect();
    if nulls.is_empty() {
        return Ok(());
    }
    Err(refused(&format!("Null value not supported for : {}", nulls.join(", "))))
}

/// The typed broker settings of these layers.
pub(super) fn broker_config(layers: &BrokerLayers) -> Outcome<BrokerConfig> {
    BrokerConfig::resolve(layers)
        .map_err(|error| ControlError::new(ErrorCode::UnknownServerError, format!("broker settings: {error}")))
}

fn check_topic(overrides: &Overrides, layers: &BrokerLayers) -> Outcome<()> {
    config::validate_topic(overrides, layers)
        .map_err(|error| ControlError::new(ErrorCode::InvalidConfig, error.to_string()))
}

/// Checks the broker settings that change. A value that Kafka's brokers refuse gives INVALID_REQUEST there, not
/// INVALID_CONFIG (KAFKA-13609), and clients know it so.
fn check_broker(name: &str, before: &Overrides, after: &Overrides) -> Outcome<()> {
    if !name.is_empty() {
        let id: i32 = name.parse().map_err(|_| refused("Unable to parse broker name as a base 10 number."))?;
        if id < 0 {
            return Err(refused("Invalid negative broker ID."));
        }
    }
    let changed = after.iter().filter(|(name, value)| before.get(*name) != Some(*value));
    for (key, value) in changed {
        let Some(setting) = config::find(Scope::Broker, key) else {
            check_custom(key, value)?;
            continue;
        };
        match setting.update {
            Update::ReadOnly => {
                return Err(refused(&format!("Cannot update these configs dynamically: [{key}]")));
            }
            Update::PerBroker if name.is_empty() => {
                return Err(refused(&format!(
                    "Cannot update these configs at default cluster level, broker id must be specified: [{key}]"
                )));
            }
            Update::PerBroker | Update::ClusterWide => {}
        }
        config::check(setting, value).map_err(|error| refused(&error.to_string()))?;
    }
    let custom = after.keys().filter(|key| config::find(Scope::Broker, key).is_none()).count();
    if custom > CUSTOM_SETTINGS_MAX {
        return Err(refused(&format!("More than {CUSTOM_SETTINGS_MAX} settings that no broker knows.")));
    }
    // The controller must know which minimum a leader goes by, whoever leads.
    if !name.is_empty() && before.get(MIN_IN_SYNC) != after.get(MIN_IN_SYNC) {
        let text = format!("Broker-level {MIN_IN_SYNC} cannot be altered while ELR is enabled.");
        return Err(ControlError::new(ErrorCode::InvalidConfig, text));
    }
    Ok(())
}

/// Refuses what is too large of a setting that we do not know.
fn check_custom(name: &str, value: &str) -> Outcome<()> {
    if name.len() > CUSTOM_NAME_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
        let text = format!(
            "A setting that no broker knows may have a name of {CUSTOM_NAME_BYTES_MAX} and a value of {VALUE_BYTES_MAX} bytes."
        );
        return Err(refused(&text));
    }
    Ok(())
}

/// Refuses settings that are at odds with others in force.
fn check_together(layers: &BrokerLayers, name: &str, after: &Overrides) -> Outcome<()> {
    let mut layers = layers.clone();
    let changed = if name.is_empty() { &mut layers.dynamic_default } else { &mut layers.dynamic_broker };
    changed.clone_from(after);
    config::validate_broker(&layers).map_err(|error| refused(&error.to_string()))
}

fn check_broker_exists(image: &MetadataImage, name: &str) -> Outcome<()> {
    let id: Option<i32> = name.parse().ok();
    match id {
        Some(id) if image.broker(BrokerId(id)).is_none() => {
            let text = format!("No node with id {id} found.");
            Err(ControlError::new(ErrorCode::BrokerIdNotRegistered, text))
        }
        _ => Ok(()),
    }
}

/// The events that lead from `before` to `after`.
fn difference(resource: &ConfigResource, before: &Overrides, after: &Overrides) -> Vec<MetadataEvent> {
    let event = |name: &str, value: Option<&str>| MetadataEvent::ConfigChanged {
        resource: resource.clone(),
        name: name.into(),
        value: value.map(Into::into),
    };
    let set = after
        .iter()
        .filter(|(name, value)| before.get(*name) != Some(*value))
        .map(|(name, value)| event(name, Some(value)));
    let dropped = before.keys().filter(|name| !after.contains_key(*name)).map(|name| event(name, None));
    set.chain(dropped).collect()
}

fn scope(kind: ResourceKind) -> Scope {
    match kind {
        ResourceKind::Topic => Scope::Topic,
        ResourceKind::Broker => Scope::Broker,
    }
}

fn refused(text: &str) -> ControlError {
    ControlError::new(ErrorCode::InvalidRequest, text)
}
