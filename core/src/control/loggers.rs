//! Changes of log levels (KIP-412): what an administrator may ask of the loggers of one process.
//!
//! Levels are not metadata: they belong to a process and end with it. So nothing is decided by the controller here, and the
//! process that is asked applies the changes itself.

use std::collections::BTreeMap;

use super::configs::{check_names, check_nulls};
use super::{ConfigOp, ConfigOperation, ControlError, Outcome};
use crate::errors::ErrorCode;

/// The logger that stands for all that have no level of their own.
pub const ROOT_LOGGER: &str = "root";

/// How grave a message must be to be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Everything.
    Trace,
    /// What those who look for a fault want to see.
    Debug,
    /// What happens.
    Info,
    /// What may become a fault.
    Warn,
    /// What failed.
    Error,
    /// Only what ends the process, which is never logged below this level: in effect nothing.
    Fatal,
}

impl LogLevel {
    /// All of them, the most talkative first.
    pub const ALL: [Self; 6] = [Self::Trace, Self::Debug, Self::Info, Self::Warn, Self::Error, Self::Fatal];

    /// Its name in Kafka, which is in capital letters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Trace => "TRACE",
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
        }
    }

    /// The level of this name, written as [`LogLevel::name`] writes it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// New levels by logger; `None` takes the logger's own level away.
pub type LoggerChanges = BTreeMap<String, Option<LogLevel>>;

/// What `operations` change, if every one of them may be: all of them, or none.
///
/// # Errors
/// INVALID_CONFIG for a logger that is not in `known` and for what is no level; INVALID_REQUEST for operations that make no
/// sense here, for a name that comes twice, and for taking the root logger's level away.
pub fn logger_changes(known: &BTreeMap<String, LogLevel>, operations: &[ConfigOperation]) -> Outcome<LoggerChanges> {
    check_names(operations.iter().map(|operation| &operation.name))?;
    check_nulls(operations)?;
    operations.iter().map(|operation| Ok((operation.name.to_string(), change(known, operation)?))).collect()
}

fn change(known: &BTreeMap<String, LogLevel>, operation: &ConfigOperation) -> Outcome<Option<LogLevel>> {
    let name = &*operation.name;
    let refused = |text: &str| ControlError::new(ErrorCode::InvalidRequest, text);
    match operation.op {
        ConfigOp::Append => return Err(refused("APPEND operation is not allowed for the BROKER_LOGGER resource")),
        ConfigOp::Subtract => return Err(refused("SUBTRACT operation is not allowed for the BROKER_LOGGER resource")),
        ConfigOp::Set | ConfigOp::Delete => {}
    }
    if !known.contains_key(name) {
        return Err(ControlError::new(ErrorCode::InvalidConfig, format!("Logger {name} does not exist!")));
    }
    if operation.op == ConfigOp::Delete {
        let root = name == ROOT_LOGGER;
        return if root { Err(refused("Removing the log level of the root logger is not allowed")) } else { Ok(None) };
    }
    let value = operation.value.as_deref().unwrap_or_default();
    LogLevel::from_name(value).map(Some).ok_or_else(|| {
        let text = format!(
            "Cannot set the log level of {name} to {value} as it is not a supported log level. \
             Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
        );
        ControlError::new(ErrorCode::InvalidConfig, text)
    })
}
