//! What the two requests that change settings have in common: which resources they may name, and who carries it out.

use std::sync::Arc;

use taffrail_core::control::{AlterConfigs, Command, ConfigAlteration, ControlError, Outcome, Reply};
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::{ConfigResource, ResourceKind};

use super::describe_configs::check_node_id;
use super::wire;
use crate::broker::{self, Broker};

/// How long the answer waits for the change to count on this broker. Kafka's request has no timeout of its own.
const WAIT_MS: i32 = 30_000;

/// What becomes of one resource of a request.
pub(super) enum Planned {
    /// The controller decides.
    Asked(ConfigAlteration),
    /// It is settled already.
    Settled(Outcome<()>),
}

impl From<Outcome<ConfigAlteration>> for Planned {
    fn from(alteration: Outcome<ConfigAlteration>) -> Self {
        match alteration {
            Ok(alteration) => Self::Asked(alteration),
            Err(error) => Self::Settled(Err(error)),
        }
    }
}

/// The resource that a request names, if its settings are kept in the metadata and this broker may be asked for them.
pub(super) fn config_resource(broker: &Broker, kind: i8, name: Arc<str>) -> Outcome<ConfigResource> {
    let kind = ResourceKind::from_code(kind)
        .ok_or_else(|| ControlError::new(ErrorCode::InvalidRequest, format!("Unknown resource type {kind}")))?;
    // As in Kafka, settings of a single broker are changed at that broker.
    if kind == ResourceKind::Broker && !name.is_empty() {
        check_node_id(broker, &name, "Node id", "Unexpected broker id, expected {}, but received")?;
    }
    Ok(ConfigResource { kind, name })
}

/// Has the controller make those changes that it is to decide; gives an outcome for each, in their order.
pub(super) async fn carry_out(broker: &Broker, planned: Vec<Planned>, validate_only: bool) -> Vec<Outcome<()>> {
    let asked = |it: &Planned| match it {
        Planned::Asked(alteration) => Some(alteration.clone()),
        Planned::Settled(_) => None,
    };
    let resources: Vec<ConfigAlteration> = planned.iter().filter_map(asked).collect();
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
    let next = |it: Planned| match it {
        Planned::Asked(_) => decided.next().unwrap_or_else(|| Err(ControlError::plain(ErrorCode::UnknownServerError))),
        Planned::Settled(outcome) => outcome,
    };
    planned.into_iter().map(next).collect()
}

/// The answer for each resource of a request: both requests have it in the same fields of a type of their own.
macro_rules! answers {
    ($answer:ident, $resources:expr, $outcomes:expr) => {
        $resources
            .iter()
            .zip($outcomes)
            .map(|(resource, outcome)| {
                let (code, message) = wire::outcome(&outcome);
                $answer::default()
                    .with_error_code(code)
                    .with_error_message(message)
                    .with_resource_type(resource.resource_type)
                    .with_resource_name(resource.resource_name.clone())
            })
            .collect()
    };
}
pub(super) use answers;
