//! Models of core's own machines. Random walks go far (`replication`); everything else is exhaustive within stated bounds,
//! with the model checker stateright: every order of every step, and what must be true in every state that can be reached.
//!
//! Liveness is checked as "from every state, when nothing goes wrong any more, it comes to rest": stateright's own
//! `eventually` does not see cycles, and needs no fairness only where every path ends (as in `grants`).
//!
//! Each model is shown to be able to fail: with one rule replaced by a wrong one it finds a broken promise.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail the test and say how far it went"
)]

mod cluster;
mod grants;
mod groups;
mod partition;
mod replication;

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries, Model};

/// Whether the bounds are the larger ones: `make test-long` builds it so.
const IS_LONG: bool = option_env!("TAFFRAIL_LONG_MODELS").is_some();

/// Threads that look through a model.
const THREADS: usize = 2;

/// Looks through all of `model`: every promise must hold, and everything that should be possible must be. Gives how many
/// states there are.
fn holds<M>(name: &str, model: M) -> usize
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    let checker = model.checker().threads(THREADS).spawn_bfs().join();
    println!(
        "{name}: {} states, {} steps, depth {}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    );
    checker.assert_properties();
    checker.unique_state_count()
}

/// Looks for what breaks `promise` in a model with something wrong in it; gives the steps that lead there.
fn breaks<M>(model: M, promise: &'static str) -> Vec<M::Action>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    // One thread, so that what is found is always the same.
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found: Vec<&str> = checker.discoveries().into_keys().collect();
    let Some(path) = checker.discovery(promise) else { panic!("'{promise}' is not broken, only {found:?}") };
    path.into_actions()
}
