//! A way to the controllers on which proposals of leaders come more than once, the later ones late: as with a sender that
//! heard no answer and asked again over another connection, while the first connection came to life again.

use std::sync::Arc;
use std::time::Duration;

use taffrail_broker::{Answer, Controller, ControllerHandle};
use taffrail_core::control::Command;
use taffrail_protocol::rpc::{Committed, Quorum, VoterChange};
use taffrail_runtime::{random, task, time};

/// How often a proposal comes again.
const REPEATED: usize = 2;

/// How much later at most.
const REPEATED_AFTER_MAX_MS: u64 = 6_000;

/// The way.
pub(super) struct Repeating(pub(super) Arc<ControllerHandle>);

impl Controller for Repeating {
    fn propose(&self, command: Command) -> Answer<'_, Committed> {
        let repeats = if matches!(command, Command::AlterPartition(_)) { REPEATED } else { 0 };
        for _ in 0..repeats {
            let (handle, command) = (Arc::clone(&self.0), command.clone());
            drop(task::spawn(async move {
                time::sleep(Duration::from_millis(random::u64() % REPEATED_AFTER_MAX_MS)).await;
                // Nobody waits for the answer.
                let _ = handle.propose(command).await;
            }));
        }
        self.0.propose(command)
    }

    fn describe_quorum(&self) -> Answer<'_, Quorum> {
        self.0.describe_quorum()
    }

    fn change_voters(&self, change: VoterChange) -> Answer<'_, ()> {
        self.0.change_voters(change)
    }
}
