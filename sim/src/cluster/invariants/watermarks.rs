//! Every log begins before its high watermark and ends behind it; and while a process lives, no high watermark goes back.

use std::collections::BTreeMap;

use super::{Invariant, View, named};

#[derive(Default)]
pub(super) struct Watermarks {
    /// By machine, life and partition.
    reached: BTreeMap<(u8, u64, i32), i64>,
}

impl Invariant for Watermarks {
    fn name(&self) -> &'static str {
        "watermarks-in-order"
    }

    fn look(&mut self, view: &View) -> Result<(), String> {
        for broker in &view.brokers {
            for (partition, log) in View::logs(broker) {
                let (offsets, number) = (log.offsets(), broker.number);
                let (start, reached, end) = (offsets.log_start_offset, offsets.high_watermark, offsets.end_offset);
                if start > reached || reached > end {
                    let partition = named(partition);
                    return Err(format!(
                        "{partition} on broker {number}: start {start}, watermark {reached}, end {end}"
                    ));
                }
                let before = self.reached.insert((number, broker.life, partition), reached).unwrap_or(0);
                // A follower that begins anew, behind everything it had, is another log.
                if reached < before && start < before {
                    let partition = named(partition);
                    return Err(format!(
                        "{partition} on broker {number}: the watermark fell from {before} to {reached}"
                    ));
                }
            }
        }
        Ok(())
    }
}
