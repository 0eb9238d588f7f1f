//! A broker: its place in the cluster, its listener.

use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::StreamExt;
use futures::channel::mpsc;
use futures::future::{Either, join, select};
use taffrail_broker::{
    Broker, BrokerParts, ControllerHandle, Loggers, Registration, RegistrationError, follow_metadata, keep_in_sync,
};
use taffrail_core::config::{BrokerConfig, BrokerLayers, Overrides};
use taffrail_core::control::RegisterBroker;
use taffrail_core::event::{Listener, SecurityProtocol};
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_runtime::cluster_secret::ClusterSecret;
use taffrail_runtime::grpc::Target;
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::shard::Shards;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{random, task};
use taffrail_storage::{Maintenance, Storage};

use super::broker_files::BrokerFiles;
use super::extra_listener::ExtraListener;
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
    pub(crate) files: BrokerFiles,
    /// Host and port that clients and other brokers are told.
    pub(crate) advertised: (String, u16),
    /// Listeners besides.
    pub(crate) extra: Vec<ExtraListener>,
    /// What serves its connections.
    pub(crate) shards: Arc<Shards>,
    pub(crate) loggers: Arc<dyn Loggers>,
    /// What other brokers have to know to be taken for such.
    pub(crate) secret: Option<ClusterSecret>,
    /// How long handing over what it leads may take when it stops.
    pub(crate) leave_timeout: Duration,
}

/// A broker that is part of the cluster.
pub(crate) struct BrokerRole {
    broker: Arc<Broker>,
    storage: Arc<Storage>,
    shards: Arc<Shards>,
    /// Ends the listener.
    serving: Shutdown,
    /// Ends the heartbeats of every day; those of leaving come after them.
    keep: Shutdown,
    /// Ends the broker's part in the cluster.
    member: Shutdown,
    listeners: Vec<task::JoinHandle<()>>,
    leave_timeout: Duration,
    following: task::JoinHandle<()>,
    keeping: task::JoinHandle<Registration>,
    maintaining: task::JoinHandle<()>,
    ends: mpsc::Sender<RoleEnd>,
    ended: mpsc::Receiver<RoleEnd>,
}

impl BrokerRole {
    /// Brings the broker into the cluster: it follows the metadata, is registered and unfenced. It takes no clients yet.
    ///
    /// # Errors
    /// When the controllers refuse it, or its files are another cluster's; they are closed then.
    pub(crate) async fn start(start: BrokerStart) -> anyhow::Result<Self> {
        let storage = Arc::clone(&start.files.storage);
        match Self::join(start).await {
            Ok(role) => Ok(role),
            Err(error) => {
                storage.close().await;
                Err(error)
            }
        }
    }

