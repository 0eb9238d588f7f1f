//! The storage engine on a disk that crashes, fills up and tears writes.
//!
//! A run does random things to one log and keeps a plain list of what must be in it. After every crash, kill or clean stop
//! the log is opened again, and what it holds is compared with the list: nothing that was flushed is lost, what is left is
//! a first part of what was appended, offsets follow each other, and every way to find a record agrees with looking at all
//! of them.

mod check;
mod model;
mod run;
#[cfg(test)]
mod tests;

pub use run::{Report, Settings, run};

/// What went wrong, with the seed and the step.
#[derive(Debug)]
pub struct Failure {
    /// Seed of the run.
    pub seed: u64,
    /// Step at which it was seen.
    pub step: usize,
    /// What was seen.
    pub what: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "seed {}, step {}: {}", self.seed, self.step, self.what)
    }
}

impl std::error::Error for Failure {}
