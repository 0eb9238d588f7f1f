//! What three brokers and three controllers have in common on both sides.

use anyhow::Result;
use rustix::process::Signal;

use super::{Endpoint, Process};

/// Number of a node.
pub(crate) type NodeId = u32;

/// The brokers.
pub(crate) const BROKERS: [NodeId; 3] = [1, 2, 3];
/// The controllers, processes of their own.
pub(crate) const CONTROLLERS: [NodeId; 3] = [101, 102, 103];

/// Settings of both sides that are not defaults: what people who want their records kept set. The peer sets them for Kafka.
pub(crate) const SETTINGS: [&str; 2] = ["default.replication.factor=3", "min.insync.replicas=2"];

/// Six processes on data folders of their own. They end, and their data goes, when it is dropped.
pub(crate) trait Cluster: Endpoint {
    /// Starts all nodes, none of which runs, on the data that is there. Says when it began, in nanoseconds of Unix time.
    fn start(&mut self) -> Result<i64>;
    /// Stops all nodes in order, and waits for their ends.
    fn stop(&mut self) -> Result<()>;
    /// Starts one node, and does not wait until it serves.
    fn start_node(&mut self, node: NodeId) -> Result<()>;
    /// Sends SIGKILL to one node and waits for its end. Says when it was sent, in nanoseconds of Unix time.
    fn kill_node(&mut self, node: NodeId) -> Result<i64>;
    /// The process of a node that runs.
    fn process(&self, node: NodeId) -> Result<Process>;
    /// Sends a signal that does not end a node. Says when, in nanoseconds of Unix time.
    fn signal(&self, node: NodeId, signal: Signal) -> Result<i64> {
        let at = super::unix_ns()?;
        self.process(node)?.signal(signal)?;
        Ok(at)
    }
    /// All processes.
    fn processes(&self) -> Result<Vec<Process>> {
        BROKERS.iter().chain(&CONTROLLERS).map(|node| self.process(*node)).collect()
    }
}
