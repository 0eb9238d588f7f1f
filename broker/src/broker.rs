//! One broker: what all its handlers share.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use taffrail_core::config::{BrokerConfig, BrokerLayers, ConfigError, Overrides};
use taffrail_core::control::{BrokerIdentity, Command, ControlError, LagReport, Reply};
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::{MetadataEvent, ResourceKind};
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::rpc::{Committed, Quorum, VoterChange};
use taffrail_runtime::blocking::Pool;
use taffrail_runtime::cluster_secret::ClusterSecret;
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::shard::Shards;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time;
use taffrail_storage::Storage;

use crate::api::{KafkaService, ProducerIds};
use crate::client_info::ClientInfo;
use crate::coordinator::{CoordinatorConfig, GroupCoordinator};
use crate::fetch::cache::SessionCache;
use crate::lag::LagReader;
use crate::listener::{Budget, ConnectionLimits, Listener, ListenerLimits};
use crate::loggers::Loggers;
use crate::metadata::MetadataCache;
use crate::metrics::{Loss, Metrics, ResourceMetrics, Scrape, ScrapeOptions};
use crate::replica::{Partition, ReplicaManager};
use crate::replication::Fetchers;

/// Memory for copies of small ranges of records, over all answers that are not sent yet.
const RESPONSE_COPIES_MAX_BYTES: usize = 64 * 1024 * 1024;

/// The way to the active controller.
pub trait Controller: Send + Sync {
    /// Has the active controller carry out `command`. The answer comes when its events are committed, with the offset of
    /// the last of them in the metadata log.
    fn propose(&self, command: Command) -> Answer<'_, Committed>;

    /// Who votes among the controllers, and how far each of them is.
    fn describe_quorum(&self) -> Answer<'_, Quorum>;

    /// Has the active controller change who votes. The answer comes when that is committed.
    fn change_voters(&self, change: VoterChange) -> Answer<'_, ()>;
}

/// What a controller answers, in time.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, ControlError>> + Send + 'a>>;

/// What a broker is made of.
pub struct BrokerParts {
    /// Its number.
    pub id: BrokerId,
    /// Settings that the process was started with, under Kafka's broker names.
    pub static_config: Overrides,
    /// Its partitions' files.
    pub storage: Arc<Storage>,
    /// Its way to the controller.
    pub controller: Arc<dyn Controller>,
    /// What its process logs.
    pub loggers: Arc<dyn Loggers>,
}

/// The context of all handlers. Shared by all shards.
pub struct Broker {
    /// Number of this broker.
    pub id: BrokerId,
    /// The metadata that it acts on.
    pub metadata: Arc<MetadataCache>,
    /// Its counters.
    pub metrics: Metrics,
    pub(crate) replicas: ReplicaManager,
    fetchers: Fetchers,
    pub(crate) groups: GroupCoordinator,
    pub(crate) lags: LagReader,
    pub(crate) controller: Arc<dyn Controller>,
    pub(crate) loggers: Arc<dyn Loggers>,
    pub(crate) config: ArcSwap<BrokerConfig>,
    pub(crate) layers: ArcSwap<BrokerLayers>,
    /// Of every listener, at once when they change.
    connection_limits: Arc<ArcSwap<ConnectionLimits>>,
    static_config: Overrides,
    /// What other brokers of the cluster know too.
    cluster_secret: OnceLock<ClusterSecret>,
    /// Of its registration; -1 before it has one.
    epoch: AtomicI64,
    pub(crate) sessions: Mutex<SessionCache>,
    pub(crate) producer_ids: ProducerIds,
    /// Copies of records that wait to be sent count here; without room, records are sent from their files.
    pub(crate) response_memory: Budget,
}

