//! A whole broker over loopback: real storage, real sockets, a controller that decides in this process.

mod admin;
mod allocations;
mod brokers;
mod cluster;
mod consume;
mod fetch_sessions;
mod fetchers;
mod followers;
mod following;
mod groups;
mod introductions;
mod lag;
mod membership;
mod produce;
mod replicas;
mod replicas_admin;
mod replication;
mod retry;
mod scripted;
mod throttles;
