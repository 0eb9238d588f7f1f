//! The roles that a process can have, and the data directory that they keep everything in. `up` runs them all in one
//! process; the other commands run one each.

mod broker;
mod broker_files;
mod data_dir;
mod quorum;

pub(crate) use broker::{BrokerRole, BrokerStart, LISTENER, RoleEnd, config, static_config};
pub(crate) use broker_files::{check_not_lost, claim, open_storage};
pub(crate) use data_dir::DataDir;
pub(crate) use quorum::QuorumRole;
