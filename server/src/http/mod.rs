//! `/healthz`, `/readyz`, `/metrics`, `/metrics/summary` and `/losses`.

mod controllers;
mod exposition;
mod listener;
mod places;
mod query;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::StreamExt;
use futures::future::join_all;
use futures::stream;
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::json;
use taffrail_broker::{Broker, Granularity, Loss, ScrapeOptions};
use taffrail_controller::ControllerView;
use taffrail_core::ids::BrokerId;
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time;

use controllers::ControllerMetrics;
pub(crate) use controllers::table as controllers_table;
use exposition::{Exposition, Source};
pub(crate) use listener::Listener;
pub(crate) use places::Places;
pub(crate) use query::{pairs, set as set_scrape_option};

/// Connections at a time.
const CONNECTIONS_MAX: usize = 64;

/// How long a connection may be silent. Who scrapes once a minute keeps its connection.
const SILENCE_MAX: Duration = Duration::from_secs(150);

/// Scrapes at a time; who comes while there are so many is told to come again.
const SCRAPES_MAX: usize = 4;

/// How long one scrape may take, however slowly its client reads.
const SCRAPE_MAX: Duration = Duration::from_secs(60);

/// The text format's media type.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The media type of JSON.
const JSON: &str = "application/json";

/// What the endpoints tell.
#[derive(Clone)]
pub(crate) struct Health {
    ready: Arc<AtomicBool>,
    brokers: Arc<Mutex<Vec<BrokerHealth>>>,
    /// Of other roles.
    registries: Arc<Mutex<Vec<Registry>>>,
    options: Arc<ScrapeOptions>,
    scrapes: Places,
}

/// What one broker tells.
struct BrokerHealth {
    broker: Arc<Broker>,
    is_unfenced: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Health {
    /// Tells nothing yet; its metrics are going to be those that `options` say.
    pub(crate) fn new(options: ScrapeOptions) -> Self {
        Self {
            ready: Arc::default(),
            brokers: Arc::default(),
            registries: Arc::default(),
            options: Arc::new(options),
            scrapes: Places::new(SCRAPES_MAX),
        }
    }

    /// Tells the metrics of this broker too, and that the process is not ready while the broker is fenced.
    pub(crate) fn add(&self, broker: Arc<Broker>, is_unfenced: impl Fn() -> bool + Send + Sync + 'static) {
        self.brokers.lock().push(BrokerHealth { broker, is_unfenced: Box::new(is_unfenced) });
    }

    /// Tells nothing of this broker any more.
    pub(crate) fn remove(&self, id: BrokerId) {
        self.brokers.lock().retain(|it| it.broker.id != id);
    }

    /// Tells the metrics of these controllers too.
    ///
    /// # Errors
    /// When two metrics have the same name.
    pub(crate) fn add_controllers(&self, views: Vec<ControllerView>) -> prometheus::Result<()> {
        let registry = Registry::new();
        registry.register(Box::new(ControllerMetrics::new(views)?))?;
        self.add_registry(registry);
        Ok(())
    }

    /// Tells these metrics of another role too.
    pub(crate) fn add_registry(&self, registry: Registry) {
        self.registries.lock().push(registry);
    }

    /// Whether clients are served from now on.
    pub(crate) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Release);
    }

    /// Why clients are not served, if they are not.
    fn trouble(&self) -> Option<String> {
        if !self.ready.load(Ordering::Acquire) {
            return Some("starting or stopping".to_owned());
        }
        let brokers = self.brokers.lock();
        let fenced = brokers.iter().find(|broker| !(broker.is_unfenced)());
        fenced.map(|it| format!("broker {} is fenced", it.broker.id))
    }

    /// What there is to tell of all roles, as `options` say.
    async fn exposition(&self, options: &Arc<ScrapeOptions>) -> Exposition {
        let brokers: Vec<Arc<Broker>> = self.brokers.lock().iter().map(|it| Arc::clone(&it.broker)).collect();
        // What there may be is for the process, however many brokers it has.
        let series_max = options.series_max / brokers.len().max(1);
        let of_each = Arc::new(ScrapeOptions { series_max, ..ScrapeOptions::clone(options) });
        let looking = brokers.into_iter().map(|broker| {
            let options = &of_each;
            async move {
                let (id, registry) = (broker.id, broker.metrics.registry.clone());
                Source { id, registry, scrape: broker.scrape(options).await }
            }
        });
        let sources = join_all(looking).await;
        let registries = self.registries.lock().clone();
        Exposition::new(sources, &registries, options)
    }
}

/// Serves until the word to stop.
pub(crate) async fn serve(listener: TcpListener, health: Health, stop: Shutdown) -> io::Result<()> {
    let router = Router::new()
        .route("/", get(|| async { "taffrail: /metrics /metrics/summary /losses /healthz /readyz\n" }))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/metrics/summary", get(summary))
        .route("/losses", get(losses))
        .with_state(health);
    let listener = Listener::new(listener, CONNECTIONS_MAX, SILENCE_MAX);
    axum::serve(listener, router).with_graceful_shutdown(async move { stop.triggered().await }).await
}

async fn ready(State(health): State<Health>) -> Response {
    match health.trouble() {
        None => "ready\n".into_response(),
        Some(trouble) => (StatusCode::SERVICE_UNAVAILABLE, format!("{trouble}\n")).into_response(),
    }
}

async fn metrics(State(health): State<Health>, RawQuery(query): RawQuery) -> Response {
    let mut options = ScrapeOptions::clone(&health.options);
    match query::apply(&mut options, query.as_deref().unwrap_or_default()) {
        Ok(()) => scrape(&health, Arc::new(options)).await,
        Err(refusal) => (StatusCode::BAD_REQUEST, format!("{refusal}\n")).into_response(),
    }
}

/// What does not grow with topics, groups and partitions.
async fn summary(State(health): State<Health>) -> Response {
    let options = ScrapeOptions { granularity: Granularity::Summary, ..ScrapeOptions::clone(&health.options) };
    scrape(&health, Arc::new(options)).await
}

/// Committed records that the brokers here know to be lost: ranges of offsets, the latest of each partition.
async fn losses(State(health): State<Health>) -> Response {
    let known: Vec<Loss> = health.brokers.lock().iter().flat_map(|it| it.broker.losses()).collect();
    let told = known.into_iter().map(|Loss { partition, leader_epoch, from, to }| {
        json!({
            "topic": &*partition.topic, "partition": partition.partition, "leaderEpoch": leader_epoch, "from": from,
            "to": to,
        })
    });
    let told = serde_json::Value::Array(told.collect()).to_string();
    ([(header::CONTENT_TYPE, JSON)], told).into_response()
}

async fn scrape(health: &Health, options: Arc<ScrapeOptions>) -> Response {
    let Some(place) = health.scrapes.take() else {
        let text = "too many scrapes are under way; come again\n";
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], text).into_response();
    };
    let until = time::monotonic() + SCRAPE_MAX;
    let exposition = health.exposition(&options).await;
    // The place is kept until the last metric has been written, or the client is given up.
    let pieces = stream::iter(exposition.names()).map(move |name| {
        let _kept = &place;
        if time::monotonic() > until {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        Ok(exposition.text(&name))
    });
    ([(header::CONTENT_TYPE, TEXT)], Body::from_stream(pieces)).into_response()
}
