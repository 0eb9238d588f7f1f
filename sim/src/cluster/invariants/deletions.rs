//! No log begins behind what clients have asked to delete: nothing that was acknowledged is lost below a log's start.

use super::{Invariant, View, named};

#[derive(Default)]
pub(super) struct Deletions;

impl Invariant for Deletions {
    fn name(&self) -> &'static str {
        "deleted-as-asked"
    }

    fn look(&mut self, view: &View) -> Result<(), String> {
        for broker in &view.brokers {
            for (partition, log) in View::logs(broker) {
                let (start, asked) = (log.log_start_offset(), view.ledger.with(partition, |seen| seen.asked_to_delete));
                if start > asked {
                    let (partition, number) = (named(partition), broker.number);
                    return Err(format!(
                        "{partition} begins at {start} on broker {number}, and clients asked to delete up to {asked}"
                    ));
                }
            }
        }
        Ok(())
    }
}
