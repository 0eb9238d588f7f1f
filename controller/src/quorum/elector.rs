//! Stands for election when it is time, after a majority has said that it would vote.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use taffrail_protocol::rpc::{check_version, v1};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time::{self, Instant};
use taffrail_runtime::{random, task};
use tonic::Request;

use super::liveness::{Liveness, listen};
use super::view::View;
use crate::raft::links::Links;
use crate::raft::messages::{RAFT_VERSION, log_id_to_message};
use crate::raft::route::Route;
use crate::raft::{LEASE, LogId, Member, NodeId, Raft};

/// How long voters may take to say whether they would vote.
const CANVASS_TIMEOUT: Duration = Duration::from_millis(300);

/// How long an election may take before it counts as lost.
const ELECTION_TIMEOUT: Duration = Duration::from_millis(500);

/// Pause after an election that nobody won: at least, and by chance up to twice as much. It doubles with every further one,
/// up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(25);

const PAUSE_MAX: Duration = Duration::from_millis(400);

/// How long nobody is asked again after nothing has become of it, at the longest.
const IDLE: Duration = Duration::from_secs(3600);

/// Stands for election in the name of one node.
pub(crate) struct Elector {
    pub(crate) raft: Raft,
    pub(crate) route: Arc<Route>,
    pub(crate) links: Arc<Links>,
    pub(crate) liveness: Arc<Liveness>,
    pub(crate) shutdown: Shutdown,
}

/// What a voter says.
struct Promise {
    voter: NodeId,
    /// How long the voter still holds to the leader that it had.
    wait: Duration,
}

impl Elector {
    /// Starts the task.
    pub(crate) fn start(self) -> task::JoinHandle<()> {
        task::spawn(self.run())
    }

    async fn run(self) {
        let mut metrics = self.raft.server_metrics();
        let mut lost = 0_u32;
        let mut not_before = time::monotonic();
        let mut chance = random_fraction();
        loop {
            let view = View::of(&metrics.borrow_and_update());
            self.liveness.sees(&view);
            let due = self.liveness.known().due(&view, chance).map(|due| due.max(not_before));
            let now = time::monotonic();
            if let Some(due) = due
                && due <= now
            {
                let led = async { self.has_been_deaf(&view, chance).await || self.stand(&view).await };
                let is_led = tokio::select! {
                    is_led = led => is_led,
                    () = self.shutdown.triggered() => return,
                };
                lost = if is_led { 0 } else { lost.saturating_add(1) };
                not_before = time::monotonic() + pause(lost);
                chance = random_fraction();
                continue;
            }
            tokio::select! {
                changed = metrics.changed() => if changed.is_err() { return },
                () = self.liveness.changed() => {}
                () = time::sleep(due.map_or(IDLE, |due: Instant| due - now)) => {}
                () = self.shutdown.triggered() => return,
            }
        }
    }

    /// Whether the leader has spoken after all: who had no processor for a while has not heard it yet.
    async fn has_been_deaf(&self, view: &View, chance: f64) -> bool {
        if !self.liveness.known().is_only_silent(view) {
            return false;
        }
        listen().await;
        self.liveness.known().due(view, chance).is_none_or(|due| due > time::monotonic())
    }

    /// Stands for election, if it could be won; says whether somebody leads afterwards.
    async fn stand(&self, view: &View) -> bool {
        if self.liveness.known().take_over {
            // Whoever hands over has told nobody else; they hold to it until its lease ends.
            time::sleep(LEASE).await;
            self.liveness.taken_over();
        } else {
            // Two who ask each other at the same time both refuse, and try again at different times.
            self.liveness.promise(self.route.node());
            let promises = self.canvass(view).await;
            self.liveness.release(self.route.node());
            let Some(wait) = promises else { return false };
            time::sleep(wait).await;
        }
        let mut metrics = self.raft.server_metrics();
        if View::of(&metrics.borrow_and_update()) != *view {
            return true;
        }
        let known = self.liveness.known();
        let (silent_ms, link) = (known.silence(time::monotonic()).as_millis(), known.link);
        tracing::info!(node = %self.route.node(), term = view.term + 1, silent_ms, ?link, "standing for election");
        if self.raft.trigger().elect().await.is_err() {
            return false;
        }
        let elected = metrics.wait_for(|now| now.current_leader.is_some() && now.vote.leader_id().term > view.term);
        matches!(time::timeout(ELECTION_TIMEOUT, elected).await, Ok(Ok(_)))
    }

    /// Asks the voters whether they would vote for this node. If a majority would: how long it holds to the old leader.
    async fn canvass(&self, view: &View) -> Option<Duration> {
        let last = self.raft.data_metrics().borrow().last_log;
        let mut granted = BTreeSet::from([self.route.node()]);
        let mut wait = Duration::ZERO;
        let others = view.voters.iter().filter(|(id, _)| *id != self.route.node());
        let mut asked: FuturesUnordered<_> = others.map(|(id, member)| self.ask(*id, member, last)).collect();
        while !view.is_quorum(&granted) {
            let promise = asked.next().await?;
            if let Some(promise) = promise {
                granted.insert(promise.voter);
                wait = wait.max(promise.wait);
            }
        }
        Some(wait)
    }

    async fn ask(&self, voter: NodeId, member: &Member, last: Option<LogId>) -> Option<Promise> {
        let mut request = Request::new(v1::PreVoteRequest {
            format_version: RAFT_VERSION,
            route: Some(self.route.to(voter)),
            last_log_id: last.map(log_id_to_message),
        });
        request.set_timeout(CANVASS_TIMEOUT);
        let mut client = self.links.raft(&member.address).ok()?;
        let answer = time::timeout(CANVASS_TIMEOUT, client.pre_vote(request)).await.ok()?.ok()?.into_inner();
        check_version("a Raft reply", answer.format_version, RAFT_VERSION).ok()?;
        answer.granted.then(|| Promise { voter, wait: Duration::from_millis(u64::from(answer.wait_ms)).min(LEASE) })
    }
}

/// Between 0 and 1.
fn random_fraction() -> f64 {
    f64::from(u32::try_from(random::u64() >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

/// How long to wait after this many elections that were lost.
fn pause(lost: u32) -> Duration {
    match lost {
        0 => Duration::ZERO,
        lost => (PAUSE_MIN * 2_u32.saturating_pow(lost.min(8) - 1)).min(PAUSE_MAX).mul_f64(1.0 + random_fraction()),
    }
}
