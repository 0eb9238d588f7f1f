//! What a listener allows, and how many connections there are.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use taffrail_core::collections::HashMap;
use taffrail_core::config::{BrokerConfig, host_limits};
use taffrail_runtime::open_files::{self, Shares};
use taffrail_runtime::{net, time};

/// Requests of one connection that may be under way at once; further ones stay unread.
pub(crate) const REQUESTS_IN_FLIGHT_MAX: usize = 64;

/// Bytes of answers that one connection may owe, and no more requests of it are started: a client that asks and does not read
/// costs no more than this and one answer. What lies in files does not count.
pub(crate) const UNSENT_MAX_BYTES: usize = 64 * 1024;

/// How long all names of hosts with limits of their own may take to be looked up; whoever changes a setting waits for it.
const LOOKUPS_MAX: Duration = Duration::from_secs(2);

/// Stands for no limit of idle time: longer than any process runs, short enough to be added to a clock.
const IDLE_FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Limits of a listener. Each bounds memory or time that a client can take.
#[derive(Debug, Clone)]
pub struct ListenerLimits {
    /// Largest request in bytes (`socket.request.max.bytes`).
    pub request_max_bytes: usize,
    /// Bytes of all requests that are being received or handled (`queued.max.request.bytes`); the largest request must fit.
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
    /// Kafka's defaults, except for the one that Kafka leaves without a bound.
    fn default() -> Self {
        Self {
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
        let request_max_bytes = usize::try_from(config.socket_request_max_bytes).unwrap_or(0);
        Self {
            request_max_bytes,
            requests_total_max_bytes: match usize::try_from(config.queued_max_request_bytes) {
                Ok(bytes) if bytes > 0 => bytes.max(request_max_bytes),
                // Without a word from the user, two clients with their largest requests must not have to wait.
                _ => defaults.requests_total_max_bytes.max(2 * request_max_bytes),
            },
            idle_max: u64::try_from(config.connections_max_idle_ms)
                .map_or(IDLE_FOREVER, |idle_ms| Duration::from_millis(idle_ms).min(IDLE_FOREVER)),
            ..defaults
        }
    }
}

/// How many connections there may be. They can change while the broker runs; those that are open stay.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// Connections at once (`max.connections`).
    pub max: usize,
    /// Connections at once from one address (`max.connections.per.ip`).
    pub per_address_max: usize,
    /// The same for single addresses (`max.connections.per.ip.overrides`).
    pub overrides: BTreeMap<IpAddr, usize>,
}

impl Default for ConnectionLimits {
    /// Kafka sets no limit of its own, but each connection takes a file and memory.
    fn default() -> Self {
        Self { max: 20_000, per_address_max: usize::MAX, overrides: BTreeMap::new() }
    }
}

impl ConnectionLimits {
    /// The limits that a broker's settings ask for. Names of hosts are looked up; those that cannot be found have the limit of
    /// all others, which is logged.
    pub(crate) async fn of(config: &BrokerConfig) -> Self {
        let count = |value: i32| usize::try_from(value).unwrap_or(0);
        // Checked when the setting was made; a release with other rules may have let something else through.
        let hosts = host_limits(&config.max_connections_per_ip_overrides).unwrap_or_default();
        let deadline = time::monotonic() + LOOKUPS_MAX;
        let mut overrides = BTreeMap::new();
        for (host, limit) in hosts {
            match time::timeout_at(deadline, net::lookup(host)).await {
                Ok(Ok(addresses)) => overrides.extend(addresses.iter().map(|it| (it.to_canonical(), limit as usize))),
                Ok(Err(error)) => tracing::warn!(host, %error, "the host of a limit of connections is not known"),
                Err(_) => tracing::warn!(host, "the host of a limit of connections was not found in time"),
            }
        }
        Self {
            // Kafka's default, the largest number, stands for no limit of its own: files and memory have one.
            max: count(config.max_connections)
                .min(Self::default().max)
                .min(Shares::of(open_files::limit()).connections),
            per_address_max: match config.max_connections_per_ip {
                i32::MAX => usize::MAX,
                limit => count(limit),
            },
            overrides,
        }
    }

    fn of_address(&self, address: &IpAddr) -> usize {
        self.overrides.get(address).copied().unwrap_or(self.per_address_max)
    }
}

/// Counts the connections of a listener. Clones share the counts.
#[derive(Clone)]
pub(crate) struct ConnectionCounts {
    inner: Arc<Counts>,
}

