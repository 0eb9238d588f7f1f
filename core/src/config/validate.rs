//! Checks a value against its setting, as Kafka's `ConfigDef` does and with its words.

use super::host_limits::host_limits;
use super::nearest;
use super::setting::{Kind, Scope, Setting, Valid};
use super::table;

/// Longest value that is taken: a list of throttled replicas of a large topic fits, a bomb does not.
pub const VALUE_BYTES_MAX: usize = 1 << 16;

/// Longest part of a refused value that a message repeats.
const SHOWN_CHARS_MAX: usize = 200;

/// Why a setting is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No setting has this name.
    #[error("Unknown {} config name: {name}{hint}", scope_word(*.scope))]
    UnknownName {
        /// Where it was looked for.
        scope: Scope,
        /// The name as given.
        name: String,
        /// Empty, or the nearest known name in words.
        hint: String,
    },
    /// The value is not of the setting's type, or out of its range.
    #[error("Invalid value {value} for configuration {name}: {reason}")]
    InvalidValue {
        /// Name of the setting.
        name: &'static str,
        /// The value as given, shortened; `[hidden]` if the setting is sensitive.
        value: String,
        /// What is wrong.
        reason: String,
    },
    /// A list has items that it may not have.
    #[error("Configuration '{name}' {reason}")]
    InvalidList {
        /// Name of the setting.
        name: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Two values exclude each other.
    #[error("{0}")]
    Conflict(String),
}

fn scope_word(scope: Scope) -> &'static str {
    match scope {
        Scope::Topic => "topic",
        Scope::Broker => "broker",
        Scope::Process => "process",
    }
}

/// The setting of this name.
///
/// # Errors
/// [`ConfigError::UnknownName`], with the nearest known name.
pub fn known(scope: Scope, name: &str) -> Result<&'static Setting, ConfigError> {
    table::find(scope, name).ok_or_else(|| ConfigError::UnknownName {
        scope,
        name: shown(name),
        hint: nearest::hint(name, table::settings(scope).map(|setting| setting.name)),
    })
}

/// Whether `value` may be given to the setting `name` of `scope`.
///
/// # Errors
/// What is wrong with the name or the value, in words for a user.
pub fn validate(scope: Scope, name: &str, value: &str) -> Result<(), ConfigError> {
    check(known(scope, name)?, value)
}

/// Whether `value` may be given to `setting`.
///
/// # Errors
/// What is wrong with the value, in words for a user.
pub fn check(setting: &Setting, value: &str) -> Result<(), ConfigError> {
    let refused = |reason: String| ConfigError::InvalidValue {
        name: setting.name,
        value: if setting.sensitive() { "[hidden]".to_owned() } else { shown(value) },
        reason,
    };
    if value.len() > VALUE_BYTES_MAX {
        return Err(refused(format!("Value is longer than {VALUE_BYTES_MAX} bytes")));
    }
    let trimmed = value.trim();
    let not_a_number = || refused(format!("Not a number of type {}", setting.kind.name()));
    match setting.kind {
        Kind::Boolean => match parse_boolean(trimmed) {
            Some(_) => Ok(()),
            None => Err(refused("Expected value to be either true or false".to_owned())),
        },
        Kind::Int | Kind::Short | Kind::Long => {
            let number: i64 = trimmed.parse().map_err(|_| not_a_number())?;
            let fits = match setting.kind {
                Kind::Int => i32::try_from(number).is_ok(),
                Kind::Short => i16::try_from(number).is_ok(),
                _ => true,
            };
            if !fits {
                return Err(not_a_number());
            }
            check_number(setting.valid, number).map_err(refused)
        }
        Kind::Double => {
            let number: f64 = trimmed.parse().map_err(|_| not_a_number())?;
            // Kafka lets NaN through its range checks and then never compacts; nobody can mean that.
            if number.is_nan() {
                return Err(not_a_number());
            }
            check_decimal(setting.valid, number).map_err(refused)
        }
        Kind::List => check_list(setting, trimmed, &refused),
        Kind::Text | Kind::Class | Kind::Password => check_text(setting.valid, trimmed).map_err(refused),
    }
}

