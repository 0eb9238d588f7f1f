//! Apache Kafka as a process: one combined node with its defaults, by way of `e2e/peer`.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::{Broker, Endpoint, Ports, Process, unix_ns};
use crate::compare::results::workspace;

/// A Kafka node on a folder of its own.
#[derive(Debug)]
pub(crate) struct Kafka {
    pid: Option<u32>,
    folder: TempDir,
    address: SocketAddr,
}

impl Kafka {
    pub(super) fn format(folder: &Path, ports: Ports) -> Result<Self> {
        let folder = TempDir::with_prefix_in("kafka-", folder).context("make a data folder")?;
        let kafka = Self { pid: None, folder, address: ports.kafka() };
        kafka.script("up", &["--format-only", "--port", &kafka.address.port().to_string()])?;
        Ok(kafka)
    }

    fn script(&self, name: &str, arguments: &[&str]) -> Result<String> {
        script(self.folder.path(), name, arguments)
    }
}

/// Runs one of the peer's scripts on the nodes in `state`, and returns what it printed.
pub(super) fn script(state: &Path, name: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new("bash")
        .arg(workspace().join("e2e/peer").join(name))
        .args(arguments)
        .env("PEER_STATE", state)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("run e2e/peer/{name}"))?;
    ensure!(output.status.success(), "e2e/peer/{name} {arguments:?}: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

impl Endpoint for Kafka {
    fn bootstrap(&self) -> String {
        self.address.to_string()
    }

    fn brokers(&self) -> Result<Vec<Process>> {
        Ok(vec![self.process()?])
    }
}

impl Broker for Kafka {
    fn start(&mut self) -> Result<i64> {
        ensure!(self.pid.is_none(), "it runs");
        let begun = unix_ns()?;
        let pid = self.script("node", &["start", "1"])?;
        self.pid = Some(pid.trim().parse().with_context(|| format!("{pid:?} is not a process id"))?);
        Ok(begun)
    }

    fn kill(&mut self) -> Result<()> {
        ensure!(self.pid.take().is_some(), "it does not run");
        self.script("node", &["kill", "1"]).map(drop)
    }

    fn process(&self) -> Result<Process> {
        Ok(Process { pid: self.pid.context("it does not run")? })
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        if self.pid.is_some() {
            // It may have ended by itself.
            let _ended = self.kill();
        }
    }
}
