//! Whole clusters: three controllers and three brokers of the production crates, clients beside them, and everything that
//! goes wrong between them.
//!
//! Each process is a [`taffrail_runtime::simulation::Host`]; they meet in a simulated network and keep what they keep on
//! simulated disks. A run has two phases: in the first, [`faults`] strike; in the second everything is healed, and the
//! cluster has to become whole again. [`invariants`] look all the time. What clients sent and were told is in the
//! [`ledger`].

mod beyond;
mod clients;
mod faults;
mod invariants;
mod ledger;
mod lurking;
mod machines;
mod panics;
mod rest;
mod run;
mod trace;

pub use ledger::Orders;
pub use run::{Report, Settings, Told, run};

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}, {at_ms} ms: {what}")]
pub struct Failure {
    /// Seed of the run.
    pub seed: u64,
    /// When it was seen, in milliseconds since the beginning.
    pub at_ms: u64,
    /// What was seen, with the invariant's name.
    pub what: String,
}
