//! What a producer without back-off feels of dead, halted and moved leaders, and a change of the metadata of a dead
//! controller. Between two faults all replicas are in sync and all controllers have caught up.

use anyhow::Result;
use rustix::process::Signal;

use crate::compare::Bench;
use crate::compare::results::{Figures, Side};
use crate::compare::stats::quantile;
use crate::compare::tool::Probe;

/// How often something is done to each side: in the short form, in the full one.
#[derive(Clone, Copy, Debug)]
struct Times {
    taffrail: (u32, u32),
    /// Its processes take seconds to start, its failovers too.
    kafka: (u32, u32),
}

const KILLS: Times = Times { taffrail: (40, 200), kafka: (3, 10) };
const HALTS: Times = Times { taffrail: (5, 20), kafka: (1, 3) };
const MOVES: Times = Times { taffrail: (20, 100), kafka: (5, 20) };
const CONTROLLERS: Times = Times { taffrail: (10, 50), kafka: (2, 5) };

impl Times {
    fn of(self, bench: &Bench, side: Side) -> u32 {
        let (short, full) = if side == Side::Taffrail { self.taffrail } else { self.kafka };
        if bench.form.full { full } else { short }
    }
}

/// The leader is killed by SIGKILL: until the next acknowledgement.
pub(super) fn kills(bench: &mut Bench, side: Side) -> Result<Figures> {
    repeat(bench, side, KILLS, |bench, probe| {
        let leader = probe.settle()?.leader;
        let cluster = bench.cluster_mut(side)?;
        let at = cluster.kill_node(leader)?;
        let resumed = probe.resumed_ms(at);
        bench.cluster_mut(side)?.start_node(leader)?;
        resumed
    })
}

/// The leader is stopped by SIGSTOP: until the next acknowledgement.
pub(super) fn halts(bench: &mut Bench, side: Side) -> Result<Figures> {
    repeat(bench, side, HALTS, |bench, probe| {
        let leader = probe.settle()?.leader;
        let at = bench.cluster(side)?.signal(leader, Signal::STOP)?;
        let resumed = probe.resumed_ms(at);
        bench.cluster(side)?.signal(leader, Signal::CONT)?;
        resumed
    })
}

/// Another replica is made the leader: the longest that a record waited.
pub(super) fn moves(bench: &mut Bench, side: Side) -> Result<Figures> {
    repeat(bench, side, MOVES, |_, probe| {
        probe.settle()?;
        probe.moved_ms()
    })
}

/// The active controller is killed by SIGKILL: until the next change of the metadata has succeeded.
pub(super) fn controllers(bench: &mut Bench, side: Side) -> Result<Figures> {
    repeat(bench, side, CONTROLLERS, |bench, probe| {
        let controller = probe.settle()?.controller;
        let at = bench.cluster_mut(side)?.kill_node(controller)?;
        let changed = probe.changed_ms(at);
        bench.cluster_mut(side)?.start_node(controller)?;
        changed
    })
}

/// Does it as often as this form asks for.
fn repeat(
    bench: &mut Bench,
    side: Side,
    times: Times,
    mut once: impl FnMut(&mut Bench, &mut Probe) -> Result<f64>,
) -> Result<Figures> {
    bench.start_clusters()?;
    let mut probe = bench.tool.probe(bench.cluster(side)?)?;
    let mut felt = Vec::new();
    for _ in 0..times.of(bench, side) {
        felt.push(once(bench, &mut probe)?);
        if felt.len() == 1 || felt.len().is_multiple_of(20) {
            bench.say(&format!("  {} {}: {:.1} ms", side.name(), felt.len(), felt[felt.len() - 1]));
        }
    }
    // What was started last has to be back before somebody else needs the cluster.
    probe.settle()?;
    felt.sort_by(f64::total_cmp);
    Ok(Figures::from([
        ("times".to_owned(), felt.len() as f64),
        ("p50_ms".to_owned(), quantile(&felt, 0.5)),
        ("p99_ms".to_owned(), quantile(&felt, 0.99)),
        ("max_ms".to_owned(), quantile(&felt, 1.0)),
    ]))
}
