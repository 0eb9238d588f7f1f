//! What this controller knows of the leader's life, and when that is reason enough for an election.
//!
//! A process that has died is noticed at once: its connections close, and a dial to its address is refused. Everything
//! else looks like silence, which may as well be a disk or a processor that is slow: that is given time.

use std::time::Duration;

use openraft::LogId;
use parking_lot::Mutex;
use taffrail_runtime::time::{self, Instant};
use tokio::sync::Notify;

use super::view::View;
use crate::raft::NodeId;

/// Silence of a leader whose process seems to live, after which a follower stands for election: at least this. A disk that
/// stops for a second is no reason.
pub(crate) const SILENCE_MIN: Duration = Duration::from_millis(1_500);

/// How often a leader says to those who watch over it that its process lives: several times in what counts as silence.
pub(crate) const PULSE: Duration = Duration::from_millis(400);

/// How long pulses alone keep a leader from which Raft hears nothing: as long as a stalled disk may take to come back,
/// beside a processor that is busy. A disk that hangs for good must not hold up the quorum.
const PULSE_TRUST: Duration = Duration::from_secs(3);

/// And up to this much longer, by chance, so that two do not stand at the same time.
const SILENCE_SPREAD: Duration = Duration::from_millis(500);

/// How much silence makes a voter willing to vote for another.
const DOUBT: Duration = Duration::from_millis(1_200);

/// A nap that ends when it should shows that this process has its share of the processor, and has read what has arrived.
const NAP: Duration = Duration::from_millis(20);

/// So many naps at most: a machine that is always late must have elections too.
const NAPS_MAX: u32 = 20;

/// How long a node waits that knows of no leader, at least and by chance more: one may be about to tell.
const LEADERLESS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(120));

/// How long a node waits whose leader has died, so that others have noticed it too.
const GONE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(40));

/// How long a node leaves an election to the one that it has promised its vote, or given it.
const PROMISE: Duration = Duration::from_millis(300);

/// The watch over the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// Nobody is watched yet.
    Unknown,
    /// This leader lives.
    Up(NodeId),
    /// The connection to this leader broke.
    Lost(NodeId),
    /// Nobody listens at this leader's address any more, or it says that it does not lead.
    Gone(NodeId),
}

/// What is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// When Raft heard the leader last.
    pub(crate) heard: Instant,
    /// When its process last gave a sign of life.
    pub(crate) pulsed: Instant,
    /// Since when none is known.
    pub(crate) leaderless: Option<Instant>,
    /// How the watch is.
    pub(crate) link: Link,
    /// Since when it is so.
    pub(crate) link_since: Instant,
    /// Whom this node would help to become the leader, and until when it helps nobody else.
    pub(crate) promise: Option<(NodeId, Instant)>,
    /// Whether the leader wants this node to take over.
    pub(crate) take_over: bool,
    /// Whether this node leads, and hands over: it decides nothing any more.
    pub(crate) resigning: bool,
}

impl Known {
    /// Since when the leader is silent. Its process tells that it lives while Raft waits for its disk, which is believed for
    /// [`PULSE_TRUST`].
    fn silent_since(&self) -> Instant {
        self.pulsed.clamp(self.heard, self.heard + PULSE_TRUST)
    }

    /// How long the leader has been silent at `now`.
    pub(crate) fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.silent_since())
    }

    /// Whether nothing but silence speaks against the leader of `view`.
    pub(crate) fn is_only_silent(&self, view: &View) -> bool {
        !self.take_over && view.leader.is_some_and(|leader| self.link != Link::Gone(leader))
    }

    /// When a node that sees `view` stands for election; `chance` between 0 and 1 spreads several of them.
    pub(crate) fn due(&self, view: &View, chance: f64) -> Option<Instant> {
        if !view.may_stand {
            return None;
        }
        if self.take_over {
            return Some(self.heard);
        }
        let spread = |(least, more): (Duration, Duration)| least + more.mul_f64(chance);
        let due = match view.leader {
            None => self.leaderless.unwrap_or(self.heard) + spread(LEADERLESS),
            Some(leader) if self.link == Link::Gone(leader) => self.link_since + spread(GONE),
            Some(_) => self.silent_since() + spread((SILENCE_MIN, SILENCE_SPREAD)),
        };
        Some(self.promise.map_or(due, |(_, until)| due.max(until)))
    }

    /// Whether a voter that sees `view` would help `candidate` to become the leader at `now`.
    pub(crate) fn would_vote(&self, view: &View, leading: bool, candidate: NodeId, now: Instant) -> bool {
        let promised = self.promise.is_some_and(|(to, until)| to != candidate && now < until);
        match view.leader {
            _ if leading || promised => false,
            None => true,
            Some(leader) => {
                leader == candidate
                    || self.link == Link::Gone(leader)
                    || self.link == Link::Lost(leader)
                    || self.silence(now) >= DOUBT
            }
        }
    }
}

