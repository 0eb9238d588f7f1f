//! Replicas whose replication is held back (KIP-73), so that making them does not take the network from clients.
//!
//! A broker has one rate for all that it sends as a leader, and one for all that it fetches as a follower, of the replicas that
//! their topics name. What goes to replicas in sync counts, but is never held back: producers wait for it.

use parking_lot::Mutex;
use taffrail_core::config::BrokerConfig;
use taffrail_core::ids::BrokerId;
use taffrail_core::throttle::Throttle;

use super::ReplicaManager;
use super::partition::Partition;

/// What a replica is in its conversation with another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// It sends.
    Leader,
    /// It fetches.
    Follower,
}

/// The throttles of a broker.
#[derive(Default)]
pub(super) struct Throttles {
    leader: Mutex<Throttle>,
    follower: Mutex<Throttle>,
}

impl Throttles {
    /// Takes new rates.
    pub(super) fn set_config(&self, config: &BrokerConfig, now_ms: i64) {
        self.leader.lock().set_rate(config.leader_replication_throttled_rate, now_ms);
        self.follower.lock().set_rate(config.follower_replication_throttled_rate, now_ms);
    }

    fn of(&self, side: Side) -> &Mutex<Throttle> {
        match side {
            Side::Leader => &self.leader,
            Side::Follower => &self.follower,
        }
    }
}

impl ReplicaManager {
    /// How long nothing may be fetched for followers that are held back; `None` = they may go on.
    pub(crate) fn followers_rest_ms(&self) -> Option<i64> {
        self.env.throttles.of(Side::Follower).lock().wait_ms(self.env.now_ms())
    }
}

impl Partition {
    /// Whether its topic names this replica as one that is throttled on this side.
    fn is_throttled(&self, side: Side) -> bool {
        let settings = self.topic.settings.load();
        let replicas = match side {
            Side::Leader => &settings.config.leader_replication_throttled_replicas,
            Side::Follower => &settings.config.follower_replication_throttled_replicas,
        };
        replicas.contains(self.index, self.env.own_id)
    }

    /// Whether this broker, as a follower, fetches it no faster than the throttle allows, as long as it lacks committed records.
    pub(crate) fn is_held_back(&self) -> bool {
        self.is_throttled(Side::Follower) && !self.state().isr.contains(&self.env.own_id)
    }

    /// Whether this broker, as its leader, gives nothing to `follower` for now.
    pub(crate) fn withholds_from(&self, follower: BrokerId) -> bool {
        self.is_throttled(Side::Leader)
            && !self.state().isr.contains(&follower)
            && self.env.throttles.of(Side::Leader).lock().wait_ms(self.env.now_ms()).is_some()
    }

    /// Notes that records were sent to a follower, or fetched from the leader.
    pub(crate) fn replicated(&self, side: Side, bytes: usize) {
        if bytes > 0 && self.is_throttled(side) {
            self.env.throttles.of(side).lock().spend(bytes as u64, self.env.now_ms());
        }
    }
}
