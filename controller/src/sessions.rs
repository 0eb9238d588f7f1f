//! What brokers have told the active controller: that they live, and how far their followers are behind.
//!
//! In memory, and anew with every change of the active controller. The rules are core's [`BrokerSessions`].

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use taffrail_core::control::{BrokerIdentity, BrokerSessions, LagReport, Lags, Sign};
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_runtime::time::{self, Instant};

/// The sessions of brokers, and what they have reported.
#[derive(Debug)]
pub(crate) struct Sessions {
    timeout_ms: i64,
    /// When the clock of the sessions began.
    started: Instant,
    state: Mutex<State>,
    lags: Mutex<Lags>,
}

#[derive(Debug, Default)]
struct State {
    /// While this controller is the active one.
    active: Option<BrokerSessions>,
    /// The newest connection of each broker that attends.
    attendances: BTreeMap<BrokerId, Attendance>,
    opened: u64,
}

/// One connection over which a broker says that it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attendance {
    pub(crate) broker: BrokerIdentity,
    number: u64,
}

impl Sessions {
    /// Sessions that end after `timeout` of silence.
    pub(crate) fn new(timeout: Duration) -> Self {
        let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        Self { timeout_ms, started: time::monotonic(), state: Mutex::default(), lags: Mutex::default() }
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// This controller has become the active one: it has heard of nobody, and knows of no lag.
    pub(super) fn begin(&self) {
        self.state.lock().active = Some(BrokerSessions::begin(self.timeout_ms, self.now_ms()));
        *self.lags.lock() = Lags::default();
    }

    /// Another controller is the active one.
    pub(super) fn end(&self) {
        self.state.lock().active = None;
    }

    /// The broker has been heard of, and has applied the metadata up to `applied`.
    pub(crate) fn heard(&self, broker: BrokerIdentity, sign: Sign, applied: i64) {
        let now_ms = self.now_ms();
        if let Some(sessions) = &mut self.state.lock().active {
            sessions.heard(broker, sign, applied, now_ms);
        }
    }

    /// What a broker says of the partitions that it leads; what it says of others is not listened to.
    pub(crate) fn report(&self, broker: BrokerId, report: LagReport, image: &MetadataImage) {
        let mut lags = self.lags.lock();
        for (topic_id, partition, followers) in report {
            let key = (topic_id, partition);
            if image.partition(key).is_some_and(|state| state.leader == broker) {
                lags.report(key, followers);
            }
        }
    }

    /// How far followers are behind, as far as their leaders have said. Held for a moment only.
    pub(crate) fn lags(&self) -> MutexGuard<'_, Lags> {
        self.lags.lock()
    }

    /// Brokers whose registered process has been heard of within the timeout.
    pub(crate) fn live(&self, image: &MetadataImage) -> Vec<BrokerId> {
        let (now_ms, state) = (self.now_ms(), self.state.lock());
        let Some(sessions) = &state.active else { return Vec::new() };
        let identities = image.brokers().values().map(|broker| BrokerIdentity { id: broker.id, epoch: broker.epoch });
        identities.filter(|broker| sessions.is_live(*broker, now_ms)).map(|broker| broker.id).collect()
    }

    /// Whether a broker that handed over at `handed_over` what it led may stop.
    pub(crate) fn may_go(&self, broker: BrokerIdentity, handed_over: i64, image: &MetadataImage) -> bool {
        self.state.lock().active.as_ref().is_some_and(|sessions| sessions.may_go(broker, handed_over, image))
    }

    /// A broker attends over a new connection, which takes the place of an earlier one.
    pub(crate) fn attend(&self, broker: BrokerIdentity) -> Attendance {
        let mut state = self.state.lock();
        state.opened += 1;
        let attendance = Attendance { broker, number: state.opened };
        state.attendances.insert(broker.id, attendance);
        attendance
    }

    /// The connection has ended. Gives whether the broker's listener is to be dialled now: that was its newest connection.
    pub(crate) fn closed(&self, attendance: Attendance) -> bool {
        let mut state = self.state.lock();
        if state.attendances.get(&attendance.broker.id) != Some(&attendance) {
            return false;
        }
        state.attendances.remove(&attendance.broker.id);
        state.active.as_mut().is_some_and(|sessions| sessions.connection_closed(attendance.broker))
    }

    /// Whether the broker has been heard of since its connection was lost.
    pub(crate) fn is_back(&self, broker: BrokerIdentity) -> bool {
        let now_ms = self.now_ms();
        self.state.lock().active.as_ref().is_none_or(|sessions| sessions.is_live(broker, now_ms))
    }

    /// Nobody listens at the broker's address. Gives whether it is to be fenced now.
    pub(crate) fn dial_refused(&self, broker: BrokerIdentity, image: &MetadataImage) -> bool {
        let now_ms = self.now_ms();
        let mut state = self.state.lock();
        state.active.as_mut().is_some_and(|sessions| sessions.dial_refused(broker, image, now_ms))
    }

    /// Brokers of which nobody can tell without a dial whether they live. Each is given once, until it is heard of again.
    pub(super) fn doubtful(&self, image: &MetadataImage) -> Vec<BrokerIdentity> {
        let now_ms = self.now_ms();
        let mut state = self.state.lock();
        state.active.as_mut().map(|sessions| sessions.doubtful(image, now_ms)).unwrap_or_default()
    }

    /// Unfenced brokers that have been silent for too long.
    pub(super) fn silent(&self, image: &MetadataImage) -> Vec<BrokerIdentity> {
        let now_ms = self.now_ms();
        let mut state = self.state.lock();
        state.active.as_mut().map(|sessions| sessions.silent(image, now_ms)).unwrap_or_default()
    }

    /// When the next session could end; `None` = not before the metadata change.
    pub(super) fn next_end(&self, image: &MetadataImage) -> Option<Instant> {
        let now_ms = self.now_ms();
        let end_ms = self.state.lock().active.as_ref()?.next_end_ms(image, now_ms)?;
        Some(self.started + Duration::from_millis(u64::try_from(end_ms).unwrap_or_default()))
    }

    /// Drops what nobody will ask for.
    pub(super) fn tidy(&self, image: &MetadataImage) {
        self.lags.lock().retain_known(image);
    }
}
