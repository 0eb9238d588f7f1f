//! The ways to other controllers, and when each of them answered last.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use taffrail_protocol::rpc::MESSAGE_BYTES_MAX;
use taffrail_protocol::rpc::v1::controller_client::ControllerClient;
use taffrail_protocol::rpc::v1::raft_client::RaftClient;
use taffrail_runtime::cluster_secret::ClusterSecret;
use taffrail_runtime::grpc::{self, Target};
use taffrail_runtime::time::{self, Instant};
use tonic::transport::Channel;

use super::NodeId;

/// Where controllers are reached: at their address, which is resolved anew at each dial, or within this process.
#[derive(Debug, Clone, Default)]
pub struct Dialer {
    in_memory: Arc<BTreeMap<String, Target>>,
    secret: Option<ClusterSecret>,
}

impl Dialer {
    /// Dials those of `in_memory` there, and all others at their address.
    pub fn with_in_memory(in_memory: BTreeMap<String, Target>) -> Self {
        Self { in_memory: Arc::new(in_memory), secret: None }
    }

    /// Shows those at an address that this controller knows the cluster's secret.
    pub fn with_secret(self, secret: Option<ClusterSecret>) -> Self {
        Self { secret, ..self }
    }

    fn target(&self, address: &str) -> Target {
        let known = self.in_memory.get(address).cloned();
        known.unwrap_or_else(|| match &self.secret {
            Some(secret) => Target::Secured(address.to_owned(), secret.clone()),
            None => Target::Address(address.to_owned()),
        })
    }
}

/// When a node answered last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contact {
    /// On the clock of this process.
    pub(crate) at: Instant,
    /// In milliseconds since the epoch.
    pub(crate) unix_ms: i64,
    /// Whether another node answers at its address now: its disk was replaced.
    pub(crate) replaced: bool,
}

/// One connection to each address, shared by all who have something to say there.
#[derive(Debug, Default)]
pub(crate) struct Links {
    dialer: Dialer,
    channels: Mutex<BTreeMap<String, Channel>>,
    contacts: Mutex<BTreeMap<NodeId, Contact>>,
}

impl Links {
    pub(crate) fn new(dialer: Dialer) -> Self {
        Self { dialer, ..Self::default() }
    }

    fn channel(&self, address: &str) -> io::Result<Channel> {
        let mut channels = self.channels.lock();
        if let Some(channel) = channels.get(address) {
            return Ok(channel.clone());
        }
        let channel = grpc::connect(self.dialer.target(address))?;
        channels.insert(address.to_owned(), channel.clone());
        Ok(channel)
    }

    /// Raft calls to `address`.
    pub(crate) fn raft(&self, address: &str) -> io::Result<RaftClient<Channel>> {
        let client = RaftClient::new(self.channel(address)?);
        Ok(client.max_decoding_message_size(MESSAGE_BYTES_MAX).max_encoding_message_size(MESSAGE_BYTES_MAX))
    }

    /// Calls to the controller at `address` that brokers make.
    pub(crate) fn controller(&self, address: &str) -> io::Result<ControllerClient<Channel>> {
        let client = ControllerClient::new(self.channel(address)?);
        Ok(client.max_decoding_message_size(MESSAGE_BYTES_MAX).max_encoding_message_size(MESSAGE_BYTES_MAX))
    }

    /// Has the next call to `address` dial anew: whoever answered there may be elsewhere by now.
    pub(crate) fn renew(&self, address: &str) {
        self.channels.lock().remove(address);
    }

    /// Whether somebody listens at `address`.
    ///
    /// # Errors
    /// Connection refused if nobody does.
    pub(crate) async fn probe(&self, address: &str) -> io::Result<()> {
        grpc::probe(&self.dialer.target(address)).await
    }

    /// `node` has answered.
    pub(crate) fn answered(&self, node: NodeId) {
        let contact = Contact { at: time::monotonic(), unix_ms: time::unix_ms(), replaced: false };
        self.contacts.lock().insert(node, contact);
    }

    /// Another node answers at the address of `node`.
    pub(crate) fn replaced(&self, node: NodeId) {
        let mut contacts = self.contacts.lock();
        let now = Contact { at: time::monotonic(), unix_ms: time::unix_ms(), replaced: true };
        contacts.entry(node).and_modify(|contact| contact.replaced = true).or_insert(now);
    }

    /// When `node` answered last, if it ever did.
    pub(crate) fn contact(&self, node: NodeId) -> Option<Contact> {
        self.contacts.lock().get(&node).copied()
    }
}
