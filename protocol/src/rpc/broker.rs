//! Parts that commands and events have in common: registrations and resources.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use taffrail_core::event::{
    BrokerRegistration, ConfigResource, FeatureRange, Listener, ResourceKind, SecurityProtocol,
};
use taffrail_core::ids::{BrokerId, Uuid};

use super::error::short;
use super::{FormatError, id_from_bytes, id_to_bytes, v1};

type Features = BTreeMap<Arc<str>, FeatureRange>;

pub(crate) fn registration_to_message(broker: &BrokerRegistration) -> v1::BrokerRegistration {
    v1::BrokerRegistration {
        id: broker.id.0,
        epoch: broker.epoch,
        incarnation: id_to_bytes(broker.incarnation),
        rack: broker.rack.as_deref().map(str::to_owned),
        listeners: listeners_to_message(&broker.listeners),
        log_dirs: broker.log_dirs.iter().copied().map(id_to_bytes).collect(),
        features: features_to_message(&broker.features),
        fenced: broker.fenced,
    }
}

pub(crate) fn registration_from_message(message: v1::BrokerRegistration) -> Result<BrokerRegistration, FormatError> {
    let what = "a broker registration";
    Ok(BrokerRegistration {
        id: BrokerId(message.id),
        epoch: message.epoch,
        incarnation: id_from_bytes(what, "incarnation", &message.incarnation)?,
        rack: message.rack.map(Into::into),
        listeners: listeners_from_message(message.listeners)?,
        log_dirs: log_dirs_from_message(&message.log_dirs)?,
        features: features_from_message(message.features)?,
        fenced: message.fenced,
    })
}

pub(super) fn listeners_to_message(listeners: &[Listener]) -> Vec<v1::Listener> {
    let convert = |listener: &Listener| v1::Listener {
        name: listener.name.to_string(),
        host: listener.host.to_string(),
        port: u32::from(listener.port),
        security: i32::from(listener.security.code()),
    };
    listeners.iter().map(convert).collect()
}

pub(super) fn listeners_from_message(messages: Vec<v1::Listener>) -> Result<Vec<Listener>, FormatError> {
    let what = "a listener";
    let convert = |message: v1::Listener| {
        let security = short(what, "security", message.security)?;
        Ok(Listener {
            name: message.name.into(),
            host: message.host.into(),
            port: u16::try_from(message.port).map_err(|_| FormatError::Invalid {
                what,
                field: "port",
                value: i64::from(message.port),
            })?,
            security: SecurityProtocol::from_code(security).ok_or(FormatError::Invalid {
                what,
                field: "security",
                value: i64::from(security),
            })?,
        })
    };
    messages.into_iter().map(convert).collect()
}

pub(super) fn log_dirs_from_message(messages: &[Bytes]) -> Result<Vec<Uuid>, FormatError> {
    messages.iter().map(|bytes| id_from_bytes("a broker registration", "log_dirs", bytes)).collect()
}

pub(super) fn features_to_message(features: &Features) -> Vec<v1::FeatureRange> {
    let convert = |(name, range): (&Arc<str>, &FeatureRange)| v1::FeatureRange {
        name: name.to_string(),
        min_level: i32::from(range.min_level),
        max_level: i32::from(range.max_level),
    };
    features.iter().map(convert).collect()
}

pub(super) fn features_from_message(messages: Vec<v1::FeatureRange>) -> Result<Features, FormatError> {
    let convert = |message: v1::FeatureRange| {
        let level = |value| short("a feature", "level", value);
        let range = FeatureRange { min_level: level(message.min_level)?, max_level: level(message.max_level)? };
        Ok((message.name.into(), range))
    };
    messages.into_iter().map(convert).collect()
}

pub(crate) fn resource_to_message(resource: &ConfigResource) -> v1::ConfigResource {
    v1::ConfigResource { kind: i32::from(resource.kind.code()), name: resource.name.to_string() }
}

pub(crate) fn resource_from_message(message: v1::ConfigResource) -> Result<ConfigResource, FormatError> {
    let kind = i8::try_from(message.kind).ok().and_then(ResourceKind::from_code);
    let value = i64::from(message.kind);
    let kind = kind.ok_or(FormatError::Invalid { what: "a resource", field: "kind", value })?;
    Ok(ConfigResource { kind, name: message.name.into() })
}
