//! When the active controller's own work is due: soon after an event that may make some, and from time to time.
//!
//! The work itself is [`Tend`]. It finds by the image's indexes what there is to do, so a run too many costs little and
//! changes nothing; a run too few is made up for by the next one. Times are milliseconds of one clock, chosen by the caller.

use super::{Tend, Tended};
use crate::event::MetadataEvent;
use crate::image::MetadataImage;
use crate::topic_name;

/// How long to wait after an event, so that one run does what many events make. A broker that is back comes back into one
/// ISR after the other.
const REST_MS: i64 = 500;

/// How long until replicas are looked at again that could not all be moved yet.
const AGAIN_MS: i64 = 1_000;

/// Elections of one run at most; Kafka's `MAX_ELECTIONS_PER_IMBALANCE`.
const ELECTIONS_MAX: u32 = 1_000;

/// Partitions that are moved at the same time at most, so that the copies do not crowd out the clients.
const MOVES_MAX: u32 = 50;

/// When what is due.
#[derive(Debug, Clone)]
pub struct Tending {
    interval_ms: i64,
    /// `None` = leadership is not given back by itself (`auto.leader.rebalance.enable`).
    leaders_due_ms: Option<i64>,
    replicas_due_ms: i64,
}

impl Tending {
    /// The work of a controller that becomes active at `now_ms`. Everything is looked at every `interval_ms` at least;
    /// `leaders` tells whether leadership is given back to preferred leaders.
    pub fn begin(leaders: bool, interval_ms: i64, now_ms: i64) -> Self {
        let due_ms = now_ms.saturating_add(REST_MS);
        Self { interval_ms, leaders_due_ms: leaders.then_some(due_ms), replicas_due_ms: due_ms }
    }

    /// `event` has been applied, which led to `image`.
    pub fn saw(&mut self, event: &MetadataEvent, image: &MetadataImage, now_ms: i64) {
        let (leaders, replicas) = match event {
            MetadataEvent::PartitionChanged { topic_id, state, .. } => {
                let preferred = state.preferred_leader();
                let may_return = state.leader != preferred && state.isr.contains(&preferred);
                let is_internal =
                    || image.topic_by_id(*topic_id).is_some_and(|topic| topic_name::is_internal(&topic.name));
                (may_return, !state.is_reassigning() && (!image.duties().is_empty() || is_internal()))
            }
            MetadataEvent::BrokerUnfenced { .. }
            | MetadataEvent::BrokerDutyChanged { .. }
            | MetadataEvent::ConfigChanged { .. } => (true, true),
            MetadataEvent::GrantClosed { .. } => (true, false),
            MetadataEvent::TopicCreated { .. } => (false, true),
            MetadataEvent::ClusterCreated { .. }
            | MetadataEvent::FeatureLevelChanged { .. }
            | MetadataEvent::BrokerRegistered(_)
            | MetadataEvent::BrokerFenced { .. }
            | MetadataEvent::BrokerShuttingDown { .. }
            | MetadataEvent::BrokerUnregistered { .. }
            | MetadataEvent::PartitionCreated { .. }
            | MetadataEvent::TopicDeleted { .. }
            | MetadataEvent::ProducerIdsAllocated { .. }
            | MetadataEvent::GrantOpened(_) => (false, false),
        };
        self.hasten(leaders, replicas, now_ms.saturating_add(REST_MS));
    }

    /// Anything may have changed.
    pub fn saw_everything(&mut self, now_ms: i64) {
        self.hasten(true, true, now_ms.saturating_add(REST_MS));
    }

    /// When something is due.
    pub fn next_due_ms(&self) -> i64 {
        self.leaders_due_ms.map_or(self.replicas_due_ms, |leaders| leaders.min(self.replicas_due_ms))
    }

    /// What is due at `now_ms`, one kind of work at a time. Tell with [`Tending::ran`] what came of it.
    pub fn due(&self, now_ms: i64) -> Option<Tend> {
        if self.leaders_due_ms.is_some_and(|due_ms| due_ms <= now_ms) {
            return Some(Tend { leaders: true, replicas: false, changes_max: ELECTIONS_MAX });
        }
        let replicas = Tend { leaders: false, replicas: true, changes_max: MOVES_MAX };
        (self.replicas_due_ms <= now_ms).then_some(replicas)
    }

    /// `work` has been done, or could not be (`None`).
    pub fn ran(&mut self, work: Tend, tended: Option<Tended>, now_ms: i64) {
        let is_unfinished = tended.is_none_or(|tended| tended.is_unfinished);
        let next_ms = now_ms.saturating_add(if is_unfinished { AGAIN_MS } else { self.interval_ms });
        if work.replicas {
            self.replicas_due_ms = next_ms;
        } else if let Some(due_ms) = &mut self.leaders_due_ms {
            // More elections can be held at once; more moves cannot.
            *due_ms = if tended.is_some() && is_unfinished { now_ms } else { next_ms };
        }
    }

    fn hasten(&mut self, leaders: bool, replicas: bool, due_ms: i64) {
        if let Some(leaders_due_ms) = self.leaders_due_ms.as_mut().filter(|_| leaders) {
            *leaders_due_ms = due_ms.min(*leaders_due_ms);
        }
        if replicas {
            self.replicas_due_ms = due_ms.min(self.replicas_due_ms);
        }
    }
}
