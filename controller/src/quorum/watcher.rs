//! Watches over the leader: a call that lasts as long as it leads.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use taffrail_protocol::rpc::v1;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{task, time};
use tonic::{Code, Status};

use super::liveness::{Link, Liveness};
use crate::raft::links::Links;
use crate::raft::messages::RAFT_VERSION;
use crate::raft::{Member, NodeId, Raft};

/// How long to leave a leader alone that could not be watched.
const RETRY: Duration = Duration::from_millis(100);

/// Keeps the watch over whoever leads.
pub(crate) struct Watcher {
    pub(crate) raft: Raft,
    pub(crate) links: Arc<Links>,
    pub(crate) liveness: Arc<Liveness>,
    pub(crate) shutdown: Shutdown,
}

impl Watcher {
    /// Starts the task.
    pub(crate) fn start(self) -> task::JoinHandle<()> {
        task::spawn_until(self.shutdown.clone(), async move { self.run().await })
    }

    async fn run(&self) {
        let mut metrics = self.raft.server_metrics();
        loop {
            let leader = {
                let metrics = metrics.borrow_and_update();
                let member = metrics.current_leader.filter(|leader| *leader != metrics.id);
                member.and_then(|id| Some((id, metrics.membership_config.membership().get_node(&id)?.clone())))
            };
            let Some((id, member)) = leader else {
                if metrics.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let replaced = async {
                let other = metrics.wait_for(|metrics| metrics.current_leader != Some(id)).await;
                other.is_err()
            };
            tokio::select! {
                () = self.watch(id, &member) => time::sleep(RETRY).await,
                stopped = replaced => if stopped { return },
            }
        }
    }

    /// Watches over one leader until the watch ends, and finds out what that means.
    async fn watch(&self, id: NodeId, member: &Member) {
        let status = self.follow(id, &member.address).await;
        if status.code() == Code::FailedPrecondition {
            // It lives, and says itself that it does not lead.
            return self.liveness.set_link(Link::Gone(id));
        }
        self.liveness.set_link(Link::Lost(id));
        let refused = self
            .links
            .probe(&member.address)
            .await
            .is_err_and(|error| matches!(error.kind(), ErrorKind::ConnectionRefused));
        if refused {
            tracing::warn!(leader = %id, address = member.address, "the active controller's process is gone");
            self.liveness.set_link(Link::Gone(id));
        }
    }

    /// Watches as long as the leader does not end it; each message is a sign that its process lives.
    async fn follow(&self, id: NodeId, address: &str) -> Status {
        let mut client = match self.links.raft(address) {
            Ok(client) => client,
            Err(error) => return Status::unavailable(error.to_string()),
        };
        let watched = client.watch(v1::WatchRequest { format_version: RAFT_VERSION }).await;
        let mut stream = match watched {
            Ok(stream) => stream.into_inner(),
            Err(status) => return status,
        };
        self.liveness.set_link(Link::Up(id));
        loop {
            match stream.message().await {
                Ok(Some(_)) => self.liveness.pulsed(),
                Ok(None) => return Status::unavailable("the watch ended"),
                Err(status) => return status,
            }
        }
    }
}
