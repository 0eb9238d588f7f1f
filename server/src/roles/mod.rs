//! The roles that a process can have, and the data directory that they keep everything in. `up` runs them all in one
//! process; the other commands run one each.

mod boot;
mod broker;
mod broker_files;
mod data_dir;
mod extra_listener;
mod operator;
mod quorum;

pub(crate) use broker::{
    BrokerPlace, BrokerRole, BrokerStart, LISTENER, RoleEnd, config, session_timeout, start_shards, static_config,
};
pub(crate) use broker_files::{BrokerFiles, known_cluster};
pub(crate) use data_dir::{BROKERS_MAX, DataDir};
pub(crate) use extra_listener::ExtraListener;
pub(crate) use operator::run as operator;
pub(crate) use quorum::QuorumRole;
