//! One controller: its parts, from start to stop.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taffrail_core::config::Overrides;
use taffrail_core::control::Command;
use taffrail_core::ids::Uuid;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::rpc::MESSAGE_BYTES_MAX;
use taffrail_protocol::rpc::v1::controller_server::ControllerServer;
use taffrail_protocol::rpc::v1::raft_server::RaftServer;
use taffrail_runtime::blocking::Pool;
use taffrail_runtime::grpc;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{random, task, time};
use tokio::sync::{oneshot, watch};
use tonic::service::Routes;

use crate::changes::ChangesMade;
use crate::decider::{Decider, Proposer};
use crate::directory::{Directory, Opening};
use crate::heartbeats::Heartbeats;
use crate::machine::feed::Feed;
use crate::opening::{self, Opened};
use crate::options::{ControllerError, ControllerOptions};
use crate::quorum::elector::Elector;
use crate::quorum::formation::{Former, Seat};
use crate::quorum::liveness::Liveness;
use crate::quorum::members::Members;
use crate::quorum::view::leads;
use crate::quorum::watcher::Watcher;
use crate::raft::links::Links;
use crate::raft::network::Network;
use crate::raft::route::Route;
use crate::raft::service::RaftService;
use crate::raft::{self, Member, NodeId, Raft};
use crate::service::ControllerService;
use crate::session_watch::SessionWatch;
use crate::sessions::Sessions;
use crate::store::reserve::Reserve;
use crate::tender::Tender;
use crate::view::ControllerView;

/// Threads for the store: one writes, one reads.
const STORE_THREADS: usize = 2;

/// Jobs that may wait for the store's threads.
const STORE_JOBS_MAX: usize = 256;

/// How long a controller that is alone waits until it leads.
const ELECTED_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a stop waits for what still uses the database.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a controller that is told to stop waits for brokers to say that they leave.
const LEAVING_PAUSE: Duration = Duration::from_millis(200);

/// How long it waits for all of them, if one has said so.
const LEAVING_TIMEOUT: Duration = Duration::from_secs(1);

/// Pause before the founding is tried again.
const FOUNDING_PAUSE: Duration = Duration::from_millis(20);

/// A running controller.
pub struct Controller {
    parts: Parts,
    members: Arc<Members>,
    shutdown: Shutdown,
    serving: task::JoinHandle<std::io::Result<()>>,
    others: Vec<task::JoinHandle<()>>,
    /// What has gone wrong beside Raft, if anything has.
    trouble: watch::Sender<Option<String>>,
    /// Ends when the database is closed.
    closed: Option<oneshot::Receiver<()>>,
    reserve: Option<Arc<Reserve>>,
    changes: Arc<ChangesMade>,
}

/// What its tasks share.
#[derive(Clone)]
struct Parts {
    raft: Raft,
    feed: Arc<Feed>,
    route: Arc<Route>,
    links: Arc<Links>,
    liveness: Arc<Liveness>,
    seat: Arc<Seat>,
    proposer: Proposer,
    pool: Pool,
    /// Locked as long as the controller runs.
    directory: Option<Arc<Mutex<Directory>>>,
}

impl Controller {
    /// Starts a controller. When it returns, the controller serves; a controller that is alone also leads, and has
    /// applied all that it had committed. One among others finds its place in the background.
    ///
    /// # Errors
    /// When its folder or store cannot be used, or the cluster cannot be founded.
    pub async fn start(options: ControllerOptions) -> Result<Self, ControllerError> {
        Self::start_with(options, opening::open).await
    }