/// Keeps it, and wakes who depends on it.
#[derive(Debug)]
pub(crate) struct Liveness {
    known: Mutex<Known>,
    changed: Notify,
}

impl Liveness {
    /// Nothing is known; the leader has from now on to say a word.
    pub(crate) fn new() -> Self {
        let now = time::monotonic();
        let known = Known {
            heard: now,
            pulsed: now,
            leaderless: None,
            link: Link::Unknown,
            link_since: now,
            promise: None,
            take_over: false,
            resigning: false,
        };
        Self { known: Mutex::new(known), changed: Notify::new() }
    }

    pub(crate) fn known(&self) -> Known {
        *self.known.lock()
    }

    /// The leader has said something.
    pub(crate) fn heard(&self) {
        let mut known = self.known.lock();
        known.heard = time::monotonic();
        known.leaderless = None;
    }

    /// The leader's process has said that it lives.
    pub(crate) fn pulsed(&self) {
        self.known.lock().pulsed = time::monotonic();
    }

    /// Takes note of whether a leader is known.
    pub(crate) fn sees(&self, view: &View) {
        let mut known = self.known.lock();
        match view.leader {
            None if view.may_stand => known.leaderless = Some(known.leaderless.unwrap_or_else(time::monotonic)),
            _ => known.leaderless = None,
        }
        if !view.may_stand {
            known.take_over = false;
        }
    }

    /// This node would vote, or has voted, for `candidate`; until some time has passed, it helps nobody else.
    pub(crate) fn promise(&self, candidate: NodeId) {
        self.known.lock().promise = Some((candidate, time::monotonic() + PROMISE));
    }

    /// Nothing has become of what this node had promised to `candidate`.
    pub(crate) fn release(&self, candidate: NodeId) {
        let mut known = self.known.lock();
        known.promise = known.promise.filter(|(to, _)| *to != candidate);
    }

    pub(crate) fn set_link(&self, link: Link) {
        let mut known = self.known.lock();
        if known.link != link {
            known.link = link;
            known.link_since = time::monotonic();
            drop(known);
            self.changed.notify_one();
        }
    }

    /// The leader goes, and wants this node to lead.
    pub(crate) fn take_over(&self) {
        self.known.lock().take_over = true;
        self.changed.notify_one();
    }

    /// Whether this node is handing over.
    pub(crate) fn set_resigning(&self, resigning: bool) {
        self.known.lock().resigning = resigning;
    }

    /// The word was followed.
    pub(crate) fn taken_over(&self) {
        self.known.lock().take_over = false;
    }