impl Broker {
    /// A broker that knows no metadata yet.
    ///
    /// # Errors
    /// When a setting that it was started with is out of range.
    pub fn new(parts: BrokerParts) -> Result<Arc<Self>, ConfigError> {
        let layers = BrokerLayers { static_broker: parts.static_config.clone(), ..BrokerLayers::default() };
        let config = BrokerConfig::resolve(&layers)?;
        let slots = usize::try_from(config.max_incremental_fetch_session_cache_slots).unwrap_or(0);
        let metrics = Metrics::new();
        let groups = GroupCoordinator::new(CoordinatorConfig::of(&config));
        let metadata = Arc::<MetadataCache>::default();
        let broker = Arc::new(Self {
            id: parts.id,
            replicas: ReplicaManager::new(parts.id, parts.storage, Arc::clone(&metadata), &metrics),
            metadata,
            fetchers: Fetchers::default(),
            groups,
            lags: LagReader::default(),
            metrics,
            controller: parts.controller,
            loggers: parts.loggers,
            config: ArcSwap::from_pointee(config),
            layers: ArcSwap::from_pointee(layers),
            connection_limits: Arc::default(),
            static_config: parts.static_config,
            cluster_secret: OnceLock::new(),
            epoch: AtomicI64::new(-1),
            sessions: Mutex::new(SessionCache::new(slots)),
            producer_ids: ProducerIds::default(),
            response_memory: Budget::new(RESPONSE_COPIES_MAX_BYTES, Duration::ZERO),
        });
        broker.replicas.set_config(&broker.config.load());
        broker.metrics.add(ResourceMetrics::new(Arc::downgrade(&broker)));
        Ok(broker)
    }

    /// Makes this broker act on `image`, which `events` made from the one before; `None` = from a snapshot, so anything may
    /// have changed. The image is published when the replicas have followed it. Calls must not overlap.
    pub async fn follow(&self, image: Arc<MetadataImage>, events: Option<&[MetadataEvent]>) {
        let of_broker = |event: &MetadataEvent| matches!(event, MetadataEvent::ConfigChanged { resource, .. } if resource.kind == ResourceKind::Broker);
        let config_changed = events.is_none_or(|events| events.iter().any(of_broker));
        if config_changed {
            self.reconfigure(&image).await;
        }
        let layers = self.layers.load_full();
        let moved = self.replicas.follow(&image, events.filter(|_| !config_changed), &layers).await;
        self.groups.follow(&image, events, &self.replicas, self.id);
        self.metadata.publish(Arc::clone(&image));
        self.fetch(moved, &image);
        for event in events.unwrap_or_default() {
            if let MetadataEvent::BrokerUnfenced { broker, .. } = event {
                self.replicas.broker_came(*broker, &image);
            }
        }
    }

    /// Has these partitions, which may have another leader now, fetched from there.
    fn fetch(&self, moved: impl IntoIterator<Item = Arc<Partition>>, image: &MetadataImage) {
        let fetchers_a_leader = usize::try_from(self.config.load().num_replica_fetchers).unwrap_or(1);
        self.fetchers.follow(moved, image, fetchers_a_leader);
    }

    /// Waits until partitions that could not be opened are due to be tried again; for ever while there are none.
    pub(crate) async fn retry_due(&self) {
        self.replicas.retry_due().await;
    }

    /// Tries again to open such partitions. Calls must not overlap, neither with each other nor with [`Broker::follow`].
    pub(crate) async fn retry(&self) {
        let image = self.metadata.image();
        let opened = self.replicas.retry(&image, &self.layers.load_full()).await;
        if !opened.is_empty() {
            self.groups.follow(&image, None, &self.replicas, self.id);
            self.fetch(opened, &image);
        }
    }

    async fn reconfigure(&self, image: &MetadataImage) {
        let layers = image.broker_layers(Some(self.id), &self.static_config);
        match BrokerConfig::resolve(&layers) {
            Ok(config) => {
                self.groups.set_config(CoordinatorConfig::of(&config));
                self.replicas.set_config(&config);
                self.connection_limits.store(Arc::new(ConnectionLimits::of(&config).await));
                self.config.store(Arc::new(config));
                self.layers.store(Arc::new(layers));
            }
            // The controller checks before it commits; an older release may have let it through.
            Err(error) => tracing::error!(%error, "broker settings in the metadata are ignored"),
        }
    }

