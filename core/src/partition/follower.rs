//! One follower, as its fetches show it to the leader (Kafka's `Replica`).

use crate::ids::{BrokerId, Offset};

/// A follower asks for records from `offset` on: it has everything before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerFetch {
    /// Which broker.
    pub broker: BrokerId,
    /// Epoch of its registration; -1 = it does not say.
    pub broker_epoch: i64,
    /// Where its log begins.
    pub log_start: Offset,
    /// Where its log ends.
    pub offset: Offset,
}

/// End of a log that nobody has told.
pub(super) const UNKNOWN_OFFSET: Offset = -1;

/// Time of something that has not happened in this leadership.
const NEVER_MS: i64 = i64::MIN;

/// One follower, as its fetches show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Follower {
    pub(super) id: BrokerId,
    /// Epoch of the broker process that fetched last; `None` = nobody has.
    pub(super) broker_epoch: Option<i64>,
    pub(super) log_start: Offset,
    pub(super) log_end: Offset,
    /// The leader's end at the time of the last fetch: a follower that reaches it had caught up by then.
    leader_end_at_fetch: Offset,
    fetched_ms: i64,
    caught_up_ms: i64,
}

impl Follower {
    pub(super) fn new(id: BrokerId) -> Self {
        Self {
            id,
            broker_epoch: None,
            log_start: UNKNOWN_OFFSET,
            log_end: UNKNOWN_OFFSET,
            leader_end_at_fetch: UNKNOWN_OFFSET,
            fetched_ms: NEVER_MS,
            caught_up_ms: NEVER_MS,
        }
    }

    /// A new leadership begins: members of the ISR have a whole lag time from now, others must show anew that they keep up.
    pub(super) fn begin(&mut self, leader_end: Offset, is_in_sync: bool, now_ms: i64) {
        self.leader_end_at_fetch = leader_end;
        let time_ms = if is_in_sync { now_ms } else { NEVER_MS };
        (self.fetched_ms, self.caught_up_ms) = (time_ms, time_ms);
    }

    /// Whether it has everything, or had at a time that is no longer ago than `lag_max_ms`.
    pub(super) fn keeps_up(&self, leader_end: Offset, lag_max_ms: i64, now_ms: i64) -> bool {
        self.log_end == leader_end || now_ms.saturating_sub(self.caught_up_ms) <= lag_max_ms
    }

    /// It had everything until now.
    pub(super) fn was_level(&mut self, now_ms: i64) {
        self.caught_up_ms = self.caught_up_ms.max(now_ms);
    }

    /// Notes a fetch, which meets a log that ends at `leader_end`.
    pub(super) fn fetched(&mut self, fetch: FollowerFetch, leader_end: Offset, now_ms: i64) {
        if fetch.offset >= leader_end {
            self.caught_up_ms = self.caught_up_ms.max(now_ms);
        } else if fetch.offset >= self.leader_end_at_fetch {
            // It has by now what was there at its last fetch. A leader that grows all the time would never see it level.
            self.caught_up_ms = self.caught_up_ms.max(self.fetched_ms);
        }
        self.broker_epoch = Some(fetch.broker_epoch);
        self.log_start = fetch.log_start;
        self.log_end = fetch.offset;
        self.leader_end_at_fetch = self.leader_end_at_fetch.max(leader_end);
        self.fetched_ms = now_ms;
    }
}