    /// Waits until there is news of the watch.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// Lets this process read what has arrived, if it has been held up: silence is judged only by who has listened.
pub(crate) async fn listen() {
    for _ in 0..NAPS_MAX {
        let lain_down = time::monotonic();
        time::sleep(NAP).await;
        if time::monotonic().saturating_duration_since(lain_down) < 2 * NAP {
            return;
        }
    }
}

/// Whether the log of a candidate reaches as far as a voter's own.
pub(crate) fn is_as_long(candidate: Option<LogId<NodeId>>, own: Option<LogId<NodeId>>) -> bool {
    candidate >= own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(leader: Option<u64>) -> View {
        View { may_stand: true, leader: leader.map(NodeId::from), term: 3, configs: Vec::new(), voters: Vec::new() }
    }

    fn known(link: Link) -> Known {
        let now = time::monotonic();
        Known {
            heard: now,
            pulsed: now,
            leaderless: None,
            link,
            link_since: now,
            promise: None,
            take_over: false,
            resigning: false,
        }
    }

    #[test]
    fn a_leader_whose_process_lives_is_given_longer_but_not_for_ever() {
        let view = view(Some(1));
        let start = known(Link::Up(NodeId::from(1)));
        for (pulse_ms, due_ms) in [(0, 1_500), (250, 1_750), (2_000, 3_500), (3_000, 4_500), (60_000, 4_500)] {
            let known = Known { pulsed: start.heard + Duration::from_millis(pulse_ms), ..start };
            assert_eq!(known.due(&view, 0.0), Some(start.heard + Duration::from_millis(due_ms)), "{pulse_ms}");
            let doubted = start.heard + Duration::from_millis(due_ms) - (SILENCE_MIN - DOUBT);
            assert!(known.would_vote(&view, false, NodeId::from(2), doubted), "{pulse_ms}");
            assert!(!known.would_vote(&view, false, NodeId::from(2), doubted - Duration::from_millis(1)), "{pulse_ms}");
        }
        let heard_since = Known { heard: start.heard + Duration::from_secs(9), ..start };
        assert_eq!(
            heard_since.due(&view, 0.0),
            Some(heard_since.heard + SILENCE_MIN),
            "an old pulse takes nothing away"
        );
    }

    #[test]
    fn a_dead_leader_is_replaced_at_once_and_a_silent_one_only_after_a_stalled_disk_would_be_back() {
        let (one, two) = (NodeId::from(1), NodeId::from(2));
        let cases = [
            (view(Some(1)), Link::Up(one), 1_500),
            (view(Some(1)), Link::Lost(one), 1_500),
            (view(Some(1)), Link::Gone(one), 5),
            (view(Some(1)), Link::Gone(two), 1_500),
            (view(None), Link::Up(one), 10),
        ];
        for (view, link, expected_ms) in cases {
            let known = known(link);
            let due = known.due(&view, 0.0).unwrap();
            assert_eq!(due - known.heard, Duration::from_millis(expected_ms), "{view:?} {link:?}");
            assert!(known.due(&view, 1.0).unwrap() > due, "chance spreads");
        }
        let known = known(Link::Unknown);
        assert_eq!(known.due(&View { may_stand: false, ..view(None) }, 0.5), None);
        assert_eq!(Known { take_over: true, ..known }.due(&view(Some(1)), 0.9), Some(known.heard));
    }

    #[test]
    fn one_candidate_at_a_time_is_helped() {
        let (one, two) = (NodeId::from(1), NodeId::from(2));
        let start = known(Link::Unknown);
        let promised = Known { promise: Some((one, start.heard + PROMISE)), ..start };
        let vote = |candidate, after| promised.would_vote(&view(None), false, candidate, start.heard + after);
        assert!(vote(one, Duration::ZERO));
        assert!(!vote(two, Duration::ZERO));
        assert!(vote(two, PROMISE));
        assert_eq!(promised.due(&view(None), 0.0), Some(start.heard + PROMISE), "nor does it stand itself");
    }

    #[test]
    fn who_has_a_living_leader_votes_for_nobody_else() {
        let (one, two) = (NodeId::from(1), NodeId::from(2));
        let vote = |view: &View, link, after_ms: u64| {
            let known = known(link);
            known.would_vote(view, false, two, known.heard + Duration::from_millis(after_ms))
        };
        assert!(!vote(&view(Some(1)), Link::Up(one), 1_000));
        assert!(vote(&view(Some(1)), Link::Up(one), 1_300), "silent for long");
        assert!(vote(&view(Some(1)), Link::Lost(one), 0));
        assert!(vote(&view(Some(1)), Link::Gone(one), 0));
        assert!(!vote(&view(Some(1)), Link::Gone(two), 0), "news of another one");
        assert!(vote(&view(None), Link::Unknown, 0));
        assert!(vote(&view(Some(2)), Link::Up(two), 0), "the leader itself");
        let known = known(Link::Unknown);
        assert!(!known.would_vote(&view(None), true, two, known.heard), "a leader helps nobody against itself");
    }
}
