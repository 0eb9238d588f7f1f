//! Log levels: what Kafka 4.4 answers to the same changes.

use std::collections::BTreeMap;

use crate::control::{ConfigOp, ConfigOperation, LogLevel, LoggerChanges, logger_changes};
use crate::errors::ErrorCode;

fn known() -> BTreeMap<String, LogLevel> {
    [("root".to_owned(), LogLevel::Info), ("broker".to_owned(), LogLevel::Warn)].into()
}

fn operation(name: &str, op: ConfigOp, value: Option<&str>) -> ConfigOperation {
    ConfigOperation { name: name.into(), op, value: value.map(Into::into) }
}

#[test]
fn levels_are_set_and_taken_away() {
    let operations =
        [operation("root", ConfigOp::Set, Some("ERROR")), operation("broker", ConfigOp::Delete, Some("ignored"))];
    let expected = LoggerChanges::from([("root".to_owned(), Some(LogLevel::Error)), ("broker".to_owned(), None)]);
    assert_eq!(logger_changes(&known(), &operations), Ok(expected));
    assert_eq!(logger_changes(&known(), &[]), Ok(LoggerChanges::new()));
}

#[test]
fn every_level_has_the_name_that_it_is_found_by() {
    for level in LogLevel::ALL {
        assert_eq!(LogLevel::from_name(level.name()), Some(level));
        assert_eq!(LogLevel::from_name(&level.name().to_lowercase()), None);
    }
    assert_eq!(LogLevel::from_name("OFF"), None);
}

#[test]
fn changes_that_make_no_sense_are_refused_as_a_whole() {
    let set = |name: &str, value: Option<&str>| operation(name, ConfigOp::Set, value);
    let cases = [
        (set("nobody", Some("INFO")), ErrorCode::InvalidConfig, "Logger nobody does not exist!"),
        (operation("nobody", ConfigOp::Delete, None), ErrorCode::InvalidConfig, "Logger nobody does not exist!"),
        (
            set("broker", Some("debug")),
            ErrorCode::InvalidConfig,
            "Cannot set the log level of broker to debug as it is not a supported log level. \
             Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (set("broker", None), ErrorCode::InvalidRequest, "Null value not supported for : broker"),
        (
            operation("root", ConfigOp::Delete, None),
            ErrorCode::InvalidRequest,
            "Removing the log level of the root logger is not allowed",
        ),
        (
            operation("broker", ConfigOp::Append, Some("INFO")),
            ErrorCode::InvalidRequest,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            operation("broker", ConfigOp::Subtract, Some("INFO")),
            ErrorCode::InvalidRequest,
            "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
        ),
    ];
    for (refused, code, message) in cases {
        let name = format!("{refused:?}");
        // A good change of another logger does not save it.
        let good = if &*refused.name == "root" { "broker" } else { "root" };
        let error = logger_changes(&known(), &[set(good, Some("INFO")), refused]).unwrap_err();
        assert_eq!((error.code, error.message.as_deref()), (code, Some(message)), "{name}");
    }
    let twice = [set("root", Some("INFO")), set("root", Some("WARN"))];
    let error = logger_changes(&known(), &twice).unwrap_err();
    assert_eq!(error.message.as_deref(), Some("Error due to duplicate config keys"));
}
