//! Logs: to standard error, as text on a terminal and as JSON elsewhere.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::options::{LogFormat, Options, OptionsError};

/// Libraries that tell at `info` what only their builders understand. A directive that names one of them wins.
const QUIET: &str = "openraft=warn,sled=warn,h2=warn,hyper=warn,tonic=warn,tower=warn";

/// What people see on a terminal who did not ask for more: what is wrong, and what becomes of the files that they edit.
const TERMINAL: &str = "warn,taffrail_operator=info";

/// What is logged elsewhere.
const ELSEWHERE: &str = "info";

/// Starts logging as the options say; once in a process.
pub(crate) fn start(options: &Options) -> Result<(), OptionsError> {
    let terminal = std::io::stderr().is_terminal();
    let default = if terminal { TERMINAL } else { ELSEWHERE };
    let filter = EnvFilter::try_new(format!("{QUIET},{}", options.log_filter.as_deref().unwrap_or(default)))
        .map_err(|error| OptionsError::Conflict(format!("log_filter: {error}")))?;
    let json = match options.log_format {
        LogFormat::Auto => !terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = if json {
        builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    } else if terminal {
        // Seconds since the start are short, and what somebody who watches asks for.
        builder.with_ansi(colour).with_target(false).with_timer(tracing_subscriber::fmt::time::uptime()).try_init()
    } else {
        builder.with_ansi(false).with_target(false).try_init()
    };
    started.map_err(|error| OptionsError::Conflict(format!("logging was started twice: {error}")))
}