    async fn join(start: BrokerStart) -> anyhow::Result<Self> {
        let BrokerStart { id, cluster_id, static_config, mut files, shards, .. } = start;
        let directory_id = files.claim(cluster_id)?;
        let storage = Arc::clone(&files.storage);
        let controllers = Arc::new(ControllerHandle::new(start.controllers)?);
        let broker = Broker::new(BrokerParts {
            id,
            static_config: static_config.clone(),
            storage: Arc::clone(&storage),
            controller: Arc::clone(&controllers) as _,
            loggers: start.loggers,
        })?;
        if let Some(secret) = start.secret {
            broker.set_cluster_secret(secret);
        }
        let (keep, member) = (Shutdown::new(), Shutdown::new());
        let (host, port) = start.advertised;
        let listener =
            Listener { name: LISTENER.into(), host: host.into(), port, security: SecurityProtocol::Plaintext };
        let config = config(&static_config)?;
        let request = RegisterBroker {
            id,
            cluster_id: Some(cluster_id),
            incarnation: random::uuid(),
            rack: config.broker_rack.map(Arc::from),
            listeners: std::iter::once(listener).chain(start.extra.iter().map(ExtraListener::registered)).collect(),
            log_dirs: vec![directory_id],
            features: std::collections::BTreeMap::new(),
            unclean_shutdown: files.boots.is_unclean(),
            min_in_sync: layers(&static_config).min_in_sync(),
        };
        let mut registration =
            Registration::register(Arc::clone(&controllers), Arc::clone(&broker), request, &member).await?;
        if let Err(error) = files.boots.told(registration.epoch()) {
            registration.leave(start.leave_timeout).await;
            return Err(error);
        }
        // History ends with the registration: only from there on does the broker act on the metadata.
        let following = {
            let (controllers, broker, member) = (Arc::clone(&controllers), Arc::clone(&broker), member.clone());
            let epoch = registration.epoch();
            task::spawn(async move {
                let following = follow_metadata(&controllers, &broker, epoch, &member);
                join(following, keep_in_sync(&broker, &member)).await;
            })
        };
        registration.serve(&member).await?;
        let (ends, ended) = mpsc::channel(1);
        let interval = Duration::from_millis(u64::try_from(config.broker_heartbeat_interval_ms).unwrap_or(2000));
        let keeping = {
            let (keep, mut ends) = (keep.clone(), ends.clone());
            task::spawn(async move {
                if let Err(error) = registration.keep(interval, &keep).await {
                    let _ = ends.try_send(RoleEnd::Broker(error));
                }
                registration
            })
        };
        {
            let (storage, member, mut ends) = (Arc::clone(&storage), member.clone(), ends.clone());
            drop(task::spawn(async move {
                if let Either::Left((reason, _)) = select(pin!(storage.lost()), pin!(member.triggered())).await {
                    let _ = ends.try_send(RoleEnd::DirectoryLost(reason.to_string()));
                }
            }));
        }
        let maintaining = {
            let (maintenance, member) = (Maintenance::new(Arc::clone(&storage)), member.clone());
            task::spawn(async move { maintenance.run(member).await })
        };
        Ok(Self {
            broker,
            storage,
            shards,
            serving: Shutdown::new(),
            keep,
            member,
            listeners: Vec::new(),
            leave_timeout: start.leave_timeout,
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

    /// Tells at any time whether the broker is unfenced, as far as it knows.
    pub(crate) fn unfenced(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let broker = self.handle();
        move || broker.metadata.image().broker(broker.id).is_some_and(|known| !known.fenced)
    }

    /// Takes clients from now on.
    pub(crate) fn serve(&mut self, socket: TcpListener) {
        self.serve_as(LISTENER, socket);
    }

    /// Takes clients of the listener of this name, beside those of [`Self::serve`].
    pub(crate) fn serve_as(&mut self, name: &str, socket: TcpListener) {
        let name: Arc<str> = name.into();
        let (broker, shards, serving) = (self.handle(), Arc::clone(&self.shards), self.serving.clone());
        let mut ends = self.ends.clone();
        self.listeners.push(task::spawn(async move {
            broker.serve(name, socket, shards, serving.clone()).await;
            if !serving.is_triggered() {
                let _ = ends.try_send(RoleEnd::Listener);
            }
        }));
    }

    /// Waits until the broker fails.
    pub(crate) async fn failed(&mut self) -> RoleEnd {
        self.ended.next().await.unwrap_or(RoleEnd::Listener)
    }

    /// Leaves the cluster, answers what clients are owed, and closes the files.
    ///
    /// Leaving comes first: others lead when the listener closes, so a client that loses its connection here is served
    /// where the metadata send it, and never finds a port closed that a leader is said to be at.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.keep.trigger();
        let mut registration = self.keeping.await.context("the registration failed")?;
        registration.leave(self.leave_timeout).await;
        self.serving.trigger();
        for listener in self.listeners {
            listener.await.context("the listener failed")?;
        }
        self.member.trigger();
        self.following.await.context("following the metadata failed")?;
        self.maintaining.await.context("the storage's background work failed")?;
        self.storage.close().await;
        match self.storage.fenced() {
            Some(reason) => bail!("the next start recovers the partitions, which could not be closed: {reason}"),
            None => Ok(()),
        }
    }
}

/// What a broker says of itself in its settings.
pub(crate) struct BrokerPlace<'a> {
    pub(crate) id: BrokerId,
    /// `process.roles`.
    pub(crate) roles: &'static str,
    /// Address that its listener has.
    pub(crate) bound: SocketAddr,
    /// Host and port that clients and other brokers are told.
    pub(crate) advertised: &'a (String, u16),
    /// Listeners besides.
    pub(crate) extra: &'a [ExtraListener],
    /// Where its partitions are.
    pub(crate) logs: &'a Path,
    pub(crate) rack: Option<&'a str>,
}

/// The broker's settings that the process gives: those of the options, and what follows from its place.
pub(crate) fn static_config(options: &Options, place: &BrokerPlace<'_>) -> Overrides {
    let mut config = options.broker.clone();
    let BrokerPlace { id, bound, advertised: (host, port), .. } = place;
    let (mut listeners, mut told) = (format!("{LISTENER}://{bound}"), format!("{LISTENER}://{host}:{port}"));
    let mut protocols = format!("{LISTENER}:PLAINTEXT");
    for ExtraListener { name, address, advertised: (host, port) } in place.extra {
        listeners.push_str(&format!(",{name}://{address}"));
        told.push_str(&format!(",{name}://{host}:{port}"));
        protocols.push_str(&format!(",{name}:PLAINTEXT"));
    }
    let own = [
        ("node.id", id.to_string()),
        ("broker.id", id.to_string()),
        ("process.roles", place.roles.to_owned()),
        ("listeners", listeners),
        ("advertised.listeners", told),
        ("listener.security.protocol.map", protocols),
        ("inter.broker.listener.name", LISTENER.to_owned()),
        ("log.dirs", place.logs.display().to_string()),
    ];
    config.extend(own.map(|(name, value)| (name.to_owned(), value)));
    config.extend(place.rack.map(|rack| ("broker.rack".to_owned(), rack.to_owned())));
    config
}

/// The same, typed.
pub(crate) fn config(static_config: &Overrides) -> anyhow::Result<BrokerConfig> {
    Ok(BrokerConfig::resolve(&layers(static_config))?)
}

/// The settings of a broker before the metadata set any.
fn layers(static_config: &Overrides) -> BrokerLayers {
    BrokerLayers { static_broker: static_config.clone(), ..BrokerLayers::default() }
}

/// Silence after which a broker with these settings is fenced.
pub(crate) fn session_timeout(config: &BrokerConfig) -> Duration {
    Duration::from_millis(u64::try_from(config.broker_session_timeout_ms).unwrap_or_default())
}

/// Starts what serves the connections of all brokers of this process.
pub(crate) fn start_shards(options: &Options) -> std::io::Result<Arc<Shards>> {
    let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(Arc::new(Shards::start(options.shards.unwrap_or_else(processors), "taffrail-shard")?))
}
