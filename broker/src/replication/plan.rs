//! What a follower asks of one leader, and when. No I/O and no clock: a machine that is told what happened.
//!
//! A partition that is being fetched is in the leader's session, which remembers how far the follower is. A request says
//! only what has changed since the last one, so what it costs follows from the partitions with news and not from all. A
//! partition that waits for something else (the end of a pause, work on the disk, other metadata) is out of the session.
//!
//! A leader holds its answer back while there are no records. A partition that comes in meanwhile must not wait for that,
//! so a second request may follow the first one, which the leader then answers at once. By then the first answer may have
//! moved a partition on of which the second request still told the old place: an answer counts for a partition only if
//! the session knew it as it is.

use std::collections::{BTreeMap, BTreeSet};

use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{LeaderEpoch, Offset};
use taffrail_core::image::PartitionKey;

use super::position::Position;

/// Pause after the first failure of a partition; it doubles with each up to `replica.fetch.backoff.ms`. A leader that is
/// slower than its follower to learn of its leadership is asked again soon.
const PAUSE_MIN_MS: i64 = 10;

/// Pauses end at multiples of this, so that those of many partitions end together.
const PAUSE_GRID_MS: i64 = 10;

/// Doublings of the pause that are counted; beyond, the longest pause is reached in any case.
const DOUBLINGS_MAX: u32 = 30;

/// Where the log of a follower begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Offset of the next record.
    pub(super) end: Offset,
    /// Epoch of the last record; -1 = there is none.
    pub(super) last_epoch: LeaderEpoch,
    pub(super) log_start: Offset,
}

/// What a partition waits for, if it is not fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fetching,
    /// Fetched again from this time on.
    Paused(i64),
    /// The leader is to say which offsets it keeps.
    Ranging,
    /// Something is done to the log that waits for the disk.
    Working,
    /// Nothing to be done before the metadata say something else.
    Stopped,
}

/// What the session knows of a partition's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Another one, or none.
    No,
    /// This one, since the request of that number.
    By(u64),
    /// That of which the request of that number told; the log has only grown since.
    Outgrown(u64),
}

/// One partition.
#[derive(Debug)]
struct Part {
    leader_epoch: LeaderEpoch,
    place: Place,
    phase: Phase,
    /// Whether the session has it, by all requests that were sent.
    is_known: bool,
    told: Told,
    /// Failures since the last success.
    failures: u32,
}

/// What a request says of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) key: PartitionKey,
    pub(super) leader_epoch: LeaderEpoch,
    pub(super) place: Place,
}

/// A Fetch request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ask {
    /// Number of the request on this plan.
    pub(super) number: u64,
    pub(super) position: Position,
    /// Whether the answer may be held back until there are records. The one that opens a session may not: no other request
    /// can follow before the session is known.
    pub(super) may_wait: bool,
    pub(super) asked: Vec<Asked>,
    pub(super) forgotten: Vec<PartitionKey>,
}

/// What an answer of the leader means for a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The answer is to what the partition is now.
    Current(LeaderEpoch),
    /// The answer is to what the partition was before it grew: what it brings is here already, but how far the leader has
    /// committed counts.
    Outgrown(LeaderEpoch),
    /// The answer is to something else; it says nothing.
    Moved,
}

/// The partitions that a follower fetches from one leader over one connection.
#[derive(Debug, Default)]
pub(super) struct Plan {
    parts: BTreeMap<PartitionKey, Part>,
    position: Position,
    /// What the session does not know as it is.
    changed: BTreeSet<PartitionKey>,
    /// What the session has and this plan has not.
    gone: BTreeSet<PartitionKey>,
    pauses: BTreeSet<(i64, PartitionKey)>,
    /// Partitions that are fetched no faster than they may.
    throttled: BTreeSet<PartitionKey>,
    /// Until when these rest.
    held_until_ms: Option<i64>,
    /// Some of them do not rest yet, because an answer for them was due.
    is_partly_held: bool,
    ranges: BTreeSet<PartitionKey>,
    fetching: usize,
    /// A partition came in that the leader has not been told of.
    is_urgent: bool,
    /// The leader had no place for a session the last time.
    is_refused_session: bool,
    next_number: u64,
}

