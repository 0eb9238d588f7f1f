//! What producers feel of a reader that goes through a backlog which is not in memory. Memory is limited by a cgroup to less
//! than the backlog, page cache included, so that nothing is left to luck.

use std::time::Duration;

use anyhow::Result;

use super::load::span;
use crate::compare::Bench;
use crate::compare::cgroup::MemoryLimit;
use crate::compare::results::{Figures, Side};
use crate::compare::sides::prepare;

/// Room for Kafka's heap of a gibibyte, what else it takes, and some page cache; far less than the backlog.
const MEMORY_BYTES: u64 = 2 << 30;
const BACKLOG_MB: &str = "5000";
const LOAD: Duration = Duration::from_secs(10);

/// Produce latency quiet and beside the reader.
pub(super) fn measure(bench: &Bench, side: Side) -> Result<Figures> {
    let limit = MemoryLimit::create(MEMORY_BYTES)?;
    // Declared after the limit, so that it ends before: a group with a process in it cannot be removed.
    let mut broker = prepare(side, bench.folder(), bench.ports)?;
    let waiting = bench.tool.await_ack(broker.as_ref())?;
    broker.start()?;
    limit.hold(broker.process()?)?;
    waiting.at_ns()?;
    bench.tool.measure(broker.as_ref(), "cold", &span(bench, LOAD), &["-backlog", BACKLOG_MB])
}
