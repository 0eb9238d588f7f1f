//! The two sides: brokers as processes on loopback, each started with the settings that it ships with.

mod cluster;
mod kafka;
mod kafka_cluster;
mod proc;
mod taffrail;
mod taffrail_cluster;

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use super::results::Side;
pub(crate) use cluster::{BROKERS, CONTROLLERS, Cluster, NodeId};
use kafka::Kafka;
use kafka_cluster::KafkaCluster;
pub(crate) use proc::Process;
use taffrail::Taffrail;
pub(crate) use taffrail::binary;
use taffrail_cluster::TaffrailCluster;

/// What the load tool is pointed at.
pub(crate) trait Endpoint {
    /// Where clients connect to, as `host:port`, several of them separated by commas.
    fn bootstrap(&self) -> String;
    /// The brokers' processes, which run.
    fn brokers(&self) -> Result<Vec<Process>>;
}

/// A broker on a data folder of its own. It ends, and its data goes, when it is dropped.
pub(crate) trait Broker: Endpoint {
    /// Starts the process, which does not run, on the data that is there, and does not wait until it serves. Says when
    /// it began, in nanoseconds of Unix time.
    fn start(&mut self) -> Result<i64>;
    /// Sends SIGKILL and waits for the end of the process.
    fn kill(&mut self) -> Result<()>;
    /// The process that runs.
    fn process(&self) -> Result<Process>;
}

/// Where brokers of a run may listen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    /// One node: Kafka takes this and the one 100 above, Taffrail the two after it. A cluster: Kafka's brokers take this
    /// and the next ones, its controllers those 100 above, Taffrail's processes those from 10 above.
    pub(crate) first: u16,
}

impl Ports {
    fn kafka(self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.first).into()
    }

    fn taffrail(self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.first + 1).into()
    }

    fn metrics(self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.first + 2).into()
    }

    /// # Errors
    /// If somebody listens at one of them, who would answer in our brokers' place.
    pub(crate) fn check(self) -> Result<()> {
        let cluster = taffrail_cluster::ports(self.first).into_iter().chain(kafka_cluster::ports(self.first));
        let cluster = cluster.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        for address in cluster.chain([self.kafka(), self.taffrail(), self.metrics()]) {
            if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
                bail!("something listens at {address} already (choose other ports with --port)");
            }
        }
        Ok(())
    }
}

/// Makes a broker with an empty data folder under `folder`, and does not start it.
///
/// # Errors
/// If its folder cannot be made or formatted.
pub(crate) fn prepare(side: Side, folder: &Path, ports: Ports) -> Result<Box<dyn Broker>> {
    Ok(match side {
        Side::Taffrail => Box::new(taffrail(folder, ports)?),
        Side::Kafka => Box::new(Kafka::format(folder, ports)?),
    })
}

/// Makes three brokers and three controllers with empty data folders under `folder`, and does not start them.
///
/// # Errors
/// As [`prepare`].
pub(crate) fn prepare_cluster(side: Side, folder: &Path, ports: Ports) -> Result<Box<dyn Cluster>> {
    Ok(match side {
        Side::Taffrail => Box::new(TaffrailCluster::prepare(folder, ports.first)?),
        Side::Kafka => Box::new(KafkaCluster::format(folder, ports.first)?),
    })
}

/// As [`prepare`], of what only Taffrail has.
///
/// # Errors
/// As [`prepare`].
pub(crate) fn taffrail(folder: &Path, ports: Ports) -> Result<Taffrail> {
    Taffrail::prepare(folder, ports)
}

/// Now, in nanoseconds of Unix time.
///
/// # Errors
/// If the clock is before 1970.
pub(crate) fn unix_ns() -> Result<i64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock")?;
    Ok(i64::try_from(since.as_nanos())?)
}
