//! Settings from variables of the environment: `TAFFRAIL_DATA_DIR`, `TAFFRAIL_LOG_RETENTION_MS`.

use taffrail_core::config::{self, ConfigError, Scope};

use super::{Given, OptionsError, Source, known_names};

/// What names of variables begin with.
const PREFIX: &str = "TAFFRAIL_";

/// Variables that have this beginning and are no settings: those of flags, and those that the tests' rigs use.
const OTHERS: [&str; 16] = [
    "TAFFRAIL_CONFIG",
    "TAFFRAIL_FILE",
    "TAFFRAIL_BIN",
    "TAFFRAIL_CACHE",
    "TAFFRAIL_NODE_ID",
    "TAFFRAIL_BROKERS",
    "TAFFRAIL_CONTROLLERS",
    "TAFFRAIL_CONTEXT",
    "TAFFRAIL_CONTEXTS",
    "TAFFRAIL_CLUSTER_ID",
    "TAFFRAIL_RACK",
    "TAFFRAIL_BOOTSTRAP",
    "TAFFRAIL_APPLY",
    "TAFFRAIL_IMAGE",
    "TAFFRAIL_LEASE",
    "TAFFRAIL_WATCH_NAMESPACES",
];

/// Name of the variable for a setting.
pub(super) fn variable(setting: &str) -> String {
    let tail = setting.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    PREFIX.chars().chain(tail).collect()
}

/// Takes what the environment gives.
pub(super) fn read(environment: &[(String, String)], given: &mut Given) -> Result<(), OptionsError> {
    for (name, value) in environment.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
        if OTHERS.contains(&name.as_str()) || is_service_link(name) {
            continue;
        }
        match known_names().find(|setting| variable(setting) == *name) {
            Some(setting) => given.set(setting, value, Source::Environment(name.clone()))?,
            None => {
                let variables: Vec<String> = known_names().map(variable).collect();
                let error = ConfigError::UnknownName {
                    scope: Scope::Process,
                    name: name.clone(),
                    hint: config::hint(name, variables.iter().map(String::as_str)),
                };
                return Err(OptionsError::Setting { from: "environment".to_owned(), error });
            }
        }
    }
    Ok(())
}

/// Whether Kubernetes wrote the variable, for a Service that is called `taffrail` or `taffrail-...` (service links).
fn is_service_link(name: &str) -> bool {
    let tail = &name[PREFIX.len() - 1..];
    let is_port = |text: &str| {
        let mut parts = text.split('_');
        parts.next().is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
            && parts.next().is_some_and(|protocol| ["TCP", "UDP", "SCTP"].contains(&protocol))
    };
    tail.ends_with("_SERVICE_HOST")
        || tail.contains("_SERVICE_PORT")
        || tail.ends_with("_PORT")
        || tail.rsplit_once("_PORT_").is_some_and(|(_, rest)| is_port(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::OptionsError;

    fn taken(pairs: &[(&str, &str)]) -> Result<Given, OptionsError> {
        let environment: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut given = Given::default();
        read(&environment, &mut given)?;
        Ok(given)
    }

    #[test]
    fn settings_are_taken_under_both_kinds_of_names() {
        let given =
            taken(&[("TAFFRAIL_DATA_DIR", "/d"), ("TAFFRAIL_LOG_RETENTION_MS", "5"), ("PATH", "/bin")]).unwrap();
        assert_eq!(given.value(config::find(Scope::Process, "data_dir").unwrap()), Some("/d"));
        assert_eq!(given.broker()["log.retention.ms"], "5");
        assert_eq!(given.source("log.retention.ms"), Source::Environment("TAFFRAIL_LOG_RETENTION_MS".to_owned()));
    }

    #[test]
    fn unknown_variables_are_refused_and_service_links_are_not() {
        let error = taken(&[("TAFFRAIL_DATADIR", "/d")]).unwrap_err().to_string();
        assert!(error.ends_with("TAFFRAIL_DATADIR (did you mean TAFFRAIL_DATA_DIR?)"), "{error}");
        let links = [
            ("TAFFRAIL_SERVICE_HOST", "10.0.0.1"),
            ("TAFFRAIL_SERVICE_PORT_KAFKA", "9092"),
            ("TAFFRAIL_PORT", "tcp://10.0.0.1:9092"),
            ("TAFFRAIL_PORT_9092_TCP_ADDR", "10.0.0.1"),
            ("TAFFRAIL_METRICS_PORT_9404_TCP", "tcp://10.0.0.1:9404"),
        ];
        assert!(taken(&links).unwrap().broker().is_empty());
    }

    #[test]
    fn no_two_settings_share_a_variable() {
        let mut names: Vec<String> = known_names().map(variable).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
