//! The controllers of `up`: one, or several that agree with each other through pipes in memory.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::future::{join_all, select, select_all};
use taffrail_client::controller::ControllerClient;
use taffrail_controller::{Controller, ControllerError, ControllerOptions, ControllerView, Dialer, MetadataDir};
use taffrail_core::config::Overrides;
use taffrail_core::ids::Uuid;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::rpc::{Quorum, VoterChange};
use taffrail_runtime::grpc::{Listener, Target, memory};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{random, task, time};

use super::data_dir::DataDir;
use crate::options::Options;

/// How long several controllers may take until one of them is active.
const ACTIVE_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause before it is looked again whether one is active, or whether all of them vote.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How long one more controller may take to copy the metadata.
const ADD_TIMEOUT: Duration = Duration::from_secs(30);

/// All controllers of this process.
pub(crate) struct QuorumRole {
    controllers: Vec<Controller>,
    members: Vec<(String, Target)>,
    /// The one that was active when all had started.
    active: usize,
    /// Gives a vote to those that were added since the last start.
    adopting: Option<task::JoinHandle<()>>,
}

/// What the controllers are called in the metadata; nobody dials them by this name.
fn address(id: i32) -> String {
    format!("controller-{id}:9093")
}

impl QuorumRole {
    /// Starts `count` controllers, or as many as there were before if that is more; one of them is active and has applied
    /// everything when this returns.
    pub(crate) async fn start(
        count: i32,
        options: &Options,
        dir: &DataDir,
        static_config: &Overrides,
        session_timeout: Duration,
        stop: &Shutdown,
    ) -> anyhow::Result<Self> {
        let ids = 1..=count.max(dir.controllers());
        let pipes: Vec<_> = ids.map(|id| (id, memory())).collect();
        let members: Vec<_> =
            pipes.iter().map(|(id, (_, connector))| (address(*id), Target::Memory(connector.clone()))).collect();
        let is_alone = members.len() == 1;
        let servers: Vec<String> =
            if is_alone { Vec::new() } else { members.iter().map(|(address, _)| address.clone()).collect() };
        let dialer = Dialer::with_in_memory(members.iter().cloned().collect::<BTreeMap<_, _>>());
        // Only a directory with nothing in it founds a cluster: lost metadata must not be taken for a new beginning.
        let bootstrap = dir.fresh.then(random::uuid);
        let starting =
            pipes.into_iter().map(|(id, (listener, _))| {
                let folder = dir.metadata(id);
                let metadata_dir =
                    if options.ephemeral { MetadataDir::Memory } else { MetadataDir::Folder(folder.clone()) };
                let started = Controller::start(ControllerOptions {
                    id,
                    metadata_dir,
                    bootstrap,
                    cluster: None,
                    servers: servers.clone(),
                    dialer: dialer.clone(),
                    listener: Listener::Memory(listener),
                    advertised: address(id),
                    static_config: static_config.clone(),
                    session_timeout,
                });
                async move {
                    started.await.with_context(|| format!("the controller cannot start from {}", folder.display()))
                }
            });
        let controllers = join_all(starting).await.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        let mut role = Self { controllers, members, active: 0, adopting: None };
        if !is_alone {
            role.active = role.wait_for_active().await?;
            let client = ControllerClient::new(role.members.clone())?;
            role.adopting = Some(task::spawn(adopt(client, role.members.len(), stop.clone())));
        }
        Ok(role)
    }

    async fn wait_for_active(&self) -> anyhow::Result<usize> {
        let deadline = time::monotonic() + ACTIVE_TIMEOUT;
        while time::monotonic() < deadline {
            for (index, controller) in self.controllers.iter().enumerate() {
                if controller.is_current().await && controller.image().cluster_id().is_some() {
                    return Ok(index);
                }
            }
            time::sleep(LOOK_AGAIN).await;
        }
        bail!("the {} controllers do not agree on an active one; see the log", self.controllers.len())
    }

    /// A look at each.
    pub(crate) fn views(&self) -> Vec<ControllerView> {
        (1..).zip(&self.controllers).map(|(id, controller)| controller.view(id)).collect()
    }

    /// Where they are.
    pub(crate) fn members(&self) -> Vec<(String, Target)> {
        self.members.clone()
    }

    /// The cluster that they keep the metadata of.
    pub(crate) async fn cluster_id(&self) -> Uuid {
        self.controllers[self.active].founded().await
    }

    /// The metadata as they were at the start.
    pub(crate) fn image(&self) -> Arc<MetadataImage> {
        self.controllers[self.active].image()
    }

    /// Waits until so many have failed that nothing can be decided any more.
    pub(crate) async fn failed(&self) -> ControllerError {
        let mut left: Vec<_> = self.controllers.iter().map(|controller| Box::pin(controller.failed())).collect();
        loop {
            let (error, _, rest) = select_all(left).await;
            if 2 * rest.len() <= self.controllers.len() {
                return error;
            }
            tracing::error!(%error, "one of the controllers has failed; the others go on");
            left = rest;
        }
    }

    /// Stops them, the active one last.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        if let Some(adopting) = self.adopting {
            adopting.await?;
        }
        let (active, others): (Vec<_>, Vec<_>) = self.controllers.into_iter().partition(Controller::is_active);
        let stopped = join_all(others.into_iter().map(Controller::stop)).await;
        for controller in active {
            controller.stop().await?;
        }
        stopped.into_iter().try_for_each(|stopped| Ok(stopped?))
    }
}

/// Gives a vote to controllers that only follow, until `count` have one.
async fn adopt(client: ControllerClient, count: usize, stop: Shutdown) {
    let adopting = async {
        loop {
            match client.describe_quorum(ADD_TIMEOUT).await {
                Ok(quorum) if quorum.voters.len() >= count => return,
                Ok(quorum) => add_observers(&client, quorum).await,
                Err(error) => tracing::warn!(%error, "the controllers cannot be asked who votes"),
            }
            time::sleep(LOOK_AGAIN).await;
        }
    };
    select(pin!(adopting), pin!(stop.triggered())).await;
}

async fn add_observers(client: &ControllerClient, quorum: Quorum) {
    for observer in quorum.observers {
        let change = VoterChange::Add { voter: observer.voter, address: observer.address, timeout: ADD_TIMEOUT };
        match client.change_voters(&change, ADD_TIMEOUT).await {
            Ok(()) => tracing::info!(controller = observer.voter.id, "one more controller has a vote"),
            Err(error) => tracing::debug!(controller = observer.voter.id, %error, "no vote for it yet"),
        }
    }
}