struct Counts {
    limits: Arc<ArcSwap<ConnectionLimits>>,
    total: AtomicUsize,
    per_address: Mutex<HashMap<IpAddr, usize>>,
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
    pub(crate) fn new(limits: Arc<ArcSwap<ConnectionLimits>>) -> Self {
        Self { inner: Arc::new(Counts { limits, total: AtomicUsize::new(0), per_address: Mutex::default() }) }
    }

    /// Takes a place for a connection from `address`.
    ///
    /// # Errors
    /// The limit that is reached.
    pub(crate) fn take(&self, address: IpAddr) -> Result<Place, Refused> {
        let counts = &self.inner;
        let limits = counts.limits.load();
        // A listener for both families shows IPv4 clients under IPv6 addresses.
        let address = address.to_canonical();
        let mut per_address = counts.per_address.lock();
        let count = per_address.get(&address).copied().unwrap_or(0);
        if counts.total.load(Ordering::Relaxed) >= limits.max {
            return Err(Refused::Total(limits.max));
        }
        if count >= limits.of_address(&address) {
            return Err(Refused::PerAddress(limits.of_address(&address)));
        }
        per_address.insert(address, count + 1);
        counts.total.fetch_add(1, Ordering::Relaxed);
        Ok(Place { counts: Arc::clone(counts), address })
    }

    /// Connections that are open.
    pub(crate) fn open(&self) -> usize {
        self.inner.total.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut per_address = self.counts.per_address.lock();
        self.counts.total.fetch_sub(1, Ordering::Relaxed);
        if let Some(count) = per_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                per_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use taffrail_core::config::BrokerLayers;

    use super::*;

    fn counts(limits: ConnectionLimits) -> (ConnectionCounts, Arc<ArcSwap<ConnectionLimits>>) {
        let limits = Arc::new(ArcSwap::from_pointee(limits));
        (ConnectionCounts::new(Arc::clone(&limits)), limits)
    }

    #[test]
    fn places_are_limited_in_all_and_per_address_and_come_back() {
        let (counts, _) = counts(ConnectionLimits { max: 3, per_address_max: 2, ..ConnectionLimits::default() });
        let [one, two]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let first = counts.take(one).unwrap();
        let _second = counts.take("::ffff:10.0.0.1".parse().unwrap()).unwrap();
        assert_eq!(counts.take(one).err(), Some(Refused::PerAddress(2)));
        let _third = counts.take(two).unwrap();
        assert_eq!(counts.take(two).err(), Some(Refused::Total(3)));
        drop(first);
        assert!(counts.take(one).is_ok());
        assert_eq!(counts.open(), 2);
    }

    #[test]
    fn single_addresses_have_limits_of_their_own_and_new_limits_count_at_once() {
        let [one, two]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let overridden = |limit| ConnectionLimits { overrides: [(one, limit)].into(), ..ConnectionLimits::default() };
        let (counts, limits) = counts(ConnectionLimits { per_address_max: 1, ..overridden(2) });
        let _places = [counts.take(one).unwrap(), counts.take(one).unwrap(), counts.take(two).unwrap()];
        assert_eq!(counts.take(one).err(), Some(Refused::PerAddress(2)));
        assert_eq!(counts.take(two).err(), Some(Refused::PerAddress(1)));
        limits.store(Arc::new(overridden(0)));
        assert_eq!(counts.take(one).err(), Some(Refused::PerAddress(0)));
        assert!(counts.take(two).is_ok());
    }

    #[tokio::test]
    async fn hosts_with_limits_are_looked_up_and_unknown_ones_are_left_out() {
        let value = "localhost:3,10.0.0.1:4,no-such-host.invalid:5";
        let static_broker = [("max.connections.per.ip.overrides".to_owned(), value.to_owned())].into();
        let config = BrokerConfig::resolve(&BrokerLayers { static_broker, ..BrokerLayers::default() }).unwrap();
        let limits = ConnectionLimits::of(&config).await;
        let of = |address: &str| limits.of_address(&address.parse().unwrap());
        assert_eq!((of("127.0.0.1"), of("10.0.0.1"), of("10.0.0.2")), (3, 4, usize::MAX));
    }

    #[test]
    fn the_memory_for_requests_is_what_the_settings_say_and_holds_the_largest_request() {
        for (given, expected) in [("-1", 256 << 20), ("0", 256 << 20), ("150000000", 150_000_000), ("5", 104_857_600)] {
            let static_broker = [("queued.max.request.bytes".to_owned(), given.to_owned())].into();
            let config = BrokerConfig::resolve(&BrokerLayers { static_broker, ..BrokerLayers::default() }).unwrap();
            assert_eq!(ListenerLimits::of(&config).requests_total_max_bytes, expected, "{given}");
        }
    }
}
