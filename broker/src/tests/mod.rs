//! A whole broker over loopback: real storage, real sockets, a controller that decides in this process.

mod admin;
mod allocations;
mod cluster;
mod consume;
mod groups;
mod membership;
mod produce;
mod retry;
