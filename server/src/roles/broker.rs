//! A broker: its place in the cluster, its listener.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::StreamExt;
use futures::channel::mpsc;
use futures::future::{Either, select};
use taffrail_broker::{
    Broker, BrokerParts, ControllerHandle, Loggers, Registration, RegistrationError, follow_metadata,
};
use taffrail_core::config::{BrokerConfig, BrokerLayers, Overrides};
use taffrail_core::control::RegisterBroker;
use taffrail_core::event::{Listener, SecurityProtocol};
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_core::image::MetadataImage;
use taffrail_runtime::grpc::Target;
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::shard::Shards;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{random, task};
use taffrail_storage::{Maintenance, Storage};

use super::broker_files::claim;
use crate::options::Options;

/// Name of the listener.
pub(crate) const LISTENER: &str = "PLAINTEXT";

/// Why a role ended by itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RoleEnd {
    /// The broker is out of the cluster.
    #[error("the broker failed: {0}")]
    Broker(RegistrationError),
    /// Signals cannot be received.
    #[error("signals cannot be received: {0}")]
    Signals(String),
    /// The partitions' directory is not there any more.
    #[error("{0}")]
    DirectoryLost(String),
    /// The listener ended.
    #[error("the listener ended")]
    Listener,
}

/// What a broker is started with.
pub(crate) struct BrokerStart {
    pub(crate) id: BrokerId,
    pub(crate) cluster_id: Uuid,
    pub(crate) static_config: Overrides,
    pub(crate) controllers: Vec<(String, Target)>,
    pub(crate) storage: Arc<Storage>,
    pub(crate) advertised: (String, u16),
    pub(crate) logs: PathBuf,
    pub(crate) shards: Option<usize>,
    pub(crate) loggers: Arc<dyn Loggers>,
}

/// A broker that is part of the cluster.
pub(crate) struct BrokerRole {
    broker: Arc<Broker>,
    storage: Arc<Storage>,
    controllers: Arc<ControllerHandle>,
    shards: Arc<Shards>,
    /// Ends the listener.
    serving: Shutdown,
    /// Ends the broker's part in the cluster.
    member: Shutdown,
    listener: Option<task::JoinHandle<()>>,
    following: task::JoinHandle<()>,
    keeping: task::JoinHandle<Registration>,
    maintaining: task::JoinHandle<()>,
    ends: mpsc::Sender<RoleEnd>,
    ended: mpsc::Receiver<RoleEnd>,
}

impl BrokerRole {
    /// Brings the broker into the cluster: it follows the metadata, is registered and unfenced. It takes no clients yet.
    pub(crate) async fn start(start: BrokerStart) -> anyhow::Result<Self> {
        let directory_id = claim(&start.logs, start.id, start.cluster_id)?;
        let controllers = Arc::new(ControllerHandle::new(start.controllers)?);
        let broker = Broker::new(BrokerParts {
            id: start.id,
            static_config: start.static_config.clone(),
            storage: Arc::clone(&start.storage),
            controller: Arc::clone(&controllers) as _,
            loggers: start.loggers,
        })?;
        let member = Shutdown::new();
        let (host, port) = start.advertised;
        let listener =
            Listener { name: LISTENER.into(), host: host.into(), port, security: SecurityProtocol::Plaintext };
        let config = config(&start.static_config)?;
        let request = RegisterBroker {
            id: start.id,
            cluster_id: Some(start.cluster_id),
            incarnation: random::uuid(),
            rack: config.broker_rack.map(Arc::from),
            listeners: vec![listener],
            log_dirs: vec![directory_id],
            features: std::collections::BTreeMap::new(),
            unclean_shutdown: false,
        };
        let mut registration = Registration::register(&controllers, request, &member).await?;
        // History ends with the registration: only from there on does the broker act on the metadata.
        let following = {
            let (controllers, broker, member) = (Arc::clone(&controllers), Arc::clone(&broker), member.clone());
            let epoch = registration.epoch();
            task::spawn(async move { follow_metadata(&controllers, &broker, epoch, &member).await })
        };
        registration.serve(&controllers, &broker.metadata, &member).await?;
        let (ends, ended) = mpsc::channel(1);
        let interval = Duration::from_millis(u64::try_from(config.broker_heartbeat_interval_ms).unwrap_or(2000));
        let keeping = {
            let (controllers, broker) = (Arc::clone(&controllers), Arc::clone(&broker));
            let (member, mut ends) = (member.clone(), ends.clone());
            task::spawn(async move {
                if let Err(error) = registration.keep(&controllers, &broker.metadata, interval, &member).await {
                    let _ = ends.try_send(RoleEnd::Broker(error));
                }
                registration
            })
        };
        {
            let (storage, member, mut ends) = (Arc::clone(&start.storage), member.clone(), ends.clone());
            drop(task::spawn(async move {
                if let Either::Left((reason, _)) = select(pin!(storage.lost()), pin!(member.triggered())).await {
                    let _ = ends.try_send(RoleEnd::DirectoryLost(reason.to_string()));
                }
            }));
        }
        let maintaining = {
            let (maintenance, member) = (Maintenance::new(Arc::clone(&start.storage)), member.clone());
            task::spawn(async move { maintenance.run(member).await })
        };
        let shards = Shards::start(start.shards.unwrap_or_else(processors), "taffrail-shard")?;
        Ok(Self {
            broker,
            storage: start.storage,
            controllers,
            shards: Arc::new(shards),
            serving: Shutdown::new(),
            member,
            listener: None,
            following,
            keeping,
            maintaining,
            ends,
            ended,
        })
    }

