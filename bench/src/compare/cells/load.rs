//! Workloads of the load tool, on the pair of brokers that run side by side.

use std::time::Duration;

use anyhow::Result;

use crate::compare::Bench;
use crate::compare::machine::drop_page_cache;
use crate::compare::results::{Figures, Side};
use crate::compare::tool::Span;

/// Load before the measured time.
const WARM_UP: Duration = Duration::from_secs(1);
/// Until the files of a deleted topic are gone: the topics ask for one second.
const SETTLE: Duration = Duration::from_secs(2);
/// How much longer a run of the full form is.
const FULL_FACTOR: u32 = 2;
/// What writes as fast as it can takes no longer in the full form: what both sides have written and not yet removed would need
/// 50 GB of disk.
const FLAT_OUT: &str = "produce-max";

/// Runs the workload of that name.
pub(super) fn measure(bench: &mut Bench, side: Side, workload: &str, measured: Duration) -> Result<Figures> {
    bench.start_pair()?;
    let span = if workload == FLAT_OUT { of(measured) } else { span(bench, measured) };
    drop_page_cache();
    bench.tool.measure(bench.broker(side)?, workload, &span, &[])
}

/// Runs a workload on one of the clusters.
pub(super) fn measure_cluster(bench: &mut Bench, side: Side, workload: &str, measured: Duration) -> Result<Figures> {
    bench.start_clusters()?;
    let span = span(bench, measured);
    drop_page_cache();
    bench.tool.measure(bench.cluster(side)?, workload, &span, &[])
}

/// How long a run is in this form.
pub(super) fn span(bench: &Bench, measured: Duration) -> Span {
    of(if bench.form.full { measured * FULL_FACTOR } else { measured })
}

fn of(measured: Duration) -> Span {
    Span { measured, warm_up: WARM_UP, settle: SETTLE }
}