impl Plan {
    /// Whether there is no partition at all.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Partitions in it.
    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    /// The partition is to be fetched, by a follower in `leader_epoch` whose log is at `place`. If it is known, whatever it
    /// waits for is tried again.
    pub(super) fn follow(&mut self, key: PartitionKey, leader_epoch: LeaderEpoch, place: Place) {
        let is_known = self.gone.remove(&key);
        let part = self.parts.entry(key).or_insert(Part {
            leader_epoch,
            place,
            phase: Phase::Stopped,
            is_known,
            told: Told::No,
            failures: 0,
        });
        let is_same = part.leader_epoch == leader_epoch && part.place == place;
        part.leader_epoch = leader_epoch;
        // Work on the log ends with a call that tells its place.
        if part.phase == Phase::Working || (part.phase == Phase::Fetching && is_same) {
            return;
        }
        part.place = place;
        part.failures = 0;
        self.fetch(key);
    }

    /// The partition is not fetched any more.
    pub(super) fn leave(&mut self, key: PartitionKey) {
        self.enter(key, Phase::Stopped);
        self.changed.remove(&key);
        self.throttled.remove(&key);
        if self.parts.remove(&key).is_some_and(|part| part.is_known) {
            self.gone.insert(key);
        }
    }

    /// The next Fetch request, if there is anything to fetch.
    pub(super) fn ask(&mut self, now_ms: i64) -> Option<Ask> {
        self.end_pauses(now_ms);
        self.is_urgent = false;
        if self.fetching == 0 {
            return None;
        }
        let number = self.next_number;
        self.next_number += 1;
        let position = self.position;
        let mut ask = Ask { number, position, may_wait: true, asked: Vec::new(), forgotten: Vec::new() };
        if position.is_full() {
            ask.may_wait = self.is_refused_session;
            self.changed.clear();
            self.gone.clear();
            for (key, part) in &mut self.parts {
                part.is_known = part.phase == Phase::Fetching;
                part.told = if part.is_known { Told::By(number) } else { Told::No };
                if part.is_known {
                    ask.asked.push(Asked { key: *key, leader_epoch: part.leader_epoch, place: part.place });
                }
            }
        } else {
            ask.forgotten.extend(std::mem::take(&mut self.gone));
            for key in std::mem::take(&mut self.changed) {
                let Some(part) = self.parts.get_mut(&key) else { continue };
                if part.phase == Phase::Fetching {
                    (part.is_known, part.told) = (true, Told::By(number));
                    ask.asked.push(Asked { key, leader_epoch: part.leader_epoch, place: part.place });
                } else if std::mem::take(&mut part.is_known) {
                    ask.forgotten.push(key);
                }
            }
            ask.forgotten.sort_unstable();
        }
        self.position.sent();
        Some(ask)
    }

    /// Whether a request should follow the one that the leader holds back.
    pub(super) fn must_nudge(&mut self, now_ms: i64) -> bool {
        self.end_pauses(now_ms);
        self.is_urgent && !self.position.is_full()
    }

    /// The next moment at which a pause ends.
    pub(super) fn next_due_ms(&self) -> Option<i64> {
        self.pauses.first().map(|(until_ms, _)| *until_ms)
    }

    /// Partitions of which the leader must be asked which offsets it keeps.
    pub(super) fn ranges_to_ask(&mut self) -> Vec<(PartitionKey, LeaderEpoch)> {
        let asked = std::mem::take(&mut self.ranges);
        asked.into_iter().filter_map(|key| Some((key, self.parts.get(&key)?.leader_epoch))).collect()
    }

