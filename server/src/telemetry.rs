//! Logs: to standard error, as text on a terminal and as JSON elsewhere; how much, can be changed while the process runs.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Arc;

use parking_lot::Mutex;
use taffrail_broker::Loggers;
use taffrail_core::control::{LogLevel, LoggerChanges, ROOT_LOGGER};
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use crate::options::{LogFormat, Options, OptionsError};

/// Libraries that tell at `info` what only their builders understand. A directive that names one of them wins.
/// openraft calls every call to a controller that is away an error; what matters of that is told by the controller.
const QUIET: &str =
    "openraft=warn,openraft::replication=off,openraft::core=off,sled=warn,h2=warn,hyper=warn,tonic=warn,tower=warn";

/// What people see on a terminal who did not ask for more: what is wrong, and what becomes of the files that they edit.
const TERMINAL: &str = "warn,taffrail_operator=info";

/// What is logged elsewhere.
const ELSEWHERE: &str = "info";

/// Who logs in this process: our crates, and libraries. Each is a logger that an administrator finds by this name.
const LOGGERS: [&str; 11] = [
    "taffrail",
    "taffrail_broker",
    "taffrail_controller",
    "taffrail_operator",
    "taffrail_runtime",
    "taffrail_storage",
    "h2",
    "hyper",
    "openraft",
    "tonic",
    "tower",
];

/// Starts logging as the options say; once in a process. What it returns changes levels later.
pub(crate) fn start(options: &Options) -> Result<Arc<LogLevels>, OptionsError> {
    let terminal = std::io::stderr().is_terminal();
    let default = if terminal { TERMINAL } else { ELSEWHERE };
    let at_start: Targets = format!("{QUIET},{}", options.log_filter.as_deref().unwrap_or(default))
        .parse()
        .map_err(|error| OptionsError::Conflict(format!("log_filter: {error}")))?;
    let json = match options.log_format {
        LogFormat::Auto => !terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let layer = fmt::layer().with_writer(std::io::stderr);
    let layer = if json {
        layer.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
    } else if terminal {
        // Seconds since the start are short, and what somebody who watches asks for.
        layer.with_ansi(colour).with_target(false).with_timer(fmt::time::uptime()).boxed()
    } else {
        layer.with_ansi(false).with_target(false).boxed()
    };
    let (filter, handle) = reload::Layer::<_, Registry>::new(at_start.clone());
    let started = tracing_subscriber::registry().with(filter).with(layer).try_init();
    started.map_err(|error| OptionsError::Conflict(format!("logging was started twice: {error}")))?;
    let apply = move |filter| handle.reload(filter).map_err(|error| error.to_string());
    Ok(Arc::new(LogLevels::new(at_start, Box::new(apply))))
}

/// Puts a filter in place of the one that counts.
type Apply = Box<dyn Fn(Targets) -> Result<(), String> + Send + Sync>;

/// The levels of the process's loggers.
pub(crate) struct LogLevels {
    /// What the process was started with.
    at_start: Targets,
    /// What administrators have set since.
    set: Mutex<BTreeMap<String, LogLevel>>,
    apply: Apply,
}

impl LogLevels {
    fn new(at_start: Targets, apply: Apply) -> Self {
        Self { at_start, set: Mutex::new(BTreeMap::new()), apply }
    }

    /// The filter with these levels in place of those at the start.
    fn filter(&self, set: &BTreeMap<String, LogLevel>) -> Targets {
        let with = |filter: Targets, (logger, level): (&String, &LogLevel)| match logger.as_str() {
            ROOT_LOGGER => filter.with_default(level_filter(*level)),
            logger => filter.with_target(logger, level_filter(*level)),
        };
        set.iter().fold(self.at_start.clone(), with)
    }
}

impl Loggers for LogLevels {
    fn levels(&self) -> BTreeMap<String, LogLevel> {
        let filter = self.filter(&self.set.lock());
        let root = log_level(filter.default_level().unwrap_or(LevelFilter::OFF));
        let levels = LOGGERS.iter().map(|logger| ((*logger).to_owned(), level_of(&filter, logger)));
        levels.chain([(ROOT_LOGGER.to_owned(), root)]).collect()
    }

    fn change(&self, changes: LoggerChanges) -> Result<(), String> {
        // Held over the change of the filter, so that two administrators cannot leave it as neither wanted.
        let mut set = self.set.lock();
        let mut after = set.clone();
        for (logger, level) in changes {
            tracing::warn!(
                logger,
                level = level.map_or("as at the start", LogLevel::name),
                "a level of the log is changed"
            );
            match level {
                Some(level) => after.insert(logger, level),
                None => after.remove(&logger),
            };
        }
        (self.apply)(self.filter(&after))?;
        *set = after;
        Ok(())
    }
}

/// The most talkative level that a logger's messages pass at.
fn level_of(filter: &Targets, logger: &str) -> LogLevel {
    let passes = |level: &LogLevel| {
        level_filter(*level).into_level().is_some_and(|level: Level| filter.would_enable(logger, &level))
    };
    LogLevel::ALL.into_iter().find(passes).unwrap_or(LogLevel::Fatal)
}

/// Nothing here is logged as fatal, so that level lets nothing pass.
fn level_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Trace => LevelFilter::TRACE,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Fatal => LevelFilter::OFF,
    }
}

