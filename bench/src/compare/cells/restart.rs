//! How soon a broker that was killed serves all its partitions again.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use crate::compare::Bench;
use crate::compare::results::{Figures, Side};
use crate::compare::sides::prepare;

/// What is on the disk when the broker is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// One partition with a few records.
    Little,
    /// 2,000 partitions with a few records each.
    Partitions,
    /// 40,000 segments in 100 partitions, which have been synced and checkpointed but for the last of each.
    Segments,
}

/// Recovery points are written each minute; what lies past them is read through after a kill, segment by segment.
const CHECKPOINTED: Duration = Duration::from_secs(65);

impl Left {
    /// What the load tool fills the topic with.
    fn filling(self) -> &'static [&'static str] {
        match self {
            Self::Little => &["-partitions", "1", "-rounds", "10"],
            Self::Partitions => &["-partitions", "2000", "-rounds", "2"],
            // Each batch is more than a millisecond younger than the one before it, so each begins a segment.
            Self::Segments => &["-partitions", "100", "-rounds", "400", "-step", "10", "-config", "segment.ms=1"],
        }
    }
}

/// Fills, kills, and starts again.
pub(super) fn measure(bench: &Bench, side: Side, left: Left) -> Result<Figures> {
    let mut broker = prepare(side, bench.folder(), bench.ports)?;
    let waiting = bench.tool.await_ack(broker.as_ref())?;
    broker.start()?;
    waiting.at_ns()?;
    bench.tool.fill(broker.as_ref(), "left", left.filling())?;
    if left == Left::Segments {
        sleep(CHECKPOINTED);
    }
    broker.kill()?;
    let waiting = bench.tool.await_topic(broker.as_ref(), "left")?;
    let begun = broker.start()?;
    Ok(Figures::from([("ready_s".to_owned(), (waiting.at_ns()? - begun) as f64 / 1e9)]))
}
