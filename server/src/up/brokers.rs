//! The brokers of `up`: one, or several, each with a port and a folder of its own.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::future::{join_all, select_all};
use taffrail_broker::{Broker, Loggers};
use taffrail_core::config::{BrokerConfig, Overrides};
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_core::image::MetadataImage;
use taffrail_runtime::cluster_secret::ClusterSecret;
use taffrail_runtime::grpc::Target;
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::shard::Shards;
use taffrail_runtime::task;

use crate::http::Health;
use crate::options::Options;
use crate::roles::{self, BrokerFiles, BrokerPlace, BrokerRole, BrokerStart, DataDir, RoleEnd};
use crate::sockets::listen;

/// What the one process is.
pub(super) const ROLES: &str = "broker,controller";

/// A broker before it starts: its number, its port, its folder, its settings.
pub(super) struct Seat {
    id: BrokerId,
    socket: TcpListener,
    advertised: (String, u16),
    logs: PathBuf,
    static_config: Overrides,
    config: BrokerConfig,
    leave_timeout: Duration,
}

/// A broker whose files are open, and that is not in the cluster yet.
pub(super) struct Opened {
    seat: Seat,
    files: BrokerFiles,
}

/// What all brokers of this process have in common.
#[derive(Clone)]
pub(super) struct Common {
    pub(super) cluster_id: Uuid,
    pub(super) controllers: Vec<(String, Target)>,
    pub(super) shards: Arc<Shards>,
    pub(super) loggers: Arc<dyn Loggers>,
    /// They are of one process, which nobody else is of.
    pub(super) secret: ClusterSecret,
}

/// A broker of the cluster that takes no clients yet.
pub(super) struct Joined {
    role: BrokerRole,
    socket: TcpListener,
    advertised: (String, u16),
}

/// All brokers of this process, in the order of their numbers, which begin with 1.
pub(super) struct Brokers {
    common: Common,
    roles: Vec<BrokerRole>,
    /// Where each takes clients, once it does.
    sockets: Vec<TcpListener>,
    /// Where each takes clients, as this process reaches it.
    places: BTreeMap<i32, String>,
    /// What clients are told.
    pub(super) advertised: Vec<(String, u16)>,
}

impl Seat {
    /// Takes the ports of `count` brokers: that of the options and those that follow it, or any. Brokers are pinned to
    /// `zones` in turn.
    ///
    /// # Errors
    /// When a port is taken.
    pub(super) async fn take(
        options: &Options,
        dir: &DataDir,
        count: i32,
        zones: &[String],
    ) -> anyhow::Result<Vec<Self>> {
        let mut seats = Vec::new();
        for nth in (0..).take(usize::try_from(count).unwrap_or(0)) {
            seats.push(Self::take_nth(options, dir, nth, zones).await?);
        }
        Ok(seats)
    }

    /// Takes the port of the `nth` broker, counted from 0.
    ///
    /// # Errors
    /// When it is taken.
    pub(super) async fn take_nth(options: &Options, dir: &DataDir, nth: u16, zones: &[String]) -> anyhow::Result<Self> {
        let id = BrokerId(i32::from(nth) + 1);
        let address = nth_address(options.listen, nth)?;
        let socket = listen(address, "--listen").await?;
        let bound = socket.local_addr()?;
        let advertised = options.advertised_nth(bound, nth).context("--advertise: there are not so many ports")?;
        let logs = dir.logs_of(id.0);
        let rack = zones.get(usize::from(nth) % zones.len().max(1)).map(String::as_str);
        let place = BrokerPlace { id, roles: ROLES, bound, advertised: &advertised, extra: &[], logs: &logs, rack };
        let static_config = roles::static_config(options, &place);
        let config = roles::config(&static_config)?;
        let leave_timeout = options.leave_timeout;
        Ok(Self { id, socket, advertised, logs, static_config, config, leave_timeout })
    }

    /// Its settings, as the controllers take defaults of topics from them.
    pub(super) fn static_config(&self) -> &Overrides {
        &self.static_config
    }

    /// The same, typed.
    pub(super) fn config(&self) -> &BrokerConfig {
        &self.config
    }

    /// Opens the files of all.
    ///
    /// # Errors
    /// When those of one cannot be opened.
    pub(super) async fn open(seats: Vec<Self>) -> anyhow::Result<Vec<Opened>> {
        let count = seats.len();
        join_all(seats.into_iter().map(|seat| seat.open_one(count))).await.into_iter().collect()
    }

    /// Opens the files of one, of `count` brokers.
    async fn open_one(self, count: usize) -> anyhow::Result<Opened> {
        let files = BrokerFiles::open(self.logs.clone(), self.id, &self.config, count).await?;
        Ok(Opened { seat: self, files })
    }
}

/// The port of the `nth` broker: as many further; any where any is wanted.
fn nth_address(first: SocketAddr, nth: u16) -> anyhow::Result<SocketAddr> {
    let port = match first.port() {
        0 => Some(0),
        port => port.checked_add(nth),
    };
    match port {
        Some(port) => Ok(SocketAddr::new(first.ip(), port)),
        None => bail!("--listen {first}: the port of the next broker would be above 65535"),
    }
}

