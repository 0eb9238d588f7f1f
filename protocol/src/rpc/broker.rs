//! Parts that commands, replies and events have in common: brokers, what they are used for, partitions and resources.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use taffrail_core::event::{
    BrokerDuty, BrokerRegistration, ConfigResource, FeatureRange, Grant, Listener, PartitionState, ResourceKind,
    SecurityProtocol,
};
use taffrail_core::ids::{BrokerId, PartitionIndex, TopicId, Uuid};

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
        shutting_down: broker.shutting_down,
        min_in_sync: broker.min_in_sync,
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
        shutting_down: message.shutting_down,
        min_in_sync: message.min_in_sync,
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

pub(crate) fn brokers_to_message(brokers: &[BrokerId]) -> Vec<i32> {
    brokers.iter().map(|id| id.0).collect()
}

pub(crate) fn brokers_from_message(brokers: Vec<i32>) -> Vec<BrokerId> {
    brokers.into_iter().map(BrokerId).collect()
}

pub(crate) fn duty_from_code(code: i32) -> Result<BrokerDuty, FormatError> {
    let invalid = FormatError::Invalid { what: "a broker's duty", field: "duty", value: i64::from(code) };
    BrokerDuty::from_code(code).ok_or(invalid)
}

pub(crate) fn grant_to_message(grant: &Grant) -> v1::Grant {
    v1::Grant {
        id: grant.id,
        brokers: grant.brokers.iter().map(|id| id.0).collect(),
        operator_epoch: grant.operator_epoch,
        expires_ms: grant.expires_ms,
    }
}

pub(crate) fn grant_from_message(message: v1::Grant) -> Grant {
    Grant {
        id: message.id,
        brokers: message.brokers.into_iter().map(BrokerId).collect(),
        operator_epoch: message.operator_epoch,
        expires_ms: message.expires_ms,
    }
}

pub(crate) fn partition_to_message(
    topic_id: TopicId,
    partition: PartitionIndex,
    state: &PartitionState,
) -> v1::PartitionRecord {
    v1::PartitionRecord {
        topic_id: id_to_bytes(topic_id),
        partition,
        replicas: brokers_to_message(&state.replicas),
        isr: brokers_to_message(&state.isr),
        leader: state.leader.0,
        leader_epoch: state.leader_epoch,
        partition_epoch: state.partition_epoch,
        adding: brokers_to_message(&state.adding),
        removing: brokers_to_message(&state.removing),
        eligible: brokers_to_message(&state.eligible),
        last_known: brokers_to_message(&state.last_known),
        recovering: state.recovering,
    }
}

pub(crate) fn partition_from_message(
    message: v1::PartitionRecord,
) -> Result<(TopicId, PartitionIndex, Arc<PartitionState>), FormatError> {
    let state = PartitionState {
        replicas: brokers_from_message(message.replicas),
        isr: brokers_from_message(message.isr),
        leader: BrokerId(message.leader),
        leader_epoch: message.leader_epoch,
        partition_epoch: message.partition_epoch,
        adding: brokers_from_message(message.adding),
        removing: brokers_from_message(message.removing),
        eligible: brokers_from_message(message.eligible),
        last_known: brokers_from_message(message.last_known),
        recovering: message.recovering,
    };
    Ok((id_from_bytes("a partition", "topic_id", &message.topic_id)?, message.partition, Arc::new(state)))
}