    async fn start_with(
        options: ControllerOptions,
        open: impl FnOnce(&opening::Request) -> Result<Opened, ControllerError> + Send + 'static,
    ) -> Result<Self, ControllerError> {
        let pool = Pool::new("metadata", STORE_THREADS, STORE_JOBS_MAX);
        let feed = Arc::new(Feed::default());
        let is_alone = options.servers.iter().all(|server| *server == options.advertised);
        let opened = {
            let opening = Opening {
                controller: options.id,
                grant: options.bootstrap,
                expected: options.cluster,
                may_join: !is_alone,
                fresh: random::uuid(),
            };
            let (dir, pool, feed) = (options.metadata_dir, pool.clone(), Arc::clone(&feed));
            let request = opening::Request { dir, opening, pool: pool.clone(), feed };
            pool.run(move || open(&request)).await??
        };
        let Opened { node, cluster, expected, granted, founded, directory, reserve, log, machine, closed } = opened;
        let route = Arc::new(Route::new(node, cluster));
        let links = Arc::new(Links::new(options.dialer));
        let liveness = Arc::new(Liveness::new());
        let network = Network { route: Arc::clone(&route), links: Arc::clone(&links) };
        let raft = Raft::new(node, Arc::new(raft::config()), network, log, machine).await;
        let raft = raft.map_err(ControllerError::raft)?;
        let changes = Arc::<ChangesMade>::default();
        let static_config = options.static_config.clone();
        let inter_broker = options.static_config.get("inter.broker.listener.name").cloned();
        let sessions = Arc::new(Sessions::new(options.session_timeout));
        let (proposer, deciding) = Decider {
            raft: raft.clone(),
            feed: Arc::clone(&feed),
            sessions: Arc::clone(&sessions),
            liveness: Arc::clone(&liveness),
            static_config: options.static_config,
            reserve: reserve.clone(),
            changes: Arc::clone(&changes),
        }
        .start();
        let seat = Arc::new(Seat::new(options.advertised.clone(), granted, options.servers, founded));
        let directory = directory.map(|directory| Arc::new(Mutex::new(directory)));
        let parts = Parts { raft, feed, route, links, liveness, seat, proposer, pool, directory };
        let members = Arc::new(parts.members());
        let shutdown = Shutdown::new();
        let heartbeats = Arc::new(parts.heartbeats(Arc::clone(&sessions), inter_broker, &shutdown));
        let watching = parts.session_watch(sessions, Arc::clone(&heartbeats), &shutdown).start();
        let routes = parts.routes(heartbeats, &members, &shutdown);
        let serving = task::spawn(grpc::serve(options.listener, routes, shutdown.clone()));
        let (trouble, _) = watch::channel(None);
        let others = vec![deciding, watching];
        let mut controller = Self { parts, members, shutdown, serving, others, trouble, closed, reserve, changes };
        if is_alone {
            controller.parts.lead_alone(node, founded, Member { address: options.advertised }).await?;
            if !founded {
                controller.parts.clone().settle_in().await?;
            }
            controller.parts.seat.take();
        } else {
            controller.take_part(founded, expected);
        }
        controller.others.push(controller.parts.elector(&controller.shutdown).start());
        controller.others.push(controller.parts.watcher(&controller.shutdown).start());
        controller.others.push(controller.parts.tender(static_config, &controller.shutdown).start());
        Ok(controller)
    }

    /// Finds a place among the others, in the background.
    fn take_part(&mut self, founded: bool, expected: Option<Uuid>) {
        let former = self.parts.former(expected, &self.shutdown);
        self.spawn(former.run());
        if !founded {
            let (parts, shutdown) = (self.parts.clone(), self.shutdown.clone());
            self.spawn(async move {
                tokio::select! {
                    outcome = parts.settle_in() => outcome,
                    () = shutdown.triggered() => Ok(()),
                }
            });
        }
    }

    /// Runs a task whose failure is the controller's.
    fn spawn(&mut self, work: impl Future<Output = Result<(), ControllerError>> + Send + 'static) {
        let trouble = self.trouble.clone();
        self.others.push(task::spawn(async move {
            if let Err(error) = work.await {
                tracing::error!(%error, "the controller has no place in the cluster");
                trouble.send_replace(Some(error.to_string()));
            }
        }));
    }

    /// Identity of the cluster, once it is known.
    pub fn cluster_id(&self) -> Option<Uuid> {
        self.parts.route.cluster()
    }