    /// Has the controller carry out `command`, and waits until its effect is visible here, at most until `deadline`.
    ///
    /// # Errors
    /// The controller's refusal of the whole command, or REQUEST_TIMED_OUT.
    pub(crate) async fn propose(&self, command: Command, deadline: time::Instant) -> Result<Reply, ControlError> {
        let timed_out = |_| ControlError::plain(ErrorCode::RequestTimedOut);
        let committed = time::timeout_at(deadline, self.controller.propose(command)).await.map_err(timed_out)??;
        if self.metadata.wait_for(committed.offset, deadline).await {
            Ok(committed.reply)
        } else {
            Err(ControlError::plain(ErrorCode::RequestTimedOut))
        }
    }

    /// Threads for work that waits for the disk.
    pub(crate) fn disk_pool(&self) -> &Pool {
        self.replicas.storage().pool()
    }

    /// The committed records that are gone for good, as far as this process has seen it: the latest range of each partition.
    pub fn losses(&self) -> Vec<Loss> {
        self.metrics.losses.known()
    }

    /// Which life of which broker this is, as the controllers know it.
    pub fn identity(&self) -> BrokerIdentity {
        BrokerIdentity { id: self.id, epoch: self.epoch.load(Ordering::Acquire) }
    }

    /// The controllers know this process by this epoch from now on.
    pub fn set_epoch(&self, epoch: i64) {
        self.epoch.store(epoch, Ordering::Release);
    }

    /// Brokers have to know `secret` from now on to be taken for brokers; it is to be called before there are connections. A
    /// second call changes nothing.
    pub fn set_cluster_secret(&self, secret: ClusterSecret) {
        // Whoever came first has set it.
        let _ = self.cluster_secret.set(secret);
    }

    pub(crate) fn cluster_secret(&self) -> Option<&ClusterSecret> {
        self.cluster_secret.get()
    }

    /// Whether `client` may say that it is a broker: it has shown that it knows the cluster's secret, or there is none.
    pub(crate) fn may_be_broker(&self, client: &ClientInfo) -> bool {
        self.cluster_secret.get().is_none() || client.introduction.is_known()
    }

    /// Whether `replica` is the number of a broker, or of one that keeps replicas still. Any other is nobody's, and each
    /// partition refuses it by itself.
    pub(crate) fn is_replica(&self, replica: BrokerId) -> bool {
        let image = self.metadata.glance();
        image.broker(replica).is_some() || image.replica_index().load(replica).replicas > 0
    }

    /// How far followers out of sync are behind, in at most `partitions_max` of the partitions that this broker leads; in
    /// others the next time.
    pub(crate) fn lag_report(&self, partitions_max: usize) -> LagReport {
        self.replicas.lags(partitions_max)
    }

    /// Looks at its partitions and at the groups that it coordinates, to print their metrics; asks other brokers where
    /// partitions end that its groups read, for no longer than a scrape may wait.
    pub async fn scrape(self: &Arc<Self>, options: &Arc<ScrapeOptions>) -> Scrape {
        Scrape::of(self, options).await
    }

    /// Serves clients on `socket` until `shutdown` is triggered, and until what they are owed then has been sent; follows the
    /// leaders of its partitions meanwhile. `name` is the listener's name in the registration, so that answers name
    /// addresses that its clients can reach.
    pub async fn serve(self: Arc<Self>, name: Arc<str>, socket: TcpListener, shards: Arc<Shards>, shutdown: Shutdown) {
        self.fetchers.start(&self, &shards, &shutdown);
        let limits = Arc::new(ListenerLimits::of(&self.config.load()));
        let connection_limits = Arc::clone(&self.connection_limits);
        connection_limits.store(Arc::new(ConnectionLimits::of(&self.config.load_full()).await));
        let connections = self.metrics.connections(&name);
        let service = Arc::new(KafkaService { broker: self, listener: Arc::clone(&name) });
        Listener { name, service, limits, connection_limits, shards, shutdown, connections }.run(socket).await;
    }
}

/// The refusal in an answer that is not the one that was asked for.
pub(crate) fn refusal(reply: Result<Reply, ControlError>) -> ControlError {
    match reply {
        Err(error) => error,
        Ok(reply) => {
            tracing::error!(?reply, "the controller gave an answer to another command");
            ControlError::plain(ErrorCode::UnknownServerError)
        }
    }
}
