//! Apache Kafka as six processes, by way of `e2e/peer`.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use super::kafka::script;
use super::{BROKERS, Cluster, Endpoint, NodeId, Process, unix_ns};

/// From the first port of a run to those of the controllers.
const CONTROLLERS_AT: u16 = 100;
/// How long a process that was killed may take to end.
const END_MAX: Duration = Duration::from_secs(10);

/// Three brokers and three controllers.
#[derive(Debug)]
pub(super) struct KafkaCluster {
    nodes: BTreeMap<NodeId, Process>,
    first_port: u16,
    folder: TempDir,
}

/// Ports of all that listens.
pub(super) fn ports(first: u16) -> Vec<u16> {
    [0, 1, 2].into_iter().flat_map(|index| [first + index, first + CONTROLLERS_AT + index]).collect()
}

impl KafkaCluster {
    pub(super) fn format(folder: &Path, first_port: u16) -> Result<Self> {
        let folder = TempDir::with_prefix_in("kafka-", folder).context("make a data folder")?;
        let port = first_port.to_string();
        script(folder.path(), "up", &["--brokers", "3", "--controllers", "3", "--port", &port, "--format-only"])?;
        Ok(Self { nodes: BTreeMap::new(), first_port, folder })
    }
}

impl Endpoint for KafkaCluster {
    fn bootstrap(&self) -> String {
        [0, 1, 2].map(|index| format!("127.0.0.1:{}", self.first_port + index)).join(",")
    }

    fn brokers(&self) -> Result<Vec<Process>> {
        BROKERS.iter().map(|node| self.process(*node)).collect()
    }
}

impl Cluster for KafkaCluster {
    /// Controllers first, as the peer does it: brokers that meet the first leader of a quorum which has lost its place may
    /// cling to it.
    fn start(&mut self) -> Result<i64> {
        ensure!(self.nodes.is_empty(), "it runs");
        let begun = unix_ns()?;
        for line in script(self.folder.path(), "up", &["--keep"])?.lines() {
            // `node-1 pid 4711`
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [node, "pid", pid] = words[..] {
                let node = node.strip_prefix("node-").context("a node has another name")?.parse()?;
                self.nodes.insert(node, Process { pid: pid.parse()? });
            }
        }
        Ok(begun)
    }

    /// Brokers first, as whoever knows Kafka does it: they wait for controllers, to hand over.
    fn stop(&mut self) -> Result<()> {
        self.nodes.clear();
        script(self.folder.path(), "down", &[]).map(drop)
    }

    fn start_node(&mut self, node: NodeId) -> Result<()> {
        let pid = script(self.folder.path(), "node", &["start", &node.to_string()])?;
        let pid = pid.trim().parse().with_context(|| format!("{pid:?} is not a process id"))?;
        self.nodes.insert(node, Process { pid });
        Ok(())
    }

    fn kill_node(&mut self, node: NodeId) -> Result<i64> {
        let process = self.nodes.remove(&node).with_context(|| format!("node {node} does not run"))?;
        let at = unix_ns()?;
        process.signal(Signal::KILL)?;
        let sent = Instant::now();
        while process.runs() {
            ensure!(sent.elapsed() < END_MAX, "node {node} was killed and did not end");
            sleep(Duration::from_millis(5));
        }
        Ok(at)
    }

    fn process(&self, node: NodeId) -> Result<Process> {
        self.nodes.get(&node).copied().with_context(|| format!("node {node} does not run"))
    }
}

impl Drop for KafkaCluster {
    fn drop(&mut self) {
        for process in self.nodes.values() {
            // It may have ended by itself, or be halted; the script ends no other process than the node's.
            drop(process.signal(Signal::KILL));
        }
    }
}
