//! A fault that waits for its moment: a follower has all that is committed and is about to be taken into the ISR again, and the
//! way from its leader is cut. Its next request still comes through, so it joins; what is written from then on does not reach it.
//! If the cut lasts, it has to leave again, while proposals of before may still be on their way.

use std::collections::BTreeMap;

use taffrail_core::event::PartitionState;
use taffrail_core::ids::BrokerId;
use taffrail_runtime::random::Seeded;

use super::invariants::{self, LiveBroker, View};
use super::run::Run;

/// How long the way is cut, at least and at most; a follower that lags for two seconds is told to leave within one more.
const CUT_MS: (u64, u64) = (3_500, 6_000);

/// One moment in so many is let pass.
const SPARED_ONE_IN: u64 = 3;

/// Every so many times nothing else happens meanwhile, so that the leader lives to see what comes of it.
const QUIET_ONE_IN: u64 = 2;

/// Such a moment.
pub(super) struct Moment {
    /// From whom to whom the way is cut.
    pub(super) leader: u8,
    pub(super) follower: u8,
    /// Until when.
    pub(super) until_ms: u64,
}

/// Waits for such moments.
pub(super) struct Lurking {
    rng: Seeded,
    /// Partition epochs in which the follower of a partition has been looked at.
    seen: BTreeMap<(i32, BrokerId), i32>,
    /// Until when the last cut lasts.
    until_ms: u64,
    /// Whether nothing else happens until then.
    is_quiet: bool,
}

impl Lurking {
    pub(super) fn new(rng: &mut Seeded) -> Self {
        Self { rng: Seeded::new(rng.next_u64()), seen: BTreeMap::new(), until_ms: 0, is_quiet: false }
    }

    /// Whether nothing else is to happen now.
    pub(super) fn is_quiet(&self, now_ms: u64) -> bool {
        self.is_quiet && now_ms < self.until_ms
    }

    /// Whether this is a moment, and for whom.
    pub(super) fn look(&mut self, run: &Run, now_ms: u64) -> Option<Moment> {
        if now_ms < self.until_ms {
            return None;
        }
        let view = run.view();
        for ((_, partition), state) in invariants::partitions(&view.newest) {
            let Some(follower) = about_to_join(&view, partition, &state) else { continue };
            let epoch = self.seen.insert((partition, follower), state.partition_epoch);
            if epoch == Some(state.partition_epoch) || self.rng.one_in(SPARED_ONE_IN) {
                continue;
            }
            let (Ok(leader), Ok(to)) = (u8::try_from(state.leader.0), u8::try_from(follower.0)) else { continue };
            self.until_ms = now_ms + self.rng.between(CUT_MS.0, CUT_MS.1);
            self.is_quiet = self.rng.one_in(QUIET_ONE_IN);
            return Some(Moment { leader, follower: to, until_ms: self.until_ms });
        }
        None
    }
}

/// A follower that serves, is not in sync, and has all that its leader has committed.
fn about_to_join(view: &View, partition: i32, state: &PartitionState) -> Option<BrokerId> {
    let broker = |id: BrokerId| view.brokers.iter().find(|broker| i32::from(broker.number) == id.0);
    let log = |broker: &LiveBroker| View::logs(broker).find(|(index, _)| *index == partition).map(|(_, log)| log);
    let committed = log(broker(state.leader)?)?.high_watermark();
    let outside = state.replicas.iter().copied().filter(|id| !state.isr.contains(id));
    let mut serving = outside.filter(|id| {
        let registered = view.newest.broker(*id).filter(|registered| !registered.fenced).map(|it| it.epoch);
        registered.is_some() && registered == broker(*id).map(|it| it.running.broker.identity().epoch)
    });
    serving.find(|id| broker(*id).and_then(log).is_some_and(|log| committed > 0 && log.end_offset() >= committed))
}
