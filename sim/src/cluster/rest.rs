//! The end of a run: whether the cluster is whole, and whether everything that was promised is there.

use std::collections::BTreeMap;

use super::clients::{MIN_IN_SYNC, PARTITIONS};
use super::invariants::committed_prefix;
use super::machines::MACHINES;
use super::run::{HEALING_MAX_MS, Run};

impl Run {
    /// Whether all replicas are in sync, and none is on the move.
    pub(super) fn is_whole(&self) -> bool {
        let mut partitions = self.newest.topics().iter().flat_map(|topic| &topic.partitions);
        partitions.all(|state| {
            let has_all = if self.settings.is_operated {
                state.replicas.len() >= MIN_IN_SYNC
            } else {
                state.replicas.len() == usize::from(MACHINES)
            };
            has_all && state.isr.len() == state.replicas.len() && !state.is_reassigning()
        })
    }

    /// Producers stop, consumers read on to the end, and every log has all that was acknowledged.
    pub(super) fn come_to_rest(&mut self) -> Result<(), String> {
        self.surroundings.producing.set(false);
        self.until("liveness: everything acknowledged is consumed", HEALING_MAX_MS, |run| {
            (0..PARTITIONS).all(|partition| run.surroundings.ledger.with(partition, |seen| seen.is_consumed()))
        })?;
        self.until("liveness: every replica knows what is committed, and what is deleted", HEALING_MAX_MS, |run| {
            let (view, ledger) = (run.view(), &run.surroundings.ledger);
            view.brokers.len() == run.brokers.len()
                && view.brokers.iter().flat_map(|broker| view.replicas(broker)).all(|(partition, log)| {
                    let (known_end, deleted) = ledger.with(partition, |seen| (seen.known_end(), seen.deleted));
                    log.high_watermark() >= known_end && log.log_start_offset() >= deleted
                })
        })?;
        self.look()?;
        self.check_nothing_lost()?;
        self.losses.check_nothing()
    }

    fn check_nothing_lost(&self) -> Result<(), String> {
        let view = self.view();
        for broker in &view.brokers {
            for (partition, log) in view.replicas(broker) {
                let found = committed_prefix::records(&log, log.log_start_offset(), log.high_watermark())
                    .map_err(|error| format!("acknowledged-stays: broker {}: {error}", broker.number))?;
                let found: BTreeMap<_, _> = found.into_iter().collect();
                let lost = self.surroundings.ledger.with(partition, |seen| {
                    let mut kept = seen.acknowledged.range(seen.asked_to_delete..);
                    let missing = kept.find(|(offset, value)| found.get(offset) != Some(value));
                    missing.map(|(offset, value)| (*offset, *value))
                });
                if let Some((offset, value)) = lost {
                    let number = broker.number;
                    return Err(format!(
                        "acknowledged-stays: broker {number} lacks value {value} at offset {offset} of partition {partition}"
                    ));
                }
            }
        }
        Ok(())
    }
}
