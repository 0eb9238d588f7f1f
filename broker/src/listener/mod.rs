//! Kafka listeners: sockets, frames, and the order of answers.
//!
//! Accepted sockets are dealt out to shards in turn; a connection stays on its shard for life. What a request means is
//! behind the [`service::Service`] seam.

mod connection;
mod limits;
mod memory;
mod outbox;
pub(crate) mod service;
mod signal;
mod writer;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
pub use limits::{ConnectionLimits, ListenerLimits};
pub(crate) use memory::{Budget, Share};
use prometheus::IntGauge;
use taffrail_runtime::net::{DetachedStream, TcpListener};
use taffrail_runtime::shard::Shards;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time;

use connection::Context;
use limits::{ConnectionCounts, Place};
use service::Service;

/// Pause after a failed accept, which usually means that file descriptors ran out: trying again at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Refusals are logged at most this often.
const REFUSAL_LOG_PERIOD: Duration = Duration::from_secs(1);
/// While draining, how often it is looked whether connections are left.
const DRAIN_STEP: Duration = Duration::from_millis(5);

/// A listener that serves connections.
pub(crate) struct Listener<S> {
    pub(crate) name: Arc<str>,
    pub(crate) service: Arc<S>,
    pub(crate) limits: Arc<ListenerLimits>,
    pub(crate) connection_limits: Arc<ArcSwap<ConnectionLimits>>,
    pub(crate) shards: Arc<Shards>,
    pub(crate) shutdown: Shutdown,
    /// Open connections, for the metrics.
    pub(crate) connections: IntGauge,
}

impl<S: Service> Listener<S> {
    /// Accepts connections on `socket` until the shutdown is triggered, then waits until the open ones have sent what they
    /// owe, at most for the limit's `drain_max`.
    pub(crate) async fn run(self, socket: TcpListener) {
        let counts = ConnectionCounts::new(Arc::clone(&self.connection_limits));
        let budget = Budget::new(self.limits.requests_total_max_bytes, self.limits.request_memory_wait_max);
        let mut next_shard = 0;
        let mut refusals = Refusals::default();
        let stopped = self.shutdown.clone();
        let mut stopped = std::pin::pin!(stopped.triggered());
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                () = stopped.as_mut() => break,
            };
            match accepted {
                Ok((stream, peer)) => match counts.take(peer.ip()) {
                    Ok(place) => {
                        self.start(next_shard, stream, peer, place, budget.clone());
                        next_shard = next_shard.wrapping_add(1);
                    }
                    Err(refused) => refusals.note(&self.name, peer, &refused),
                },
                Err(error) => {
                    tracing::warn!(listener = %self.name, %error, "no connection could be accepted");
                    time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(socket);
        let deadline = time::monotonic() + self.limits.drain_max;
        while counts.open() > 0 && time::monotonic() < deadline {
            time::sleep(DRAIN_STEP).await;
        }
    }

    fn start(&self, shard: usize, stream: DetachedStream, peer: SocketAddr, place: Place, budget: Budget) {
        let context = Context {
            service: Arc::clone(&self.service),
            limits: Arc::clone(&self.limits),
            budget,
            shutdown: self.shutdown.clone(),
        };
        let (name, open) = (Arc::clone(&self.name), Open::new(&self.connections));
        let started = self.shards.spawn_on(shard, move || async move {
            let reason = match stream.attach() {
                Ok(stream) => connection::serve(stream, context).await,
                Err(error) => service::CloseReason::Broken(error.to_string()),
            };
            drop((place, open));
            if reason.is_usual() {
                tracing::debug!(listener = %name, %peer, %reason, "connection closed");
            } else {
                tracing::info!(listener = %name, %peer, %reason, "connection closed");
            }
        });
        if let Err(error) = started {
            tracing::warn!(listener = %self.name, %peer, %error, "connection closed");
        }
    }
}

/// Counts a connection as open for as long as it lives.
struct Open(IntGauge);

impl Open {
    fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Keeps a flood of refused connections from flooding the log.
#[derive(Default)]
struct Refusals {
    last_logged: Option<time::Instant>,
    unlogged: u64,
}

impl Refusals {
    fn note(&mut self, listener: &str, peer: SocketAddr, refused: &limits::Refused) {
        let now = time::monotonic();
        if self.last_logged.is_some_and(|last| now < last + REFUSAL_LOG_PERIOD) {
            self.unlogged += 1;
            return;
        }
        tracing::warn!(listener, %peer, reason = %refused, others = self.unlogged, "connection refused");
        self.last_logged = Some(now);
        self.unlogged = 0;
    }
}

#[cfg(test)]
mod tests;
