//! The machines of a cluster, and what of each outlives the process on it.

mod broker;
mod controller;
mod machine;
mod repeating;

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

use taffrail_core::config::Overrides;
use taffrail_core::ids::Uuid;

pub(super) use broker::{BrokerMachine, Running};
pub(super) use controller::ControllerMachine;
use machine::Machine;

/// How many controllers and how many brokers there are. Clients begin with one of these brokers.
pub(super) const MACHINES: u8 = 3;

/// How many brokers there are where somebody moves replicas.
pub(super) const BROKERS_MAX: u8 = 4;

/// The cluster that all of them belong to.
pub(super) const CLUSTER: Uuid = Uuid([7; 16]);

/// What a process shows to the run while it lives.
pub(super) type Slot<T> = Rc<RefCell<Option<T>>>;

/// Machine `number` of the controllers.
pub(super) fn controller_address(number: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 1, number)), 9093)
}

/// Machine `number` of the brokers.
pub(super) fn broker_address(number: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 2, number)), 9092)
}

/// Machine `number` of the clients.
pub(super) fn client_address(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 3, number))
}

/// Names under which controllers are known.
pub(super) fn controllers() -> Vec<String> {
    (1..=MACHINES).map(|number| controller_address(number).to_string()).collect()
}

/// Settings of all brokers: shorter waits than usual, so that more happens in a run.
pub(super) fn settings() -> Overrides {
    let settings = [
        ("broker.heartbeat.interval.ms", "500"),
        ("broker.session.timeout.ms", "3000"),
        ("replica.lag.time.max.ms", "2000"),
        ("replica.high.watermark.checkpoint.interval.ms", "1000"),
        ("inter.broker.listener.name", broker::LISTENER),
        ("default.replication.factor", "3"),
        ("auto.create.topics.enable", "false"),
        ("min.insync.replicas", "2"),
        ("offsets.topic.num.partitions", "1"),
    ];
    settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}
