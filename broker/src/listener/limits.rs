//! What a listener allows, and how many connections there are.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use taffrail_core::collections::HashMap;
use taffrail_core::config::BrokerConfig;
use taffrail_runtime::open_files::{self, Shares};

/// Requests of one connection that may be under way at once; further ones stay unread.
pub(crate) const REQUESTS_IN_FLIGHT_MAX: usize = 64;

/// Stands for no limit of idle time: longer than any process runs, short enough to be added to a clock.
const IDLE_FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Limits of a listener. Each bounds memory or time that a client can take.
#[derive(Debug, Clone)]
pub struct ListenerLimits {
    /// Connections at once (`max.connections`).
    pub connections_max: usize,
    /// Connections at once from one address (`max.connections.per.ip`).
    pub connections_per_ip_max: usize,
    /// Largest request in bytes (`socket.request.max.bytes`).
    pub request_max_bytes: usize,
    /// Bytes of all requests that are being received or handled (`queued.max.request.bytes`).
    pub requests_total_max_bytes: usize,
    /// How long a connection may wait for its share of these bytes before it is closed.
    pub request_memory_wait_max: Duration,
    /// How long a connection may be silent (`connections.max.idle.ms`), and how long the other end may take nothing of a
    /// response.
    pub idle_max: Duration,
    /// How long responses that are ready may take to leave when the broker stops.
    pub drain_max: Duration,
}

impl Default for ListenerLimits {
    /// Kafka's defaults, except for the two that Kafka leaves without a bound.
    fn default() -> Self {
        Self {
            connections_max: 20_000,
            connections_per_ip_max: usize::MAX,
            request_max_bytes: 100 * 1024 * 1024,
            requests_total_max_bytes: 256 * 1024 * 1024,
            request_memory_wait_max: Duration::from_secs(10),
            idle_max: Duration::from_secs(600),
            drain_max: Duration::from_secs(5),
        }
    }
}

impl ListenerLimits {
    /// The limits that a broker's settings ask for.
    pub(crate) fn of(config: &BrokerConfig) -> Self {
        let defaults = Self::default();
        let count = |value: i32| usize::try_from(value).unwrap_or(0);
        Self {
            // Kafka's default, the largest number, stands for no limit of its own: files and memory have one.
            connections_max: count(config.max_connections)
                .min(defaults.connections_max)
                .min(Shares::of(open_files::limit()).connections),
            connections_per_ip_max: match config.max_connections_per_ip {
                i32::MAX => usize::MAX,
                limit => count(limit),
            },
            request_max_bytes: count(config.socket_request_max_bytes),
            idle_max: u64::try_from(config.connections_max_idle_ms)
                .map_or(IDLE_FOREVER, |idle_ms| Duration::from_millis(idle_ms).min(IDLE_FOREVER)),
            ..defaults
        }
    }
}

/// Counts the connections of a listener. Clones share the counts.
#[derive(Clone)]
pub(crate) struct ConnectionCounts {
    inner: Arc<Counts>,
}

struct Counts {
    total_max: usize,
    per_ip_max: usize,
    total: AtomicUsize,
    /// Empty while addresses are not limited.
    per_ip: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection's place in the counts, given back when dropped.
pub(crate) struct Place {
    counts: Arc<Counts>,
    address: IpAddr,
}

/// Which limit refused a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("there are {0} connections already")]
    Total(usize),
    #[error("there are {0} connections from this address already")]
    PerAddress(usize),
}

impl ConnectionCounts {
    pub(crate) fn new(limits: &ListenerLimits) -> Self {
        let inner = Counts {
            total_max: limits.connections_max,
            per_ip_max: limits.connections_per_ip_max,
            total: AtomicUsize::new(0),
            per_ip: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Takes a place for a connection from `address`.
    ///
    /// # Errors
    /// The limit that is reached.
    pub(crate) fn take(&self, address: IpAddr) -> Result<Place, Refused> {
        let counts = &self.inner;
        if counts.total.fetch_add(1, Ordering::Relaxed) >= counts.total_max {
            counts.total.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::Total(counts.total_max));
        }
        if counts.per_ip_max != usize::MAX {
            let mut per_ip = counts.per_ip.lock();
            let count = per_ip.entry(address).or_insert(0);
            if *count >= counts.per_ip_max {
                counts.total.fetch_sub(1, Ordering::Relaxed);
                return Err(Refused::PerAddress(counts.per_ip_max));
            }
            *count += 1;
        }
        Ok(Place { counts: Arc::clone(counts), address })
    }

    /// Connections that are open.
    pub(crate) fn open(&self) -> usize {
        self.inner.total.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.counts.total.fetch_sub(1, Ordering::Relaxed);
        if self.counts.per_ip_max != usize::MAX {
            let mut per_ip = self.counts.per_ip.lock();
            if let Some(count) = per_ip.get_mut(&self.address) {
                *count -= 1;
                if *count == 0 {
                    per_ip.remove(&self.address);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_in_all_and_per_address_and_come_back() {
        let limits = ListenerLimits { connections_max: 3, connections_per_ip_max: 2, ..ListenerLimits::default() };
        let counts = ConnectionCounts::new(&limits);
        let [one, two]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let first = counts.take(one).unwrap();
        let _second = counts.take(one).unwrap();
        assert_eq!(counts.take(one).err(), Some(Refused::PerAddress(2)));
        let _third = counts.take(two).unwrap();
        assert_eq!(counts.take(two).err(), Some(Refused::Total(3)));
        drop(first);
        assert!(counts.take(one).is_ok());
        assert_eq!(counts.open(), 2);
    }
}
