//! Events of Kubernetes: what the operator did, and what it waits for, with reasons from a closed list.

use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use super::api::Namespaced;
use super::names::MANAGER;
use crate::crd::reasons::EventReason;

/// Longest note that Kubernetes takes, in bytes.
const NOTE_BYTES_MAX: usize = 1000;

/// Whether somebody should look.
const fn kind(reason: EventReason) -> EventType {
    match reason {
        EventReason::DataLost
        | EventReason::RackUnknown
        | EventReason::RolloutBlocked
        | EventReason::ScaleDownBlocked
        | EventReason::SettingsRefused
        | EventReason::ResetBlocked
        | EventReason::GroupKept => EventType::Warning,
        _ => EventType::Normal,
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
    pub async fn tell<K: Namespaced>(&self, object: &K, reason: EventReason, note: String) {
        let mut note = note;
        while note.len() > NOTE_BYTES_MAX {
            note.pop();
        }
        let event = Event {
            type_: kind(reason),
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