fn log_level(filter: LevelFilter) -> LogLevel {
    LogLevel::ALL.into_iter().find(|level| level_filter(*level) == filter).unwrap_or(LogLevel::Fatal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started_with(filter: &str) -> (LogLevels, Arc<Mutex<Vec<Targets>>>) {
        let applied = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&applied);
        let apply = move |filter| {
            seen.lock().push(filter);
            Ok(())
        };
        (LogLevels::new(format!("{QUIET},{filter}").parse().unwrap(), Box::new(apply)), applied)
    }

    fn change(levels: &LogLevels, logger: &str, level: Option<LogLevel>) {
        levels.change([(logger.to_owned(), level)].into()).unwrap();
    }

    fn level(levels: &LogLevels, logger: &str) -> LogLevel {
        levels.levels()[logger]
    }

    #[test]
    fn levels_are_those_of_the_filter_at_the_start() {
        let (levels, _) = started_with("info,taffrail_storage=debug");
        let expected = [
            ("root", LogLevel::Info),
            ("taffrail_storage", LogLevel::Debug),
            ("taffrail_broker", LogLevel::Info),
            ("openraft", LogLevel::Warn),
        ];
        for (logger, wanted) in expected {
            assert_eq!(level(&levels, logger), wanted, "{logger}");
        }
        assert_eq!(levels.levels().len(), LOGGERS.len() + 1);
    }

    #[test]
    fn the_roots_level_counts_for_all_that_have_none_of_their_own() {
        let (levels, applied) = started_with("info");
        change(&levels, ROOT_LOGGER, Some(LogLevel::Trace));
        change(&levels, "taffrail_broker", Some(LogLevel::Error));
        assert_eq!(level(&levels, "taffrail_storage"), LogLevel::Trace);
        assert_eq!(level(&levels, "taffrail_broker"), LogLevel::Error);
        assert_eq!(level(&levels, "openraft"), LogLevel::Warn);
        let filter = applied.lock().last().cloned().unwrap();
        assert!(filter.would_enable("taffrail_storage::log", &Level::TRACE));
        assert!(!filter.would_enable("taffrail_broker::listener", &Level::WARN));
    }

    #[test]
    fn a_level_that_is_taken_away_is_again_what_it_was_at_the_start() {
        let (levels, _) = started_with("info");
        for (logger, at_start) in [("openraft", LogLevel::Warn), ("taffrail_broker", LogLevel::Info)] {
            for set in LogLevel::ALL {
                change(&levels, logger, Some(set));
                assert_eq!(level(&levels, logger), set, "{logger}");
            }
            change(&levels, logger, None);
            assert_eq!(level(&levels, logger), at_start, "{logger}");
        }
    }

    #[test]
    fn levels_stay_as_they_were_if_the_filter_cannot_be_changed() {
        let levels = LogLevels::new("info".parse().unwrap(), Box::new(|_| Err("gone".to_owned())));
        let refused = levels.change([(ROOT_LOGGER.to_owned(), Some(LogLevel::Error))].into());
        assert_eq!(refused, Err("gone".to_owned()));
        assert_eq!(level(&levels, ROOT_LOGGER), LogLevel::Info);
    }
}
