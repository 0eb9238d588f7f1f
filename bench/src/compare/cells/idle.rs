//! CPU while nothing is asked of the brokers. Both are measured at the same time: neither is in the other's way.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use crate::compare::Bench;
use crate::compare::results::{Figures, Run, Side};
use crate::compare::sides::Process;

/// Until what loads and new topics have set off is over.
const SETTLE: Duration = Duration::from_secs(10);
/// How long one look takes, and how many there are.
const LOOK: Duration = Duration::from_secs(6);
const LOOKS: usize = 2;

/// Measures both clusters, all six processes taken together, with a topic of `partitions` partitions.
pub(super) fn measure_clusters(bench: &mut Bench, name: &str, partitions: u32) -> Result<Vec<Run>> {
    bench.start_clusters()?;
    let sides = [Side::Taffrail, Side::Kafka];
    for side in sides {
        bench.tool.create(bench.cluster(side)?, name, partitions)?;
    }
    sleep(SETTLE);
    let mut runs = Vec::new();
    for _ in 0..LOOKS {
        let cpu = |side| -> Result<u64> { bench.cluster(side)?.processes()?.into_iter().map(Process::cpu_ns).sum() };
        let rss = |side| -> Result<f64> { bench.cluster(side)?.processes()?.into_iter().map(Process::rss_mb).sum() };
        let before = [cpu(sides[0])?, cpu(sides[1])?];
        sleep(LOOK);
        for (side, before) in sides.into_iter().zip(before) {
            let used = Duration::from_nanos(cpu(side)?.saturating_sub(before));
            let figures = Figures::from([
                ("core_percent".to_owned(), used.as_secs_f64() * 100.0 / LOOK.as_secs_f64()),
                ("rss_mb".to_owned(), rss(side)?),
            ]);
            bench.say(&format!("  {} {figures:?}", side.name()));
            runs.push(Run { side, figures });
        }
    }
    Ok(runs)
}

/// Measures both brokers, with a topic of `partitions` partitions if there shall be one.
pub(super) fn measure(bench: &mut Bench, name: &str, partitions: u32) -> Result<Vec<Run>> {
    bench.start_pair()?;
    let sides = [Side::Taffrail, Side::Kafka];
    if partitions > 0 {
        for side in sides {
            bench.tool.create(bench.broker(side)?, name, partitions)?;
        }
    }
    sleep(SETTLE);
    let mut runs = Vec::new();
    for _ in 0..LOOKS {
        let cpu = |side| bench.broker(side)?.process()?.cpu_ns();
        let before = [cpu(sides[0])?, cpu(sides[1])?];
        sleep(LOOK);
        for (side, before) in sides.into_iter().zip(before) {
            let used = Duration::from_nanos(cpu(side)?.saturating_sub(before));
            let percent = used.as_secs_f64() * 100.0 / LOOK.as_secs_f64();
            bench.say(&format!("  {} {percent:.3} % of a core", side.name()));
            runs.push(Run { side, figures: Figures::from([("core_percent".to_owned(), percent)]) });
        }
    }
    Ok(runs)
}
