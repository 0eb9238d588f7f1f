//! The loggers of this broker's process as a resource of DescribeConfigs and IncrementalAlterConfigs (KIP-412).

use taffrail_core::control::{ConfigOperation, ControlError, Outcome, logger_changes};
use taffrail_core::errors::ErrorCode;
use taffrail_protocol::message::describe_configs_response::DescribeConfigsResourceResult;

use super::describe_configs::check_node_id;
use super::wire;
use crate::broker::Broker;

/// Kafka's `ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG`.
const SOURCE: i8 = 6;

/// Every logger with its level.
pub(super) fn describe(broker: &Broker, name: &str) -> Outcome<Vec<DescribeConfigsResourceResult>> {
    if name.is_empty() {
        return Err(ControlError::new(ErrorCode::InvalidRequest, "Broker id must not be empty"));
    }
    check_node_id(broker, name, "Broker id", "Unexpected broker id, expected {} but received")?;
    let entry = |(logger, level): (String, taffrail_core::control::LogLevel)| {
        DescribeConfigsResourceResult::default()
            .with_name(wire::text(&logger))
            .with_value(Some(wire::text(level.name())))
            .with_config_source(SOURCE)
            .with_documentation(Some(wire::text("")))
    };
    Ok(broker.loggers.levels().into_iter().map(entry).collect())
}

/// Makes the changes, all or none; with `validate_only` none, but the answer is the same.
pub(super) fn alter(broker: &Broker, name: &str, changes: &[ConfigOperation], validate_only: bool) -> Outcome<()> {
    check_node_id(broker, name, "Node id", "Unexpected node id. Expected {}, but received")?;
    let changes = logger_changes(&broker.loggers.levels(), changes)?;
    if validate_only {
        return Ok(());
    }
    broker.loggers.change(changes).map_err(|error| ControlError::new(ErrorCode::UnknownServerError, error))
}
