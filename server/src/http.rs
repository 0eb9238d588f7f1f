//! `/healthz`, `/readyz` and `/metrics`.

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
use prometheus::{Encoder, Registry, TextEncoder};
use taffrail_runtime::net::{TcpListener, TcpStream};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time;

/// Pause after a connection could not be taken, for instance for want of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// What the endpoints tell.
#[derive(Clone, Default)]
pub(crate) struct Health {
    ready: Arc<AtomicBool>,
    registries: Arc<Mutex<Vec<Registry>>>,
}

impl Health {
    /// Tells the metrics of this registry too.
    pub(crate) fn add(&self, registry: Registry) {
        self.registries.lock().push(registry);
    }

    /// Whether clients are served from now on.
    pub(crate) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Release);
    }
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
    if health.ready.load(Ordering::Acquire) {
        "ready\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting or stopping\n").into_response()
    }
}

async fn metrics(State(health): State<Health>) -> Response {
    let registries = health.registries.lock().clone();
    let families: Vec<_> = registries.iter().flat_map(Registry::gather).collect();
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
