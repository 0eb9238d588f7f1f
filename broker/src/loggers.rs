//! The process's loggers, which belong to whoever started the process.

use std::collections::BTreeMap;

use taffrail_core::control::{LogLevel, LoggerChanges};

/// What the process logs, for administrators who read and change it while it runs.
pub trait Loggers: Send + Sync {
    /// Every logger that can be changed, with the level that counts for it now.
    fn levels(&self) -> BTreeMap<String, LogLevel>;

    /// Makes all of the changes, until the process ends. A logger whose level is taken away has the one that it was started
    /// with, or the root's.
    ///
    /// # Errors
    /// Why nothing has changed, for people.
    fn change(&self, changes: LoggerChanges) -> Result<(), String>;
}
