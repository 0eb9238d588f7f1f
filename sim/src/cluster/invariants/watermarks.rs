//! Every log begins before its high watermark and ends behind it; and while a process lives, no high watermark goes back.

use super::{Invariant, Reached, View, named};

#[derive(Default)]
pub(super) struct Watermarks {
    reached: Reached,
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
                let before = std::mem::replace(self.reached.of(broker, partition, &log), reached);
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
