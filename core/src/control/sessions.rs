//! When a broker counts as gone: kept by the active controller, in memory.
//!
//! Silence for the whole session timeout ends a session. Two rules notice sooner that a broker is gone:
//! - Its connection closes, and when nobody listens at its address any more its process has died.
//! - A broker that attends (it has a heartbeat answered several times a second, over one connection) falls silent for a
//!   sixth of the timeout: its process has stopped, or it is cut off. Whether its connection stays or closes makes no
//!   difference: one that hears nothing any more closes it, while what it sends may still arrive. What arrives from a broker
//!   that says itself that it had no answer before does not count, until it has one.
//!
//! Because a fault of the controller's own network can look the same for all brokers, only one at a time is fenced by these
//! rules; the others have their timeouts. A connection that merely closes, and a listener that merely does not answer,
//! mean nothing. A broker that cannot reach the active controller and has others pass its heartbeats on does not attend.
//!
//! A controller that has just become active has heard of nobody yet, and gives everybody a whole timeout: a change of
//! controllers fences no broker. But whoever does not attend, and is silent for a sixth of it, is dialled: no connection
//! closes for a broker that died before the new controller had heard of it. Times are milliseconds of one clock that never
//! goes back, chosen by the caller.

use std::collections::BTreeMap;

use super::BrokerIdentity;
use crate::ids::BrokerId;
use crate::image::MetadataImage;

/// A broker that attends may be silent for one part in so many of the session timeout.
const ATTENTION: i64 = 6;

/// The sessions of all brokers.
#[derive(Debug, Clone)]
pub struct BrokerSessions {
    timeout_ms: i64,
    /// When this controller became the active one.
    active_since_ms: i64,
    sessions: BTreeMap<BrokerId, Session>,
    /// The broker that was last fenced before its timeout, and when.
    early: Option<(BrokerIdentity, i64)>,
}

/// How a broker has shown that it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// By a call, perhaps through another controller.
    Call,
    /// Over the connection that it has just for that.
    Attendance,
    /// In either way, but it had no answer the last time: it may be one that is heard and hears nothing.
    Unanswered,
}

#[derive(Debug, Clone, Copy)]
struct Session {
    epoch: i64,
    heard_ms: i64,
    /// Its connection has closed, or it has none and has been silent, and it has not been heard of since.
    is_suspect: bool,
    /// It was last heard of over the connection that it has just for that.
    attends: bool,
    /// Offset up to which it has applied the metadata.
    applied: i64,
}

impl BrokerSessions {
    /// The sessions of a controller that becomes active at `now_ms`; they end after `timeout_ms` of silence.
    pub fn begin(timeout_ms: i64, now_ms: i64) -> Self {
        Self { timeout_ms, active_since_ms: now_ms, sessions: BTreeMap::new(), early: None }
    }

    /// The broker has been heard of, and has applied the metadata up to `applied`. An earlier process under its number
    /// counts no more.
    pub fn heard(&mut self, broker: BrokerIdentity, sign: Sign, applied: i64, now_ms: i64) {
        if self.sessions.get(&broker.id).is_some_and(|session| session.epoch > broker.epoch) {
            return;
        }
        if sign == Sign::Unanswered {
            if let Some(session) = self.sessions.get_mut(&broker.id).filter(|session| session.epoch == broker.epoch) {
                session.applied = applied;
            }
            return;
        }
        let attends = sign == Sign::Attendance;
        let session = Session { epoch: broker.epoch, heard_ms: now_ms, is_suspect: false, attends, applied };
        self.sessions.insert(broker.id, session);
    }

    /// The broker's connection has closed. Gives whether its listener is to be dialled now.
    pub fn connection_closed(&mut self, broker: BrokerIdentity) -> bool {
        let session = self.sessions.get_mut(&broker.id).filter(|session| session.epoch == broker.epoch);
        session.is_some_and(|session| {
            let is_new = !session.is_suspect;
            session.is_suspect = true;
            is_new
        })
    }

    /// Brokers that do not attend, and have been silent for as long as would be too long for one that does: their listeners
    /// are to be dialled now. Each is given once, until it is heard of again.
    pub fn doubtful(&mut self, image: &MetadataImage, now_ms: i64) -> Vec<BrokerIdentity> {
        let mut doubtful = Vec::new();
        for broker in unfenced(image) {
            let known = self.sessions.get(&broker.id).filter(|session| session.epoch == broker.epoch);
            let heard_ms = self.last_heard_ms(broker);
            if known.is_some_and(|session| session.attends || session.is_suspect)
                || now_ms - heard_ms < self.timeout_ms / ATTENTION
            {
                continue;
            }
            // Of whom nothing has been heard yet, nothing is known to have been applied.
            let applied = known.map_or(-1, |session| session.applied);
            let session = Session { epoch: broker.epoch, heard_ms, is_suspect: true, attends: false, applied };
            self.sessions.insert(broker.id, session);
            doubtful.push(broker);
        }
        doubtful
    }

