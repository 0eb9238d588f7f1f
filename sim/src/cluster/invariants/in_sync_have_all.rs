//! A replica that the newest metadata name in sync has every committed record.

use super::{Invariant, View, named, partitions};

#[derive(Default)]
pub(super) struct InSyncHaveAll;

impl Invariant for InSyncHaveAll {
    fn name(&self) -> &'static str {
        "in-sync-have-all"
    }

    fn look(&mut self, view: &View) -> Result<(), String> {
        for ((_, partition), state) in partitions(&view.newest) {
            let known_end = view.ledger.with(partition, |seen| seen.known_end());
            for broker in &view.brokers {
                let id = taffrail_core::ids::BrokerId(i32::from(broker.number));
                // A new process tells of what its machine has lost when it registers: until then it is not counted on.
                let registered = view.newest.broker(id).map(|registered| registered.epoch);
                if !state.isr.contains(&id) || registered != Some(broker.running.broker.identity().epoch) {
                    continue;
                }
                let Some((_, log)) = View::logs(broker).find(|(index, _)| *index == partition) else { continue };
                if log.end_offset() < known_end {
                    let (partition, end) = (named(partition), log.end_offset());
                    return Err(format!(
                        "{partition}: broker {id} is in sync in partition epoch {} and ends at {end}, while clients know of \
                         records up to {known_end}",
                        state.partition_epoch
                    ));
                }
            }
        }
        Ok(())
    }
}