/// Where something that listens at `bound` is reached from the same machine.
fn from_here(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

impl Common {
    /// Brings a broker into the cluster. It takes no clients yet.
    async fn join(self, opened: Opened) -> anyhow::Result<Joined> {
        let Opened { seat: Seat { id, socket, advertised, static_config, leave_timeout, .. }, files } = opened;
        let role = BrokerRole::start(BrokerStart {
            id,
            cluster_id: self.cluster_id,
            static_config,
            controllers: self.controllers,
            files,
            advertised: advertised.clone(),
            extra: Vec::new(),
            shards: self.shards,
            loggers: self.loggers,
            secret: Some(self.secret),
            leave_timeout,
        });
        Ok(Joined { role: role.await?, socket, advertised })
    }
}

impl Brokers {
    /// Brings all into the cluster. They take no clients yet.
    ///
    /// # Errors
    /// When one cannot be part of it.
    pub(super) async fn start(opened: Vec<Opened>, common: Common) -> anyhow::Result<Self> {
        let starting: Vec<_> = opened.into_iter().map(|opened| common.clone().join(opened)).collect();
        let joined = join_all(starting).await.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        let (roles, sockets, advertised) = (Vec::new(), Vec::new(), Vec::new());
        let mut brokers = Self { common, roles, sockets, places: BTreeMap::new(), advertised };
        for Joined { role, socket, advertised } in joined {
            brokers.places.insert(role.handle().id.0, from_here(socket.local_addr()?).to_string());
            brokers.advertised.push(advertised);
            brokers.sockets.push(socket);
            brokers.roles.push(role);
        }
        Ok(brokers)
    }

    /// Begins to bring one more into the cluster, as `seat` says.
    pub(super) fn begin_to_add(&self, seat: Seat) -> task::JoinHandle<anyhow::Result<Joined>> {
        let (common, count) = (self.common.clone(), self.roles.len() + 1);
        task::spawn(async move { common.join(seat.open_one(count).await?).await })
    }

    /// Has one more that joined take clients.
    ///
    /// # Errors
    /// When its listener has no address.
    pub(super) fn add(&mut self, joined: Joined) -> anyhow::Result<()> {
        let Joined { mut role, socket, advertised } = joined;
        self.places.insert(role.handle().id.0, from_here(socket.local_addr()?).to_string());
        self.advertised.push(advertised);
        role.serve(socket);
        self.roles.push(role);
        Ok(())
    }

    /// Begins to stop the last one, which has nothing left; `None` = the first is never taken away.
    pub(super) fn begin_to_remove(&mut self) -> Option<task::JoinHandle<anyhow::Result<()>>> {
        let role = (self.roles.len() > 1).then(|| self.roles.pop()).flatten()?;
        self.advertised.truncate(self.roles.len());
        self.places.remove(&role.handle().id.0);
        Some(task::spawn(role.stop()))
    }

    /// How many there are.
    pub(super) fn count(&self) -> i32 {
        i32::try_from(self.roles.len()).unwrap_or(i32::MAX)
    }

    /// Has the metrics and the health of all told.
    pub(super) fn tell(&self, health: &Health) {
        self.roles.iter().for_each(|role| health.add(role.handle(), role.unfenced()));
    }

    /// Has the metrics and the health of the last one told.
    pub(super) fn tell_last(&self, health: &Health) {
        self.roles.last().into_iter().for_each(|role| health.add(role.handle(), role.unfenced()));
    }

    /// The broker whose metadata are taken for those of the process.
    pub(super) fn first(&self) -> Arc<Broker> {
        self.roles[0].handle()
    }

    /// Where each takes clients, as this process reaches it.
    pub(super) fn places(&self) -> &BTreeMap<i32, String> {
        &self.places
    }

    /// Takes clients from now on.
    pub(super) fn serve(&mut self) {
        for (role, socket) in self.roles.iter_mut().zip(self.sockets.drain(..)) {
            role.serve(socket);
        }
    }

    /// Waits until one fails.
    pub(super) async fn failed(&mut self) -> RoleEnd {
        select_all(self.roles.iter_mut().map(|role| Box::pin(role.failed()))).await.0
    }

    /// Stops all at once: who leads last has nobody left to hand over to.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        join_all(self.roles.into_iter().map(BrokerRole::stop)).await.into_iter().collect()
    }
}

/// Refuses to start where partitions of which there is no other replica are gone.
pub(super) fn check_not_lost(opened: &[Opened], image: &MetadataImage) -> anyhow::Result<()> {
    opened.iter().try_for_each(|it| it.files.check_not_lost(image))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_further_brokers_follow_the_first_or_are_any() {
        let port = |first: &str, nth| nth_address(first.parse().unwrap(), nth).map(|address| address.port());
        assert_eq!(port("127.0.0.1:9092", 0).unwrap(), 9092);
        assert_eq!(port("127.0.0.1:9092", 2).unwrap(), 9094);
        assert_eq!(port("[::1]:0", 2).unwrap(), 0);
        let here = |bound: &str| from_here(bound.parse().unwrap()).to_string();
        assert_eq!([here("0.0.0.0:1"), here("[::]:1"), here("10.0.0.1:1")], ["127.0.0.1:1", "[::1]:1", "10.0.0.1:1"]);
        assert!(port("127.0.0.1:65535", 1).unwrap_err().to_string().contains("above 65535"));
    }
}