    /// Nobody listens at the broker's address: the dial was refused by its machine. Gives whether the broker is to be
    /// fenced now.
    pub fn dial_refused(&mut self, broker: BrokerIdentity, image: &MetadataImage, now_ms: i64) -> bool {
        let is_suspect =
            self.sessions.get(&broker.id).is_some_and(|session| session.epoch == broker.epoch && session.is_suspect);
        let is_registered = image.broker(broker.id).is_some_and(|it| it.epoch == broker.epoch && !it.fenced);
        is_suspect && is_registered && self.may_fence_early(broker, image, now_ms)
    }

    /// Whether no other broker has been fenced before its timeout and is still away.
    fn may_fence_early(&mut self, broker: BrokerIdentity, image: &MetadataImage, now_ms: i64) -> bool {
        let is_another_away = self.early.is_some_and(|(other, at_ms)| {
            other.id != broker.id && now_ms - at_ms < self.timeout_ms && !image.is_active(other.id)
        });
        if !is_another_away {
            self.early = Some((broker, now_ms));
        }
        !is_another_away
    }

    /// Whether the registered process of the broker has been heard of within the timeout: another one may not take its
    /// number then.
    pub fn is_live(&self, broker: BrokerIdentity, now_ms: i64) -> bool {
        self.sessions.get(&broker.id).is_some_and(|session| {
            session.epoch == broker.epoch && !session.is_suspect && now_ms - session.heard_ms < self.timeout_ms
        })
    }

    /// Brokers that are not fenced and have been silent for too long.
    pub fn silent(&mut self, image: &MetadataImage, now_ms: i64) -> Vec<BrokerIdentity> {
        self.sessions.retain(|id, _| image.broker(*id).is_some());
        // Without another broker nobody would take over, so nothing is gained by haste.
        let has_others = unfenced(image).nth(1).is_some();
        let mut silent = Vec::new();
        for broker in unfenced(image) {
            let silence_ms = now_ms - self.last_heard_ms(broker);
            let is_over = silence_ms >= self.timeout_ms;
            if is_over
                || silence_ms >= self.patience_ms(broker)
                    && has_others
                    && silent.is_empty()
                    && self.may_fence_early(broker, image, now_ms)
            {
                silent.push(broker);
            }
        }
        silent
    }

    /// When the next session could end at the earliest, if nobody is heard of until then; `None` = no broker serves.
    pub fn next_end_ms(&self, image: &MetadataImage, now_ms: i64) -> Option<i64> {
        let end = |broker| {
            let heard_ms = self.last_heard_ms(broker);
            let patience_ms = self.patience_ms(broker);
            let mut early_ms = heard_ms.saturating_add(patience_ms);
            if early_ms <= now_ms {
                // Its turn has not come. Others may be back by then.
                early_ms = now_ms.saturating_add(patience_ms);
            }
            early_ms.min(heard_ms.saturating_add(self.timeout_ms))
        };
        unfenced(image).map(end).min()
    }

    /// Whether a broker that wants to stop, and handed over at `handed_over` what it led, may go: it leads nothing any
    /// more, and every other broker that serves knows that.
    pub fn may_go(&self, broker: BrokerIdentity, handed_over: i64, image: &MetadataImage) -> bool {
        let is_told = |id: BrokerId| self.sessions.get(&id).is_some_and(|session| session.applied >= handed_over);
        let is_leaving = image.broker(broker.id).is_none_or(|known| known.shutting_down || known.fenced);
        let others = image.brokers().keys().filter(|id| **id != broker.id && image.may_lead(**id));
        is_leaving && image.replica_index().load(broker.id).leads == 0 && others.copied().all(is_told)
    }

    /// How long the broker may be silent while no other one is away.
    fn patience_ms(&self, broker: BrokerIdentity) -> i64 {
        let attends = self.sessions.get(&broker.id).is_some_and(|session| session.attends);
        if attends { self.timeout_ms / ATTENTION } else { self.timeout_ms }
    }

    fn last_heard_ms(&self, broker: BrokerIdentity) -> i64 {
        let session = self.sessions.get(&broker.id).filter(|session| session.epoch == broker.epoch);
        session.map_or(self.active_since_ms, |session| session.heard_ms.max(self.active_since_ms))
    }
}

fn unfenced(image: &MetadataImage) -> impl Iterator<Item = BrokerIdentity> {
    let unfenced = image.brokers().values().filter(|broker| !broker.fenced);
    unfenced.map(|broker| BrokerIdentity { id: broker.id, epoch: broker.epoch })
}