    /// The broker itself.
    pub(crate) fn handle(&self) -> Arc<Broker> {
        Arc::clone(&self.broker)
    }

    /// The metadata that the broker acts on.
    pub(crate) fn metadata(&self) -> Arc<MetadataImage> {
        self.broker.metadata.image()
    }

    /// The broker's metrics.
    pub(crate) fn registry(&self) -> prometheus::Registry {
        self.broker.metrics.registry.clone()
    }

    /// Takes clients from now on.
    pub(crate) fn serve(&mut self, socket: TcpListener) {
        let (broker, shards, serving) = (self.handle(), Arc::clone(&self.shards), self.serving.clone());
        let mut ends = self.ends.clone();
        self.listener = Some(task::spawn(async move {
            broker.serve(LISTENER.into(), socket, shards, serving.clone()).await;
            if !serving.is_triggered() {
                let _ = ends.try_send(RoleEnd::Listener);
            }
        }));
    }

    /// Waits until the broker fails.
    pub(crate) async fn failed(&mut self) -> RoleEnd {
        self.ended.next().await.unwrap_or(RoleEnd::Listener)
    }

    /// Answers what clients are owed, leaves the cluster, and closes the files.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.serving.trigger();
        if let Some(listener) = self.listener {
            listener.await.context("the listener failed")?;
        }
        self.member.trigger();
        let registration = self.keeping.await.context("the registration failed")?;
        registration.leave(&self.controllers).await;
        self.following.await.context("following the metadata failed")?;
        self.maintaining.await.context("the storage's background work failed")?;
        self.storage.close().await;
        match self.storage.fenced() {
            Some(reason) => bail!("the next start recovers the partitions, which could not be closed: {reason}"),
            None => Ok(()),
        }
    }
}

/// The broker's settings that the process gives.
pub(crate) fn static_config(options: &Options, id: BrokerId, bound: SocketAddr, logs: &Path) -> Overrides {
    let mut config = options.broker.clone();
    let (host, port) = options.advertised(bound);
    let own = [
        ("node.id", id.to_string()),
        ("broker.id", id.to_string()),
        ("process.roles", "broker,controller".to_owned()),
        ("listeners", format!("{LISTENER}://{bound}")),
        ("advertised.listeners", format!("{LISTENER}://{host}:{port}")),
        ("listener.security.protocol.map", format!("{LISTENER}:PLAINTEXT")),
        ("inter.broker.listener.name", LISTENER.to_owned()),
        ("log.dirs", logs.display().to_string()),
    ];
    config.extend(own.map(|(name, value)| (name.to_owned(), value)));
    config
}

/// The same, typed.
pub(crate) fn config(static_config: &Overrides) -> anyhow::Result<BrokerConfig> {
    let layers = BrokerLayers { static_broker: static_config.clone(), ..BrokerLayers::default() };
    Ok(BrokerConfig::resolve(&layers)?)
}

/// Processors that this process may use.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
