//! In one leader epoch of a partition, one broker leads at most; and records of one epoch come from one leader: where two
//! logs have the epoch, it begins at the same offset.

use std::collections::BTreeMap;

use taffrail_core::ids::BrokerId;

use super::{Invariant, View, named, partitions};

#[derive(Default)]
pub(super) struct OneLeader {
    leaders: BTreeMap<(i32, i32), BrokerId>,
}

impl Invariant for OneLeader {
    fn name(&self) -> &'static str {
        "one-leader-an-epoch"
    }

    fn look(&mut self, view: &View) -> Result<(), String> {
        for (name, image) in &view.images {
            for ((_, partition), state) in partitions(image).into_iter().filter(|(_, state)| state.has_leader()) {
                let known = *self.leaders.entry((partition, state.leader_epoch)).or_insert(state.leader);
                if known != state.leader {
                    let (partition, epoch) = (named(partition), state.leader_epoch);
                    return Err(format!(
                        "{partition} is led in epoch {epoch} by {} says {name}, and by {known}",
                        state.leader
                    ));
                }
            }
        }
        Ok(())
    }
}
