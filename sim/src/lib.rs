//! Seeded simulation: the real code on a simulated machine, where a seed decides everything that happens. A run that finds
//! a fault prints its seed, and `cargo run -p taffrail-sim -- storage --seed N` (or `cluster`) does the very same again.

pub mod cluster;
mod entropy;
pub mod storage;
