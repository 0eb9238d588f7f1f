//! Kafka's protocol as a client speaks it: what the command line asks brokers, of this product and of others.
//!
//! One [`KafkaClient`] keeps a connection to each broker that it had to ask. What is refused for a while (a leader moves, a
//! coordinator loads) is asked again until the client's patience ends; what is refused for good comes back as it is.

mod assignor;
mod cluster;
mod connection;
mod consumer;
mod error;
mod groups;
mod membership;
mod moves;
mod negotiated;
mod offsets;
mod partitioner;
mod producer;
mod quorum;
mod reassign;
mod reset;
mod settings;
mod sticky;
mod topics;

use std::collections::BTreeMap;
use std::time::Duration;

use taffrail_protocol::message::Request;
use taffrail_protocol::versions::VersionRange;
use taffrail_runtime::time;

pub use self::cluster::{ClusterBroker, ClusterInfo, LogDir};
pub use self::connection::{ConnectionError, KafkaConnection};
pub use self::consumer::{Consumer, FetchLimits, Fetched};
use self::error::check;
pub use self::error::{DamageError, KafkaError};
pub use self::groups::{CommittedOffset, Group, GroupMember, ListedGroup};
pub use self::membership::{Assignor, Membership};
pub use self::moves::{Copied, Move};
use self::negotiated::Connection;
pub use self::offsets::{OffsetAt, PartitionKey};
pub use self::producer::{Outgoing, Produced, Producer, ProducerOptions};
pub use self::quorum::{Quorum, QuorumReplica};
pub use self::reassign::Reassignment;
pub use self::reset::Reset;
pub use self::settings::{ConfigChange, TopicSetting};
pub use self::topics::{CreatedTopic, NewTopic, Partition, Topic};

/// Most brokers that are given to start with.
pub const BOOTSTRAP_MAX: usize = 64;

/// Pause before something is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// A client of one cluster.
pub struct KafkaClient {
    bootstrap: Vec<String>,
    timeout: Duration,
    /// To whichever broker answered first.
    first: Connection,
    /// Where each broker is, as the newest answer to Metadata said.
    addresses: BTreeMap<i32, String>,
    connections: BTreeMap<i32, Connection>,
    /// The broker that the cluster calls its controller.
    controller: i32,
    /// Who led each partition when it was asked for last.
    leaders: BTreeMap<PartitionKey, i32>,
}

/// How long something may still be tried.
pub(crate) struct Patience {
    until: time::Instant,
}

impl Patience {
    fn new(timeout: Duration) -> Self {
        Self { until: time::monotonic() + timeout }
    }

    /// Waits a little if `error` may pass and there is time left.
    ///
    /// # Errors
    /// `error` itself, if there is not.
    async fn after(&self, error: KafkaError) -> Result<(), KafkaError> {
        if error.is_passing() { self.pause(error).await } else { Err(error) }
    }

    /// Waits a little if there is time left, whatever happened.
    ///
    /// # Errors
    /// `error` itself, if there is none.
    async fn pause(&self, error: KafkaError) -> Result<(), KafkaError> {
        if time::monotonic() + AGAIN >= self.until {
            return Err(error);
        }
        time::sleep(AGAIN).await;
        Ok(())
    }
}

impl KafkaClient {
    /// A client that begins with the first of `bootstrap` (hosts and ports) that answers. Each call takes `timeout` at most
    /// for each answer, and is tried again for as long.
    ///
    /// # Errors
    /// [`KafkaError::Unreachable`] if none of them does.
    pub async fn connect(bootstrap: &[String], timeout: Duration) -> Result<Self, KafkaError> {
        let first = Self::dial_any(bootstrap, timeout).await?;
        let (addresses, connections) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self {
            bootstrap: bootstrap.to_vec(),
            timeout,
            first,
            addresses,
            connections,
            controller: -1,
            leaders: BTreeMap::new(),
        })
    }

    async fn dial_any(bootstrap: &[String], timeout: Duration) -> Result<Connection, KafkaError> {
        let mut last = ConnectionError::Silent(String::new());
        for address in bootstrap.iter().take(BOOTSTRAP_MAX) {
            match Connection::dial(address, timeout).await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(KafkaError::Unreachable { addresses: bootstrap.join(", "), source: last })
    }

    /// Asks whichever broker it is.
    async fn ask_any<R: Request>(&mut self, versions: VersionRange, request: &R) -> Result<R::Response, KafkaError> {
        match self.first.call(versions, request).await {
            Ok(answer) => Ok(answer),
            Err(error @ ConnectionError::Versions { .. }) => Err(KafkaError::Unusable(error)),
            Err(_) => {
                // The broker may have gone since it was asked last.
                self.first = Self::dial_any(&self.bootstrap, self.timeout).await?;
                self.first.call(versions, request).await.map_err(KafkaError::Unusable)
            }
        }
    }

    /// Asks one broker.
    async fn ask<R: Request>(
        &mut self,
        broker: i32,
        versions: VersionRange,
        request: &R,
    ) -> Result<R::Response, KafkaError> {
        self.ask_within(broker, self.timeout, versions, request).await
    }

    /// The same for a request that may take `timeout`.
    async fn ask_within<R: Request>(
        &mut self,
        broker: i32,
        timeout: Duration,
        versions: VersionRange,
        request: &R,
    ) -> Result<R::Response, KafkaError> {
        let mut connection = match self.connections.remove(&broker) {
            Some(connection) => connection,
            None => self.dial(broker).await?,
        };
        match connection.call_within(timeout, versions, request).await {
            Ok(answer) => {
                self.connections.insert(broker, connection);
                Ok(answer)
            }
            Err(source) => Err(KafkaError::Broker { broker, source }),
        }
    }

    /// A connection of its own to one broker.
    async fn dial(&self, broker: i32) -> Result<Connection, KafkaError> {
        let address = self.addresses.get(&broker).ok_or(KafkaError::UnknownBroker(broker))?;
        let dialled = Connection::dial(address, self.timeout).await;
        dialled.map_err(|source| KafkaError::Broker { broker, source })
    }

    /// How long brokers are asked to take at most, in milliseconds.
    fn timeout_ms(&self) -> i32 {
        i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX)
    }
}
