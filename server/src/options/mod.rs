//! The settings of a process: what was given, by whom, and what holds.
//!
//! A setting may come from a resource, a file, the environment or a flag; each of these overrides the ones before it.
//! Names are our own ([`Scope::Process`], `data_dir`) or Kafka's broker names (`log.retention.ms`), and every one has a row
//! in the table of `taffrail_core::config`; a name without one is refused, with the nearest that there is.

mod environment;
mod file;
mod typed;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use taffrail_core::config::{self, ConfigError, Overrides, Scope, Setting};

pub(crate) use typed::{ConsoleAddress, LogFormat, MetricsAddress, Options};

/// Who gave a value, weakest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// Nobody.
    Default,
    /// How many brokers there are, which changes some of Kafka's defaults.
    Brokers(i32),
    /// A Cluster resource.
    Resource(String),
    /// The `--config` file, at a line.
    File(String, usize),
    /// A variable of the environment.
    Environment(String),
    /// A flag.
    Flag(String),
}

impl Source {
    /// Whether anybody has said so, rather than it being so by itself.
    pub(crate) fn is_given(&self) -> bool {
        !matches!(self, Self::Default | Self::Brokers(_))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Brokers(1) => f.write_str("one broker"),
            Self::Brokers(count) => write!(f, "{count} brokers"),
            Self::Resource(name) => write!(f, "cluster {name}"),
            Self::File(path, line) => write!(f, "{path}:{line}"),
            Self::Environment(name) => write!(f, "${name}"),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Why settings are refused: the message names who gave them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OptionsError {
    /// A value or name is wrong.
    #[error("{from}: {error}")]
    Setting { from: String, error: ConfigError },
    /// The file cannot be read, or is not what its name says.
    #[error("{0}")]
    File(String),
    /// What was given does not fit together.
    #[error("{0}")]
    Conflict(String),
}

/// Names of Kafka that mean something that we have under a name of our own, or that has no meaning here.
const OTHER_NAMES: [(&str, &str); 8] = [
    ("listeners", "write listen"),
    ("advertised.listeners", "write advertise"),
    ("log.dirs", "write data_dir"),
    ("log.dir", "write data_dir"),
    ("metadata.log.dir", "write data_dir: the metadata are kept in it too"),
    ("node.id", "`taffrail broker` takes --node-id, and `taffrail up` counts its brokers from 1"),
    ("broker.id", "`taffrail broker` takes --node-id, and `taffrail up` counts its brokers from 1"),
    ("process.roles", "the command says it: `taffrail up` has all roles"),
];

/// Numbers of replicas that depend on how many brokers there are, and the most that each of them is.
const REPLICAS: [(&str, i32); 6] = [
    ("default.replication.factor", 3),
    ("offsets.topic.replication.factor", 3),
    ("share.coordinator.state.topic.min.isr", 2),
    ("share.coordinator.state.topic.replication.factor", 3),
    ("transaction.state.log.min.isr", 2),
    ("transaction.state.log.replication.factor", 3),
];

/// What was given, by whom.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    values: BTreeMap<&'static str, (String, Source)>,
}

/// Where to look for settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// A file of settings.
    pub(crate) file: Option<PathBuf>,
    /// The environment.
    pub(crate) environment: Vec<(String, String)>,
    /// Flags: the flag as written, the name of its setting, its value.
    pub(crate) flags: Vec<(String, String, String)>,
}

impl Given {
    /// Everything that these sources give.
    pub(crate) fn collect(sources: &Sources) -> Result<Self, OptionsError> {
        let mut given = Self::default();
        if let Some(path) = &sources.file {
            for (line, name, value) in file::read(path)? {
                given.set(&name, &value, Source::File(path.display().to_string(), line))?;
            }
        }
        environment::read(&sources.environment, &mut given)?;
        for (flag, name, value) in &sources.flags {
            given.set(name, value, Source::Flag(flag.clone()))?;
        }
        Ok(given)
    }

    /// Takes what so many brokers can have: three replicas, or as many as there are brokers. Anything given overrides it.
    pub(crate) fn set_for_brokers(&mut self, count: i32) -> Result<(), OptionsError> {
        for (name, most) in REPLICAS {
            let value = count.min(most).to_string();
            let is_default = config::find(Scope::Broker, name).is_some_and(|it| it.default == Some(value.as_str()));
            if !self.source(name).is_given() && !is_default {
                self.set(name, &value, Source::Brokers(count))?;
            }
        }
        Ok(())
    }

    /// Takes a setting that a Cluster resource gives, unless something stronger has given it.
    pub(crate) fn set_from_cluster(&mut self, cluster: &str, name: &str, value: &str) -> Result<(), OptionsError> {
        if self.source(name) > Source::Resource(cluster.to_owned()) {
            return Ok(());
        }
        self.set(name, value, Source::Resource(cluster.to_owned()))
    }

    fn set(&mut self, name: &str, value: &str, source: Source) -> Result<(), OptionsError> {
        let setting = find(name).map_err(|error| OptionsError::Setting { from: source.to_string(), error })?;
        if let Some((_, instead)) = OTHER_NAMES.iter().find(|(other, _)| *other == name) {
            return Err(OptionsError::Conflict(format!("{source}: {name} is not set here: {instead}")));
        }
        config::check(setting, value).map_err(|error| OptionsError::Setting { from: source.to_string(), error })?;
        self.values.insert(setting.name, (value.trim().to_owned(), source));
        Ok(())
    }

    /// The value in effect: given, or by default.
    pub(crate) fn value(&self, setting: &Setting) -> Option<&str> {
        self.values.get(setting.name).map(|(value, _)| value.as_str()).or(setting.default)
    }

    /// Who gave the value in effect.
    pub(crate) fn source(&self, name: &str) -> Source {
        self.values.get(name).map_or(Source::Default, |(_, source)| source.clone())
    }

    /// The given settings under Kafka's broker names.
    pub(crate) fn broker(&self) -> Overrides {
        let values = self.values.iter().filter(|(name, _)| config::find(Scope::Broker, name).is_some());
        values.map(|(name, (value, _))| ((*name).to_owned(), value.clone())).collect()
    }
}

/// The setting of this name: one of ours, or a broker's.
fn find(name: &str) -> Result<&'static Setting, ConfigError> {
    if let Some(setting) = config::find(Scope::Process, name).or_else(|| config::find(Scope::Broker, name)) {
        return Ok(setting);
    }
    Err(ConfigError::UnknownName {
        scope: Scope::Broker,
        name: name.to_owned(),
        hint: config::hint(name, known_names()),
    })
}

/// Every name that may be given.
fn known_names() -> impl Iterator<Item = &'static str> {
    let ours = config::settings(Scope::Process).map(|setting| setting.name);
    ours.chain(config::settings(Scope::Broker).map(|setting| setting.name))
}
