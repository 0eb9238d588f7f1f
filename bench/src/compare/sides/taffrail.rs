//! Taffrail as a process: `taffrail up` with its defaults.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::{Broker, Endpoint, Ports, Process, unix_ns};

/// A `taffrail up` on a folder of its own.
#[derive(Debug)]
pub(crate) struct Taffrail {
    child: Option<Child>,
    folder: TempDir,
    kafka: SocketAddr,
    metrics: SocketAddr,
}

impl Taffrail {
    pub(super) fn prepare(folder: &Path, ports: Ports) -> Result<Self> {
        let folder = TempDir::with_prefix_in("taffrail-", folder).context("make a data folder")?;
        Ok(Self { child: None, folder, kafka: ports.taffrail(), metrics: ports.metrics() })
    }

    /// Where `/metrics` is served.
    pub(crate) fn metrics(&self) -> SocketAddr {
        self.metrics
    }
}

impl Endpoint for Taffrail {
    fn bootstrap(&self) -> String {
        self.kafka.to_string()
    }

    fn brokers(&self) -> Result<Vec<Process>> {
        Ok(vec![self.process()?])
    }
}

impl Broker for Taffrail {
    fn start(&mut self) -> Result<i64> {
        ensure!(self.child.is_none(), "it runs");
        let mut command = command(&self.folder.path().join("taffrail.log"))?;
        command
            .args(["up", "--listen", &self.kafka.to_string(), "--metrics", &self.metrics.to_string(), "--data-dir"])
            .arg(self.folder.path().join("data"));
        let begun = unix_ns()?;
        self.child = Some(command.spawn().with_context(|| format!("start {}", binary().display()))?);
        Ok(begun)
    }

    fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("it does not run")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    fn process(&self) -> Result<Process> {
        Ok(Process { pid: self.child.as_ref().context("it does not run")?.id() })
    }
}

impl Drop for Taffrail {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.kill();
    }
}

/// The binary under test, to be given arguments; what it says goes to the end of `log`.
pub(super) fn command(log: &Path) -> Result<Command> {
    let log = File::options().create(true).append(true).open(log)?;
    // What this process was told (TAFFRAIL_BIN, for one) is not for the one it starts, which refuses unknown settings.
    let ours = std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("TAFFRAIL_"));
    let mut command = Command::new(binary());
    command.env_clear().envs(ours).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command)
}

/// The binary under test: `TAFFRAIL_BIN`, else the one beside this program.
pub(crate) fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("TAFFRAIL_BIN") {
        return named.into();
    }
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name("taffrail")
}
