//! The operator itself: watches, and a keeper for each Cluster.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::select;
use kube::Client;
use parking_lot::Mutex;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{task, time};

use super::api::Kube;
use super::cache::Key;
use super::caches::{Caches, News};
use super::events::Events;
use super::groups::{GroupKeeper, Reports};
use super::keeper::{Defaults, Inbox, Keeper};
use super::lease::{Elector, LeaseLost};
use super::metrics::Metrics;

/// Pause between looks whether the watches have listed what there is.
const SYNC_POLL: Duration = Duration::from_millis(20);

/// How long keepers may take to finish what they are at.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// What the operator is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorOptions {
    /// Namespaces whose resources are acted on; `*` among them = all, none = the one that this process is in.
    pub namespaces: Vec<String>,
    /// Image of Clusters that name none.
    pub image: Option<String>,
    /// Name of this process among the operators: its pod's.
    pub instance: String,
    /// Name of the Lease, in the process's own namespace, whose holder leads.
    pub lease: String,
}

/// Why there is no API server to speak to.
#[derive(Debug, thiserror::Error)]
#[error("no Kubernetes can be reached: {0}")]
pub struct ConnectError(String);

/// Connects to the API server: the one whose cluster this process runs in, or that of the kubeconfig.
///
/// # Errors
/// When there is neither, or it cannot be used.
pub async fn connect() -> Result<Client, ConnectError> {
    let config = kube::Config::infer().await.map_err(|error| ConnectError(error.to_string()))?;
    Client::try_from(config).map_err(|error| ConnectError(error.to_string()))
}

/// Keepers by the Clusters that they keep.
#[derive(Default)]
struct Keepers {
    inboxes: Mutex<BTreeMap<Key, Arc<Inbox>>>,
}

impl Keepers {
    /// Waits until none works any more, for a while.
    async fn ended(&self) {
        let deadline = time::monotonic() + STOP_TIMEOUT;
        while !self.inboxes.lock().is_empty() && time::monotonic() < deadline {
            time::sleep(SYNC_POLL).await;
        }
    }

    /// Hands news to whom they concern. Gives the key of a Cluster that nobody keeps yet.
    fn tell(&self, news: News) -> Option<Key> {
        let inboxes = self.inboxes.lock();
        let (News::Cluster(key)
        | News::Topic(key)
        | News::TopicDeleted(key, _)
        | News::Group(key)
        | News::GroupDeleted(key, _)) = &news;
        let Some(inbox) = inboxes.get(key) else { return Some(key.clone()) };
        match news {
            News::Cluster(_) | News::Topic(_) => inbox.news.notify_one(),
            News::TopicDeleted(_, topic) => {
                inbox.removed.lock().push(topic);
                inbox.news.notify_one();
            }
            News::Group(_) => inbox.groups.news.notify_one(),
            News::GroupDeleted(_, group) => {
                inbox.groups.removed.lock().push(group);
                inbox.groups.news.notify_one();
            }
        }
        None
    }
}

/// The operator.
pub struct Operator {
    client: Client,
    options: OperatorOptions,
    caches: Arc<Caches>,
    metrics: Metrics,
}

impl Operator {
    /// An operator that speaks to the API server of `client`.
    ///
    /// # Errors
    /// When two metrics have the same name.
    pub fn new(client: Client, options: OperatorOptions) -> prometheus::Result<Self> {
        let caches = Arc::new(Caches::default());
        Ok(Self { client, options, metrics: Metrics::new(Arc::clone(&caches))?, caches })
    }

    /// What it tells of itself.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What tells whether everything that there is has been listed once.
    pub fn synced(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let caches = Arc::clone(&self.caches);
        move || caches.is_synced()
    }

    /// Namespaces that are watched; `None` = all.
    fn namespaces(&self) -> Vec<Option<String>> {
        let given = &self.options.namespaces;
        if given.iter().any(|namespace| namespace == "*") {
            return vec![None];
        }
        if given.is_empty() {
            return vec![Some(self.client.default_namespace().to_owned())];
        }
        given.iter().cloned().map(Some).collect()
    }

    /// Works until the word to stop.
    ///
    /// # Errors
    /// When the Lease is lost: another operator leads, and this one must not act any more.
    pub async fn run(self, stop: Shutdown) -> Result<(), LeaseLost> {
        let keepers = Arc::new(Keepers::default());
        let (starts, mut starting) = tokio::sync::mpsc::unbounded_channel();
        let told: Arc<dyn Fn(News) + Send + Sync> = {
            let keepers = Arc::clone(&keepers);
            Arc::new(move |news| {
                if let Some(key) = keepers.tell(news) {
                    let _ = starts.send(key);
                }
            })
        };
        for namespace in self.namespaces() {
            self.caches.watch(&self.client, namespace.as_deref(), &told, &stop);
        }
        // Nothing is done before all is known: a Cluster that is not listed yet is not one that is gone.
        while !self.caches.is_synced() && !stop.is_triggered() {
            select(pin!(time::sleep(SYNC_POLL)), pin!(stop.triggered())).await;
        }
        let namespace = self.client.default_namespace().to_owned();
        let mut elector = Elector::new(self.client.clone(), &namespace, &self.options.lease, &self.options.instance);
        let epoch = tokio::select! {
            epoch = elector.lead() => epoch,
            () = stop.triggered() => return Ok(()),
        };
        tracing::info!(instance = self.options.instance, epoch, "this operator leads");
        self.metrics.set_leads(true);
        // Keepers stop before the Lease goes to anybody else.
        let leading = Shutdown::new();
        let outcome = {
            let mut keeping = pin!(elector.keep());
            loop {
                tokio::select! {
                    Some(key) = starting.recv() => self.start_keeper(&keepers, key, epoch, &leading),
                    lost = &mut keeping => break Err(lost),
                    () = stop.triggered() => break Ok(()),
                }
            }
        };
        self.metrics.set_leads(false);
        leading.trigger();
        keepers.ended().await;
        if outcome.is_ok() {
            elector.give_back().await;
        }
        outcome
    }

    fn start_keeper(&self, keepers: &Arc<Keepers>, key: Key, epoch: i64, stop: &Shutdown) {
        if self.caches.clusters.get(&key.namespace, &key.name).is_none() {
            return;
        }
        let mut inboxes = keepers.inboxes.lock();
        if inboxes.contains_key(&key) {
            return;
        }
        let inbox = Arc::new(Inbox::default());
        inboxes.insert(key.clone(), Arc::clone(&inbox));
        drop(inboxes);
        let defaults = Defaults { image: self.options.image.clone(), epoch };
        let kube = Kube::new(self.client.clone());
        let events = Events::new(self.client.clone(), &self.options.instance);
        let caches = || Arc::clone(&self.caches);
        let (reports, metrics) = (Reports::new(kube.clone(), events.clone(), caches()), || self.metrics.clone());
        let mut groups = GroupKeeper::new(key.clone(), caches(), Arc::clone(&inbox), reports, metrics());
        let keeper = Keeper::new(key.clone(), kube, caches(), events, inbox, defaults, metrics());
        let (keepers, caches, stop) = (Arc::clone(keepers), caches(), stop.clone());
        task::spawn(async move {
            // Groups are looked at beside: their coordinators may take long to answer, and no roll waits for them.
            select(pin!(keeper.run(stop)), pin!(groups.run())).await;
            if caches.clusters.get(&key.namespace, &key.name).is_none() {
                groups.let_go().await;
            }
            keepers.inboxes.lock().remove(&key);
        });
    }
}