/// `true` or `false` in any case.
pub(crate) fn parse_boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// The items of a list value: separated by commas, blanks around them dropped; an empty text has none.
pub fn list_items(value: &str) -> impl Iterator<Item = &str> {
    let value = value.trim();
    value.split(',').map(str::trim).filter(move |_| !value.is_empty())
}

fn check_number(valid: Valid, number: i64) -> Result<(), String> {
    match valid {
        Valid::Range(low, _) if number < low => Err(format!("Value must be at least {low}")),
        Valid::Range(_, high) if number > high => Err(format!("Value must be no more than {high}")),
        Valid::RangeOr(low, high, other) if number != other && !(low..=high).contains(&number) => {
            Err(format!("Value must be between {low} and {high} or equal to {other}"))
        }
        _ => Ok(()),
    }
}

fn check_decimal(valid: Valid, number: f64) -> Result<(), String> {
    match valid {
        Valid::Decimal(low, _) if number < low => Err(format!("Value must be at least {low}")),
        Valid::Decimal(_, high) if number > high => Err(format!("Value must be no more than {high}")),
        _ => Ok(()),
    }
}

fn check_text(valid: Valid, text: &str) -> Result<(), String> {
    match valid {
        Valid::OneOf(texts) if !texts.contains(&text) => {
            Err(format!("String must be one of: {}{}", texts.join(", "), nearest::hint(text, texts.iter().copied())))
        }
        Valid::OneOfIgnoringCase(texts) if !texts.iter().any(|known| known.eq_ignore_ascii_case(text)) => {
            Err(format!("String must be one of (case insensitive): {}", texts.join(", ")))
        }
        Valid::NonEmpty if text.is_empty() => Err("String must be non-empty".to_owned()),
        Valid::HostLimits => host_limits(text).map(|_| ()),
        _ => Ok(()),
    }
}

fn check_list(setting: &Setting, value: &str, refused: &dyn Fn(String) -> ConfigError) -> Result<(), ConfigError> {
    let list_error = |reason: String| Err(ConfigError::InvalidList { name: setting.name, reason });
    match setting.valid {
        Valid::Items { of, or_none } => {
            let items: Vec<&str> = list_items(value).collect();
            if items.is_empty() && !or_none {
                let values =
                    if of.is_empty() { "any non-empty value".to_owned() } else { format!("[{}]", of.join(", ")) };
                return list_error(format!("must not be empty. Valid values include: {values}"));
            }
            if items.iter().any(|item| item.is_empty()) {
                return list_error("values must not be empty.".to_owned());
            }
            let mut sorted = items.clone();
            sorted.sort_unstable();
            if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
                return list_error("values must not be duplicated.".to_owned());
            }
            match items.iter().find(|item| !of.is_empty() && !of.contains(item)) {
                Some(item) => Err(ConfigError::InvalidValue {
                    name: setting.name,
                    value: shown(item),
                    reason: format!(
                        "String must be one of: {}{}",
                        of.join(", "),
                        nearest::hint(item, of.iter().copied())
                    ),
                }),
                None => Ok(()),
            }
        }
        Valid::Replicas => {
            let is_pair = |item: &str| {
                let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                item.split_once(':').is_some_and(|(partition, broker)| digits(partition) && digits(broker))
            };
            if value == "*" || list_items(value).all(is_pair) {
                return Ok(());
            }
            Err(refused(format!(
                "{} must be the literal '*' or a list of replicas in the following format: \
                 [partitionId]:[brokerId],[partitionId]:[brokerId],...",
                setting.name
            )))
        }
        Valid::Voters => match list_items(value).find(|item| !is_voter(item)) {
            Some(_) => list_error("entries should each be in the form id@host:port.".to_owned()),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn is_voter(item: &str) -> bool {
    item.split_once('@').is_some_and(|(id, address)| {
        id.parse::<u32>().is_ok()
            && address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    })
}

fn shown(value: &str) -> String {
    value.chars().take(SHOWN_CHARS_MAX).collect()
}
