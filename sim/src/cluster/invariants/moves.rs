//! A reassignment ends when every replica that is to stay is in sync, or when it is cancelled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use taffrail_core::event::PartitionState;

use super::{Invariant, View, named, partitions};

#[derive(Default)]
pub(super) struct Moves {
    /// What was seen last of each partition that was on the move.
    moving: BTreeMap<i32, Arc<PartitionState>>,
}

impl Invariant for Moves {
    fn name(&self) -> &'static str {
        "moves-end-in-sync"
    }

    fn look(&mut self, view: &View) -> Result<(), String> {
        for ((_, partition), state) in partitions(&view.newest) {
            let before = self.moving.remove(&partition);
            if state.is_reassigning() {
                self.moving.insert(partition, state);
                continue;
            }
            // What has changed again since then tells nothing.
            let Some(before) = before.filter(|before| state.partition_epoch == before.partition_epoch + 1) else {
                continue;
            };
            let set = |ids: &[_]| ids.iter().copied().collect::<BTreeSet<_>>();
            let is_done = set(&state.replicas) == set(&before.replicas_after());
            let is_cancelled = set(&state.replicas) == set(&before.replicas_before());
            if is_done && !is_cancelled && set(&state.isr) != set(&state.replicas) {
                let (partition, replicas, isr) = (named(partition), &state.replicas, &state.isr);
                return Err(format!("{partition} is moved to {replicas:?}, of which {isr:?} are in sync"));
            }
        }
        Ok(())
    }
}
