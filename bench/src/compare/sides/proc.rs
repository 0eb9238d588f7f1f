//! What a process uses, from Linux's `/proc`.

use std::fs;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::compare::machine::{field, kibibytes};
use crate::runtimes::Usage;

/// A process that is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
}

impl Process {
    /// Sends a signal.
    ///
    /// # Errors
    /// When the process is gone.
    pub(crate) fn signal(self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.pid.cast_signed()).context("no process has this id")?;
        kill_process(pid, signal).with_context(|| format!("send a signal to process {}", self.pid))
    }

    /// Whether the process is there and has not ended.
    pub(crate) fn runs(self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid));
        status.is_ok_and(|status| field(&status, "State").is_some_and(|state| !state.starts_with(['Z', 'X'])))
    }

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