    /// The epoch in which the answer to such a question counts, if it still does.
    pub(super) fn ranging(&self, key: PartitionKey) -> Option<LeaderEpoch> {
        self.parts.get(&key).filter(|part| part.phase == Phase::Ranging).map(|part| part.leader_epoch)
    }

    /// The connection is gone, and with it the session and all questions.
    pub(super) fn disconnected(&mut self) {
        self.position = Position::default();
        self.is_refused_session = false;
        self.gone.clear();
        for (key, part) in &mut self.parts {
            (part.is_known, part.told) = (false, Told::No);
            if part.phase == Phase::Ranging {
                self.ranges.insert(*key);
            }
        }
    }

    /// Notes the head of the answer to `ask`; tells whether its partitions count.
    pub(super) fn answered(&mut self, asked_at: Position, error: ErrorCode, session_id: i32) -> bool {
        if !asked_at.is_full() && self.position.is_full() {
            // The session has been given up since: what else was asked in it is of no use.
            return false;
        }
        let counts = self.position.answered(asked_at.is_full(), error, session_id);
        if asked_at.is_full() {
            self.is_refused_session = self.position.is_full();
        }
        counts
    }

    /// What the answer to request `number` means for a partition.
    pub(super) fn standing(&self, number: u64, key: PartitionKey) -> Standing {
        let part = self.parts.get(&key).filter(|part| part.phase == Phase::Fetching);
        match part.map(|part| (part.told, part.leader_epoch)) {
            Some((Told::By(told), leader_epoch)) if told <= number => Standing::Current(leader_epoch),
            Some((Told::Outgrown(told), leader_epoch)) if told <= number => Standing::Outgrown(leader_epoch),
            _ => Standing::Moved,
        }
    }

    /// Where the log of a partition is.
    pub(super) fn place(&self, key: PartitionKey) -> Option<Place> {
        self.parts.get(&key).map(|part| part.place)
    }

    /// All is well with a partition, whose log is at `place`: it has grown, or is as it was.
    pub(super) fn advanced(&mut self, key: PartitionKey, place: Place) {
        let Some(part) = self.parts.get_mut(&key) else { return };
        part.failures = 0;
        if part.place == place {
            return;
        }
        part.place = place;
        if part.phase == Phase::Fetching {
            if let Told::By(number) = part.told {
                part.told = Told::Outgrown(number);
            }
            self.changed.insert(key);
        }
    }

    /// A partition gave no records for a reason that may pass: it is tried again after a pause of at most `max_ms`. Gives
    /// the number of failures in a row.
    pub(super) fn failed(&mut self, key: PartitionKey, max_ms: i64, now_ms: i64) -> u32 {
        let Some(part) = self.parts.get_mut(&key) else { return 0 };
        let pause_ms = (PAUSE_MIN_MS << part.failures.min(DOUBLINGS_MAX)).min(max_ms);
        part.failures = part.failures.saturating_add(1);
        let failures = part.failures;
        self.pause(key, now_ms + pause_ms);
        failures
    }

    /// Says whether a partition is one of those that rest together. If it rests already, [`Plan::follow`] ends that.
    pub(super) fn set_throttled(&mut self, key: PartitionKey, is_throttled: bool) {
        if is_throttled {
            self.throttled.insert(key);
        } else {
            self.throttled.remove(&key);
        }
    }

    /// Whether it has to be found out if throttled partitions may be asked for; `is_answer_due`: a request is under way.
    pub(super) fn may_have_to_hold(&self, is_answer_due: bool, now_ms: i64) -> bool {
        let is_due = match self.held_until_ms {
            None => !is_answer_due || self.is_urgent,
            Some(until_ms) => until_ms <= now_ms || (self.is_partly_held && !is_answer_due),
        };
        is_due && !self.throttled.is_empty()
    }

