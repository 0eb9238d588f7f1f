//! What a process uses, from Linux's `/proc`.

use std::fs;

use anyhow::{Context, Result};

use crate::compare::machine::{field, kibibytes};
use crate::runtimes::Usage;

/// A process that is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
}

impl Process {
    /// Resident memory in decimal megabytes.
    ///
    /// # Errors
    /// When the process is gone.
    pub(crate) fn rss_mb(self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).context("the broker is gone")?;
        let kibibytes = field(&status, "VmRSS").and_then(kibibytes).context("no VmRSS in the broker's status")?;
        Ok(kibibytes as f64 * 1024.0 / 1e6)
    }

    /// Time on a processor so far, of the threads that it has now, in nanoseconds.
    ///
    /// # Errors
    /// When the process is gone.
    pub(crate) fn cpu_ns(self) -> Result<u64> {
        Ok(Usage::of(self.pid).context("the broker is gone")?.cpu_ns)
    }
}
