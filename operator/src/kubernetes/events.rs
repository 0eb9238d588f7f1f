//! Events of Kubernetes: what the operator did, and what it waits for, with reasons from a closed list.

use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use super::api::Namespaced;
use super::names::MANAGER;

/// Longest note that Kubernetes takes, in bytes.
const NOTE_BYTES_MAX: usize = 1000;

/// Why an event is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A pod was deleted, and another one comes in its place.
    PodReplaced,
    /// A restart waits.
    RolloutBlocked,
    /// A broker gives its replicas away.
    DrainStarted,
    /// A broker does not leave after all.
    DrainEnded,
    /// A broker gets no new replicas.
    BrokerCordoned,
    /// A node is gone for good.
    NodeRemoved,
    /// A node cannot leave.
    ScaleDownBlocked,
    /// A controller got its vote.
    ControllerAdded,
    /// A controller lost its vote.
    ControllerRemoved,
    /// Settings were refused.
    SettingsRefused,
    /// Offsets of a group were set.
    GroupReset,
    /// Offsets of a group are to be set, and cannot be.
    ResetBlocked,
    /// A group was deleted with its resource.
    GroupDeleted,
    /// A group stays although its resource is gone.
    GroupKept,
}

impl Reason {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PodReplaced => "PodReplaced",
            Self::RolloutBlocked => "RolloutBlocked",
            Self::DrainStarted => "DrainStarted",
            Self::DrainEnded => "DrainEnded",
            Self::BrokerCordoned => "BrokerCordoned",
            Self::NodeRemoved => "NodeRemoved",
            Self::ScaleDownBlocked => "ScaleDownBlocked",
            Self::ControllerAdded => "ControllerAdded",
            Self::ControllerRemoved => "ControllerRemoved",
            Self::SettingsRefused => "SettingsRefused",
            Self::GroupReset => "GroupReset",
            Self::ResetBlocked => "ResetBlocked",
            Self::GroupDeleted => "GroupDeleted",
            Self::GroupKept => "GroupKept",
        }
    }

    const fn kind(self) -> EventType {
        match self {
            Self::RolloutBlocked
            | Self::ScaleDownBlocked
            | Self::SettingsRefused
            | Self::ResetBlocked
            | Self::GroupKept => EventType::Warning,
            _ => EventType::Normal,
        }
    }
}

/// Tells events.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
}

impl Events {
    /// Tells them through `client`, in the name of this `instance` of the operator.
    pub fn new(client: Client, instance: &str) -> Self {
        let reporter = Reporter { controller: MANAGER.to_owned(), instance: Some(instance.to_owned()) };
        Self { recorder: Recorder::new(client, reporter) }
    }

    /// Tells one about `object`. That it cannot be told stops nothing.
    pub async fn tell<K: Namespaced>(&self, object: &K, reason: Reason, note: String) {
        let mut note = note;
        while note.len() > NOTE_BYTES_MAX {
            note.pop();
        }
        let event = Event {
            type_: reason.kind(),
            reason: reason.name().to_owned(),
            note: Some(note),
            action: reason.name().to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &object.object_ref(&())).await {
            tracing::debug!(reason = reason.name(), %error, "an event could not be told");
        }
    }
}