    /// Waits until this controller knows the cluster's founding; gives the cluster's identity.
    pub async fn founded(&self) -> Uuid {
        let mut applied = self.parts.feed.subscribe();
        loop {
            applied.borrow_and_update();
            if let Some(cluster) = self.image().cluster_id() {
                return cluster;
            }
            if applied.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// A look at this controller, which is number `id`; it may outlive it.
    pub fn view(&self, id: i32) -> ControllerView {
        ControllerView {
            id,
            metrics: self.parts.raft.metrics(),
            feed: Arc::clone(&self.parts.feed),
            changes: Arc::clone(&self.changes),
        }
    }

    /// Whether this controller is the active one.
    pub fn is_active(&self) -> bool {
        leads(&self.parts.raft.metrics().borrow())
    }

    /// Whether this controller is the active one and has applied everything that was committed before.
    pub async fn is_current(&self) -> bool {
        self.is_active() && self.parts.raft.ensure_linearizable().await.is_ok()
    }

    /// The metadata as this controller has applied them.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.parts.feed.image()
    }

    /// Waits until the controller fails, for instance because its disk took no write. It answers nothing useful from then
    /// on: stop the process, and start it again when the cause is gone.
    pub async fn failed(&self) -> ControllerError {
        let mut trouble = self.trouble.subscribe();
        tokio::select! {
            error = raft::failed(&self.parts.raft) => error.into(),
            reason = trouble.wait_for(Option::is_some) => {
                let reason = reason.ok().and_then(|reason| reason.clone());
                ControllerError::Raft(reason.unwrap_or_default())
            }
        }
    }

    /// Hands leadership over, stops serving, then Raft; what is committed stays.
    ///
    /// # Errors
    /// When a part had failed before.
    pub async fn stop(self) -> Result<(), ControllerError> {
        self.wait_for_leaving().await;
        self.members.hand_over().await;
        self.shutdown.trigger();
        if let Some(reserve) = &self.reserve {
            reserve.close();
        }
        let served = self.serving.await;
        self.parts.raft.shutdown().await.map_err(ControllerError::raft)?;
        if let Some(directory) = self.parts.directory.clone() {
            // Whoever starts next may write there, or somebody may take the folder away.
            self.parts.pool.run(move || directory.lock().close()).await?;
        }
        drop(self.parts);
        drop(self.members);
        for other in self.others {
            other.await.map_err(ControllerError::raft)?;
        }
        if let Some(closed) = self.closed {
            // Messages to others may still be under way, which hold the log; whoever starts next needs it.
            let _ = time::timeout(CLOSE_TIMEOUT, closed).await;
        }
        Ok(served.map_err(ControllerError::raft)??)
    }
}

impl Controller {
    /// Waits for brokers that are about to leave: when a whole cluster is told to stop they need a majority of controllers
    /// to hand over in order.
    async fn wait_for_leaving(&self) {
        let mut applied = self.parts.feed.subscribe();
        let serving = || self.image().brokers().values().filter(|broker| !broker.fenced).count();
        let leaving = || self.image().brokers().values().any(|broker| broker.shutting_down && !broker.fenced);
        let before = serving();
        if time::timeout(LEAVING_PAUSE, applied.wait_for(|_| serving() == 0)).await.is_err()
            && (leaving() || serving() < before)
        {
            // It is not this controller alone that stops, nor only one of the brokers.
            let _ = time::timeout(LEAVING_TIMEOUT, applied.wait_for(|_| serving() == 0)).await;
        }
    }
}

impl Parts {
    /// Makes a new node the only voter, or has a node that is alone elected without waiting for a timeout.
    async fn lead_alone(&self, node: NodeId, founded: bool, member: Member) -> Result<(), ControllerError> {
        let initialized = self.raft.is_initialized().await.map_err(ControllerError::raft)?;
        if !initialized && !founded {
            let initialize = self.raft.initialize(BTreeMap::from([(node, member)])).await;
            initialize.map_err(ControllerError::raft)?;
        }
        let voters = self.raft.with_raft_state(|state| -> BTreeSet<NodeId> {
            state.membership_state.effective().membership().voter_ids().collect()
        });
        let voters = voters.await.map_err(ControllerError::raft)?;
        // Nobody would ever be elected, and everything that starts after it would wait for ever.
        if founded && voters.is_empty() {
            return Err(ControllerError::FoundingLost);
        }
        if voters == BTreeSet::from([node]) {
            if initialized {
                self.raft.trigger().elect().await.map_err(ControllerError::raft)?;
            }
            let elected = self.raft.wait(Some(ELECTED_TIMEOUT)).current_leader(node, "alone").await;
            elected.map_err(ControllerError::raft)?;
            self.raft.ensure_linearizable().await.map_err(ControllerError::raft)?;
            if founded && self.feed.image().cluster_id().is_none() {
                return Err(ControllerError::FoundingLost);
            }
        }
        Ok(())
    }