    /// Throttled partitions are not asked for before a moment; `None` = they may be. Those that an answer is due for rest when
    /// it is here: it would be lost otherwise.
    pub(super) fn hold(&mut self, until_ms: Option<i64>, is_answer_due: bool) {
        self.held_until_ms = until_ms;
        self.is_partly_held = is_answer_due && until_ms.is_some();
        let Some(until_ms) = until_ms else { return };
        let is_asked = |part: &Part| is_answer_due && matches!(part.told, Told::By(_));
        let may_go_on = |part: &Part| part.phase == Phase::Fetching && !is_asked(part);
        let goes_on = |key: &&PartitionKey| self.parts.get(*key).is_some_and(may_go_on);
        let held: Vec<PartitionKey> = self.throttled.iter().filter(goes_on).copied().collect();
        held.into_iter().for_each(|key| self.pause(key, until_ms));
        let is_to_be_told = |key: &PartitionKey| self.parts.get(key).is_some_and(|it| it.phase == Phase::Fetching);
        self.is_urgent = self.is_urgent && self.changed.iter().any(is_to_be_told);
    }

    /// The leader is to say which offsets of a partition it keeps.
    pub(super) fn ask_range(&mut self, key: PartitionKey) {
        if self.enter(key, Phase::Ranging) {
            self.ranges.insert(key);
        }
    }

    /// The log of a partition is being changed.
    pub(super) fn working(&mut self, key: PartitionKey) {
        self.enter(key, Phase::Working);
    }

    /// Such a change is over, and the log is at `place`.
    pub(super) fn worked(&mut self, key: PartitionKey, place: Place) {
        let Some(part) = self.parts.get_mut(&key) else { return };
        part.place = place;
        self.fetch(key);
    }

    /// A partition is out of the game until [`Plan::follow`].
    pub(super) fn stop(&mut self, key: PartitionKey) {
        self.enter(key, Phase::Stopped);
    }

    /// Has a partition wait for a moment, which is rounded up.
    fn pause(&mut self, key: PartitionKey, until_ms: i64) {
        let until_ms = until_ms.saturating_add(PAUSE_GRID_MS - 1) / PAUSE_GRID_MS * PAUSE_GRID_MS;
        if self.enter(key, Phase::Paused(until_ms)) {
            self.pauses.insert((until_ms, key));
        }
    }

    /// Has a partition fetched from its place, as soon as it may be.
    fn fetch(&mut self, key: PartitionKey) {
        if let Some(until_ms) = self.held_until_ms.filter(|_| self.throttled.contains(&key)) {
            return self.pause(key, until_ms);
        }
        self.enter(key, Phase::Fetching);
        if let Some(part) = self.parts.get_mut(&key) {
            part.told = Told::No;
            self.changed.insert(key);
            self.is_urgent = true;
        }
    }

    /// Changes what a partition waits for; tells whether there is such a partition.
    fn enter(&mut self, key: PartitionKey, phase: Phase) -> bool {
        let Some(part) = self.parts.get_mut(&key) else { return false };
        match part.phase {
            Phase::Fetching => self.fetching -= 1,
            Phase::Paused(until_ms) => drop(self.pauses.remove(&(until_ms, key))),
            Phase::Ranging => drop(self.ranges.remove(&key)),
            Phase::Working | Phase::Stopped => {}
        }
        part.phase = phase;
        part.told = Told::No;
        self.fetching += usize::from(phase == Phase::Fetching);
        self.changed.insert(key);
        true
    }

    /// Ends what is due, so that [`Self::next_due_ms`] is later than `now_ms`.
    pub(super) fn end_pauses(&mut self, now_ms: i64) {
        self.held_until_ms = self.held_until_ms.filter(|until_ms| *until_ms > now_ms);
        while let Some(&(until_ms, key)) = self.pauses.first()
            && until_ms <= now_ms
        {
            self.pauses.remove(&(until_ms, key));
            self.fetch(key);
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
