//! Taffrail as six processes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use super::cluster::SETTINGS;
use super::taffrail::{binary, command};
use super::{BROKERS, CONTROLLERS, Cluster, Endpoint, NodeId, Process, unix_ns};

/// From the first port of a run to those of Taffrail's brokers, controllers, and metrics of all.
const BROKERS_AT: u16 = 10;
const CONTROLLERS_AT: u16 = 20;
const METRICS_AT: u16 = 30;

/// Three brokers and three controllers.
#[derive(Debug)]
pub(super) struct TaffrailCluster {
    nodes: BTreeMap<NodeId, Child>,
    cluster_id: String,
    first_port: u16,
    folder: TempDir,
}

/// Ports of all that listens.
pub(super) fn ports(first: u16) -> Vec<u16> {
    let of = |at: u16| [first + at, first + at + 1, first + at + 2];
    [of(BROKERS_AT), of(CONTROLLERS_AT), of(METRICS_AT), of(METRICS_AT + 3)].concat()
}

impl TaffrailCluster {
    pub(super) fn prepare(folder: &Path, first_port: u16) -> Result<Self> {
        let folder = TempDir::with_prefix_in("taffrail-", folder).context("make a data folder")?;
        let output =
            Command::new(binary()).args(["cluster", "new-id"]).output().context("run taffrail cluster new-id")?;
        ensure!(output.status.success(), "taffrail cluster new-id: {}", output.status);
        let cluster_id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(Self { nodes: BTreeMap::new(), cluster_id, first_port, folder })
    }

    /// Where controllers listen.
    fn controllers(&self) -> String {
        self.listeners(CONTROLLERS_AT)
    }

    fn listeners(&self, at: u16) -> String {
        [0, 1, 2].map(|index| format!("127.0.0.1:{}", self.first_port + at + index)).join(",")
    }

    /// The command that starts a node.
    fn command(&self, node: NodeId) -> Result<Command> {
        let is_broker = BROKERS.contains(&node);
        let index = u16::try_from((node - 1) % 100)?;
        let (role, listen) = match is_broker {
            true => ("broker", self.first_port + BROKERS_AT + index),
            false => ("controller", self.first_port + CONTROLLERS_AT + index),
        };
        let metrics = self.first_port + METRICS_AT + index + if is_broker { 0 } else { 3 };
        let home = self.folder.path().join(format!("{role}-{node}"));
        let mut command = command(&self.folder.path().join(format!("{role}-{node}.log")))?;
        command
            .args([role, "--node-id", &node.to_string(), "--controllers", &self.controllers()])
            .args(["--listen", &format!("127.0.0.1:{listen}"), "--metrics", &format!("127.0.0.1:{metrics}")])
            .args(["--cluster-id", &self.cluster_id, "--data-dir"])
            .arg(home);
        for setting in SETTINGS {
            command.args(["--set", setting]);
        }
        if !is_broker {
            command.arg("--bootstrap");
        }
        Ok(command)
    }
}

impl Endpoint for TaffrailCluster {
    fn bootstrap(&self) -> String {
        self.listeners(BROKERS_AT)
    }

    fn brokers(&self) -> Result<Vec<Process>> {
        BROKERS.iter().map(|node| self.process(*node)).collect()
    }
}

impl Cluster for TaffrailCluster {
    fn start(&mut self) -> Result<i64> {
        let begun = unix_ns()?;
        for node in CONTROLLERS.into_iter().chain(BROKERS) {
            self.start_node(node)?;
        }
        Ok(begun)
    }

    fn stop(&mut self) -> Result<()> {
        for process in self.processes()? {
            process.signal(Signal::TERM)?;
        }
        for (node, mut child) in std::mem::take(&mut self.nodes) {
            let status = child.wait()?;
            ensure!(status.success(), "node {node} ended with {status}");
        }
        Ok(())
    }

    fn start_node(&mut self, node: NodeId) -> Result<()> {
        ensure!(!self.nodes.contains_key(&node), "node {node} runs");
        let child = self.command(node)?.spawn().with_context(|| format!("start {}", binary().display()))?;
        self.nodes.insert(node, child);
        Ok(())
    }

    fn kill_node(&mut self, node: NodeId) -> Result<i64> {
        let mut child = self.nodes.remove(&node).with_context(|| format!("node {node} does not run"))?;
        let at = unix_ns()?;
        child.kill()?;
        child.wait()?;
        Ok(at)
    }

    fn process(&self, node: NodeId) -> Result<Process> {
        Ok(Process { pid: self.nodes.get(&node).with_context(|| format!("node {node} does not run"))?.id() })
    }
}

impl Drop for TaffrailCluster {
    fn drop(&mut self) {
        for child in self.nodes.values_mut() {
            // It may have ended by itself.
            let _ended = child.kill().and_then(|()| child.wait());
        }
    }
}
