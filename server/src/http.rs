//! `/healthz`, `/readyz` and `/metrics`.
//!
//! Where a process has several brokers, each has metrics of its own under the same names; the label `broker` tells them
//! apart then.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parking_lot::Mutex;
use prometheus::proto::{LabelPair, MetricFamily};
use prometheus::{Encoder, Registry, TextEncoder};
use taffrail_core::ids::BrokerId;
use taffrail_runtime::net::{TcpListener, TcpStream};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time;

/// Pause after a connection could not be taken, for instance for want of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Label that tells brokers of one process apart.
const BROKER_LABEL: &str = "broker";

/// What the endpoints tell.
#[derive(Clone, Default)]
pub(crate) struct Health {
    ready: Arc<AtomicBool>,
    brokers: Arc<Mutex<Vec<BrokerHealth>>>,
}

/// What one broker tells.
struct BrokerHealth {
    id: BrokerId,
    registry: Registry,
    is_unfenced: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Health {
    /// Tells the metrics of this broker too, and that the process is not ready while the broker is fenced.
    pub(crate) fn add(&self, id: BrokerId, registry: Registry, is_unfenced: impl Fn() -> bool + Send + Sync + 'static) {
        self.brokers.lock().push(BrokerHealth { id, registry, is_unfenced: Box::new(is_unfenced) });
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
        brokers.iter().find(|broker| !(broker.is_unfenced)()).map(|broker| format!("broker {} is fenced", broker.id))
    }

    fn metrics(&self) -> Vec<MetricFamily> {
        let gathered: Vec<(BrokerId, Registry)> =
            self.brokers.lock().iter().map(|broker| (broker.id, broker.registry.clone())).collect();
        let gathered = gathered.into_iter().map(|(id, registry)| (id, registry.gather())).collect();
        told_apart(gathered)
    }
}

/// The metrics of all brokers, each name once. Brokers are told apart by a label where there are several.
fn told_apart(mut gathered: Vec<(BrokerId, Vec<MetricFamily>)>) -> Vec<MetricFamily> {
    if gathered.len() <= 1 {
        return gathered.pop().map(|(_, families)| families).unwrap_or_default();
    }
    let mut by_name: BTreeMap<String, MetricFamily> = BTreeMap::new();
    for (id, families) in gathered {
        for mut family in families {
            for metric in family.mut_metric() {
                let mut label = LabelPair::default();
                label.set_name(BROKER_LABEL.to_owned());
                label.set_value(id.to_string());
                let mut labels = metric.take_label();
                labels.push(label);
                metric.set_label(labels);
            }
            match by_name.entry(family.name().to_owned()) {
                Entry::Vacant(entry) => drop(entry.insert(family)),
                Entry::Occupied(mut entry) => entry.get_mut().mut_metric().append(family.mut_metric()),
            }
        }
    }
    by_name.into_values().collect()
}

/// Serves until the word to stop.
pub(crate) async fn serve(listener: TcpListener, health: Health, stop: Shutdown) -> io::Result<()> {
    let router = Router::new()
        .route("/", get(|| async { "taffrail: /metrics /healthz /readyz\n" }))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(health);
    axum::serve(Listener(listener), router).with_graceful_shutdown(async move { stop.triggered().await }).await
}

async fn ready(State(health): State<Health>) -> Response {
    match health.trouble() {
        None => "ready\n".into_response(),
        Some(trouble) => (StatusCode::SERVICE_UNAVAILABLE, format!("{trouble}\n")).into_response(),
    }
}

async fn metrics(State(health): State<Health>) -> Response {
    let families = health.metrics();
    let encoder = TextEncoder::new();
    let mut text = Vec::new();
    match encoder.encode(&families, &mut text) {
        Ok(()) => ([(header::CONTENT_TYPE, encoder.format_type().to_owned())], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the metrics cannot be written");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
        }
    }
}

/// Our sockets as axum takes them.
struct Listener(TcpListener);

impl axum::serve::Listener for Listener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.0.accept().await.and_then(|(stream, peer)| Ok((stream.attach()?, peer))) {
                Ok(accepted) => return accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection to the metrics address could not be taken");
                    time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::IntCounterVec;

    use super::*;

    fn registry(topic: &str) -> Registry {
        let registry = Registry::new();
        let options = prometheus::Opts::new("kafka_records", "Records.");
        let counter = IntCounterVec::new(options, &["topic"]).unwrap();
        registry.register(Box::new(counter.clone())).unwrap();
        counter.with_label_values(&[topic]).inc();
        registry
    }

    fn text(health: &Health) -> String {
        TextEncoder::new().encode_to_string(&health.metrics()).unwrap()
    }

    #[test]
    fn brokers_of_one_process_are_told_apart_and_each_name_stands_once() {
        let health = Health::default();
        health.add(BrokerId(1), registry("a"), || true);
        assert_eq!(text(&health).lines().last(), Some("kafka_records{topic=\"a\"} 1"), "one needs no label");
        health.add(BrokerId(2), registry("a"), || true);
        let told = text(&health);
        let lines: Vec<&str> = told.lines().collect();
        let series = ["kafka_records{topic=\"a\",broker=\"1\"} 1", "kafka_records{topic=\"a\",broker=\"2\"} 1"];
        assert_eq!(lines, [&["# HELP kafka_records Records.", "# TYPE kafka_records counter"][..], &series].concat());
    }

    #[test]
    fn a_process_is_ready_when_all_its_brokers_are_unfenced() {
        let health = Health::default();
        assert_eq!(health.trouble().as_deref(), Some("starting or stopping"));
        health.set_ready(true);
        assert_eq!(health.trouble(), None);
        health.add(BrokerId(1), Registry::new(), || true);
        assert_eq!(health.trouble(), None);
        health.add(BrokerId(2), Registry::new(), || false);
        assert_eq!(health.trouble().as_deref(), Some("broker 2 is fenced"));
    }
}