    /// Commits the founding of the cluster when this controller leads, or waits until another one has; then remembers it.
    async fn settle_in(self) -> Result<(), ControllerError> {
        let mut applied = self.feed.subscribe();
        let mut metrics = self.raft.metrics();
        let cluster = loop {
            applied.borrow_and_update();
            let active = leads(&metrics.borrow_and_update());
            if let Some(cluster) = self.feed.image().cluster_id() {
                break cluster;
            }
            if let (true, Some(cluster_id)) = (active, self.route.cluster()) {
                match self.proposer.propose(Command::CreateCluster { cluster_id }).await {
                    Ok(_) => continue,
                    Err(refused) if self.seat.is_alone() => {
                        return Err(ControllerError::Founding(refused.error.to_string()));
                    }
                    Err(_) => time::sleep(FOUNDING_PAUSE).await,
                }
            }
            let stopped = tokio::select! {
                changed = applied.changed() => changed.is_err(),
                changed = metrics.changed() => changed.is_err(),
            };
            if stopped {
                return Ok(());
            }
        };
        if self.route.settle(cluster) != cluster {
            return Err(ControllerError::ForeignCluster { theirs: cluster });
        }
        if let Some(directory) = self.directory.clone() {
            self.pool.run(move || directory.lock().mark_founded()).await??;
        }
        Ok(())
    }

    fn members(&self) -> Members {
        let (route, links) = (Arc::clone(&self.route), Arc::clone(&self.links));
        Members::new(self.raft.clone(), route, links, Arc::clone(&self.liveness))
    }

    fn elector(&self, shutdown: &Shutdown) -> Elector {
        Elector {
            raft: self.raft.clone(),
            route: Arc::clone(&self.route),
            links: Arc::clone(&self.links),
            liveness: Arc::clone(&self.liveness),
            shutdown: shutdown.clone(),
        }
    }

    fn watcher(&self, shutdown: &Shutdown) -> Watcher {
        Watcher {
            raft: self.raft.clone(),
            links: Arc::clone(&self.links),
            liveness: Arc::clone(&self.liveness),
            shutdown: shutdown.clone(),
        }
    }

    fn former(&self, expected: Option<Uuid>, shutdown: &Shutdown) -> Former {
        Former {
            raft: self.raft.clone(),
            route: Arc::clone(&self.route),
            links: Arc::clone(&self.links),
            seat: Arc::clone(&self.seat),
            expected,
            directory: self.directory.clone(),
            pool: self.pool.clone(),
            shutdown: shutdown.clone(),
        }
    }

    fn session_watch(&self, sessions: Arc<Sessions>, heartbeats: Arc<Heartbeats>, shutdown: &Shutdown) -> SessionWatch {
        SessionWatch {
            sessions,
            heartbeats,
            raft: self.raft.clone(),
            feed: Arc::clone(&self.feed),
            proposer: self.proposer.clone(),
            shutdown: shutdown.clone(),
        }
    }

    fn tender(&self, static_config: Overrides, shutdown: &Shutdown) -> Tender {
        Tender {
            raft: self.raft.clone(),
            feed: Arc::clone(&self.feed),
            proposer: self.proposer.clone(),
            static_config,
            shutdown: shutdown.clone(),
        }
    }

    fn heartbeats(&self, sessions: Arc<Sessions>, inter_broker: Option<String>, shutdown: &Shutdown) -> Heartbeats {
        Heartbeats {
            raft: self.raft.clone(),
            feed: Arc::clone(&self.feed),
            sessions,
            liveness: Arc::clone(&self.liveness),
            proposer: self.proposer.clone(),
            inter_broker,
            shutdown: shutdown.clone(),
        }
    }

    fn routes(&self, heartbeats: Arc<Heartbeats>, members: &Arc<Members>, shutdown: &Shutdown) -> Routes {
        let controller = ControllerService {
            node: self.route.node(),
            raft: self.raft.clone(),
            feed: Arc::clone(&self.feed),
            heartbeats,
            links: Arc::clone(&self.links),
            seat: Arc::clone(&self.seat),
            members: Arc::clone(members),
            liveness: Arc::clone(&self.liveness),
            proposer: self.proposer.clone(),
            shutdown: shutdown.clone(),
        };
        let raft = RaftService {
            raft: self.raft.clone(),
            route: Arc::clone(&self.route),
            liveness: Arc::clone(&self.liveness),
            seat: Arc::clone(&self.seat),
            members: Arc::clone(members),
            shutdown: shutdown.clone(),
        };
        let controller = ControllerServer::new(controller)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let raft = RaftServer::new(raft)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Routes::new(controller).add_service(raft)
    }
}
