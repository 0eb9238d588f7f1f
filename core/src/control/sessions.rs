//! When a broker counts as gone: kept by the active controller, in memory.
//!
//! Silence for the whole session timeout ends a session. A process that dies is noticed sooner: its connection closes, and
//! when nobody listens at its address any more it is fenced at once. Because a fault of the controller's own network can
//! look the same for all brokers, only one at a time is fenced by this rule; the others have their timeouts. A connection
//! that merely closes, and a listener that merely does not answer, mean nothing.
//!
//! A controller that has just become active has heard of nobody yet, and gives everybody a whole timeout: a change of
//! controllers fences no broker. Times are milliseconds of one clock that never goes back, chosen by the caller.

use std::collections::BTreeMap;

use super::BrokerIdentity;
use crate::ids::BrokerId;
use crate::image::MetadataImage;

/// The sessions of all brokers.
#[derive(Debug, Clone)]
pub struct BrokerSessions {
    timeout_ms: i64,
    /// When this controller became the active one.
    active_since_ms: i64,
    sessions: BTreeMap<BrokerId, Session>,
    /// The broker that was last fenced because nobody listened at its address, and when.
    refused: Option<(BrokerIdentity, i64)>,
}

#[derive(Debug, Clone, Copy)]
struct Session {
    epoch: i64,
    heard_ms: i64,
    /// Its connection has closed, and it has not been heard of since.
    is_suspect: bool,
}

impl BrokerSessions {
    /// The sessions of a controller that becomes active at `now_ms`; they end after `timeout_ms` of silence.
    pub fn begin(timeout_ms: i64, now_ms: i64) -> Self {
        Self { timeout_ms, active_since_ms: now_ms, sessions: BTreeMap::new(), refused: None }
    }

    /// The broker has been heard of. An earlier process under its number counts no more.
    pub fn heard(&mut self, broker: BrokerIdentity, now_ms: i64) {
        if self.sessions.get(&broker.id).is_some_and(|session| session.epoch > broker.epoch) {
            return;
        }
        let session = Session { epoch: broker.epoch, heard_ms: now_ms, is_suspect: false };
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

    /// Nobody listens at the broker's address: the dial was refused by its machine. Gives whether the broker is to be
    /// fenced now.
    pub fn dial_refused(&mut self, broker: BrokerIdentity, image: &MetadataImage, now_ms: i64) -> bool {
        let is_suspect =
            self.sessions.get(&broker.id).is_some_and(|session| session.epoch == broker.epoch && session.is_suspect);
        let is_registered = image.broker(broker.id).is_some_and(|it| it.epoch == broker.epoch && !it.fenced);
        if !is_suspect || !is_registered {
            return false;
        }
        let is_another_away = self.refused.is_some_and(|(other, at_ms)| {
            other.id != broker.id && now_ms - at_ms < self.timeout_ms && !image.is_active(other.id)
        });
        if !is_another_away {
            self.refused = Some((broker, now_ms));
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

    /// Brokers that are not fenced and have been silent for the whole timeout.
    pub fn silent(&mut self, image: &MetadataImage, now_ms: i64) -> Vec<BrokerIdentity> {
        self.sessions.retain(|id, _| image.broker(*id).is_some());
        let unfenced = image.brokers().values().filter(|broker| !broker.fenced);
        let identities = unfenced.map(|broker| BrokerIdentity { id: broker.id, epoch: broker.epoch });
        identities.filter(|broker| now_ms - self.last_heard_ms(*broker) >= self.timeout_ms).collect()
    }

    /// When the next session could end at the earliest, if nobody is heard of until then; `None` = no broker serves.
    pub fn next_end_ms(&self, image: &MetadataImage) -> Option<i64> {
        let unfenced = image.brokers().values().filter(|broker| !broker.fenced);
        let identities = unfenced.map(|broker| BrokerIdentity { id: broker.id, epoch: broker.epoch });
        identities.map(|broker| self.last_heard_ms(broker).saturating_add(self.timeout_ms)).min()
    }

    fn last_heard_ms(&self, broker: BrokerIdentity) -> i64 {
        let session = self.sessions.get(&broker.id).filter(|session| session.epoch == broker.epoch);
        session.map_or(self.active_since_ms, |session| session.heard_ms.max(self.active_since_ms))
    }
}
