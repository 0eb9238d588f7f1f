//! Fetch sessions (KIP-227): what a client need not say again, and what we need not tell it again.
//!
//! A session is a state machine without I/O: requests add and forget partitions, answers are compared with what the client
//! was told before. Rules as in Kafka's `FetchSession` and `FetchManager`.

use std::collections::BTreeMap;

use taffrail_core::collections::HashMap;
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{LeaderEpoch, Offset, PartitionIndex};
use taffrail_protocol::data::TopicRef;
use taffrail_protocol::message::StrBytes;

/// Partitions that one session may hold; a client with more gets no session.
pub(crate) const SESSION_PARTITIONS_MAX: usize = 100_000;

/// Session id that stands for "none".
pub(crate) const NO_SESSION: i32 = 0;
/// Epoch of a request that starts a session.
pub(crate) const EPOCH_INITIAL: i32 = 0;
/// Epoch of a request that wants no session, or the end of one.
pub(crate) const EPOCH_FINAL: i32 = -1;

/// A partition within a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PartitionKey {
    pub(crate) topic: TopicRef,
    pub(crate) partition: PartitionIndex,
}

impl PartitionKey {
    /// The same, free of the frame in which the topic's name came.
    fn detached(&self) -> Self {
        let topic = match &self.topic {
            TopicRef::Name(name) => TopicRef::Name(StrBytes::from(name.to_string())),
            TopicRef::Id(id) => TopicRef::Id(*id),
        };
        Self { topic, partition: self.partition }
    }
}

/// What a client wants of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// First offset that it has not got.
    pub(crate) fetch_offset: Offset,
    /// Bytes that it takes at most; one batch may be larger.
    pub(crate) max_bytes: i32,
    /// Leader epoch that it believes in; -1 = it does not say.
    pub(crate) current_leader_epoch: LeaderEpoch,
    /// Epoch of the last record that it has; -1 = it does not say.
    pub(crate) last_fetched_epoch: LeaderEpoch,
}

/// What a client is about to be told of a partition, as far as it decides whether it is told at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) error: ErrorCode,
    pub(crate) records_bytes: usize,
    pub(crate) high_watermark: Offset,
    pub(crate) log_start_offset: Offset,
    pub(crate) diverging: bool,
}

#[derive(Debug)]
struct Cached {
    key: PartitionKey,
    wanted: Wanted,
    /// What the client was told last; -1 = nothing that it may keep.
    high_watermark: Offset,
    log_start_offset: Offset,
}

/// One client's session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: i32,
    /// Epoch that the next request must have.
    pub(crate) epoch: i32,
    pub(crate) uses_topic_ids: bool,
    /// In the order in which they are served: those that gave records go to the end, so that all get their turn.
    order: BTreeMap<u64, Cached>,
    places: HashMap<PartitionKey, u64>,
    next_place: u64,
}

/// The epoch after `epoch`: 0 and below are taken.
pub(crate) fn next_epoch(epoch: i32) -> i32 {
    if epoch < 0 { EPOCH_FINAL } else { epoch.checked_add(1).unwrap_or(1) }
}

impl Session {
    pub(crate) fn new(id: i32, uses_topic_ids: bool) -> Self {
        let epoch = next_epoch(EPOCH_INITIAL);
        Self { id, epoch, uses_topic_ids, order: BTreeMap::new(), places: HashMap::default(), next_place: 0 }
    }

    /// Partitions in it.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Adds a partition at the end, or changes what is wanted of it.
    pub(crate) fn want(&mut self, key: &PartitionKey, wanted: Wanted) {
        if let Some(cached) = self.places.get(key).and_then(|place| self.order.get_mut(place)) {
            cached.wanted = wanted;
            return;
        }
        self.append(Cached { key: key.detached(), wanted, high_watermark: -1, log_start_offset: -1 });
    }

    fn append(&mut self, cached: Cached) {
        self.places.insert(cached.key.clone(), self.next_place);
        self.order.insert(self.next_place, cached);
        self.next_place += 1;
    }

    /// Takes a partition out.
    pub(crate) fn forget(&mut self, key: &PartitionKey) {
        if let Some(place) = self.places.remove(key) {
            self.order.remove(&place);
        }
    }

    /// The partitions in the order in which they are to be served.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (&PartitionKey, Wanted)> {
        self.order.values().map(|cached| (&cached.key, cached.wanted))
    }

    /// Notes what is to be said of a partition; tells whether the client must hear it. Other partitions can be left out of
    /// an incremental answer, because nothing about them is new.
    pub(crate) fn tell(&mut self, key: &PartitionKey, told: &Told) -> bool {
        // Forgotten meanwhile by a request that overtook this one: the client does not expect it.
        let Some(&place) = self.places.get(key) else { return false };
        let Some(cached) = self.order.get_mut(&place) else { return false };
        let mut must_hear = told.records_bytes > 0 || told.diverging;
        if cached.high_watermark != told.high_watermark || cached.log_start_offset != told.log_start_offset {
            cached.high_watermark = told.high_watermark;
            cached.log_start_offset = told.log_start_offset;
            must_hear = true;
        }
        if told.error != ErrorCode::None {
            // Makes sure that the partition is told again once the error is gone.
            cached.high_watermark = -1;
            must_hear = true;
        }
        if told.records_bytes > 0
            && let Some(cached) = self.order.remove(&place)
        {
            self.append(cached);
        }
        must_hear
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, partition: i32) -> PartitionKey {
        PartitionKey { topic: TopicRef::Name(name.to_owned().into()), partition }
    }

    const WANTED: Wanted = Wanted { fetch_offset: 0, max_bytes: 100, current_leader_epoch: -1, last_fetched_epoch: -1 };

    fn told(records_bytes: usize, high_watermark: Offset) -> Told {
        Told { error: ErrorCode::None, records_bytes, high_watermark, log_start_offset: 0, diverging: false }
    }

    fn order(session: &Session) -> Vec<PartitionIndex> {
        session.partitions().map(|(key, _)| key.partition).collect()
    }

    #[test]
    fn epochs_rise_and_wrap_to_one() {
        assert_eq!(next_epoch(EPOCH_INITIAL), 1);
        assert_eq!(next_epoch(i32::MAX), 1);
        assert_eq!(next_epoch(EPOCH_FINAL), EPOCH_FINAL);
    }

    #[test]
    fn only_what_is_new_is_told_again() {
        let mut session = Session::new(7, false);
        let partition = key("t", 0);
        session.want(&partition, WANTED);
        assert!(session.tell(&partition, &told(0, 5)), "the first answer is new");
        assert!(!session.tell(&partition, &told(0, 5)), "nothing is new");
        assert!(session.tell(&partition, &told(0, 6)), "the high watermark is");
        assert!(session.tell(&partition, &Told { log_start_offset: 2, ..told(0, 6) }), "the log start is");
        assert!(session.tell(&partition, &Told { log_start_offset: 2, ..told(10, 6) }), "records are");
        assert!(session.tell(&partition, &Told { log_start_offset: 2, diverging: true, ..told(0, 6) }));
        let failed = Told { error: ErrorCode::NotLeaderOrFollower, log_start_offset: 2, ..told(0, 6) };
        assert!(session.tell(&partition, &failed), "an error is told");
        assert!(session.tell(&partition, &failed), "as long as it lasts");
        assert!(session.tell(&partition, &Told { log_start_offset: 2, ..told(0, 6) }), "and so is its end");
        assert!(!session.tell(&partition, &Told { log_start_offset: 2, ..told(0, 6) }));
    }

    #[test]
    fn partitions_that_gave_records_go_to_the_end_so_that_others_get_their_turn() {
        let mut session = Session::new(7, false);
        for partition in 0..3 {
            session.want(&key("t", partition), WANTED);
        }
        assert_eq!(order(&session), [0, 1, 2]);
        session.tell(&key("t", 0), &told(10, 5));
        assert_eq!(order(&session), [1, 2, 0]);
        session.tell(&key("t", 2), &told(0, 5));
        assert_eq!(order(&session), [1, 2, 0]);
    }

    #[test]
    fn requests_add_change_and_forget_partitions() {
        let mut session = Session::new(7, false);
        session.want(&key("t", 0), WANTED);
        session.want(&key("t", 1), WANTED);
        session.want(&key("t", 0), Wanted { fetch_offset: 9, ..WANTED });
        session.forget(&key("t", 1));
        session.forget(&key("t", 5));
        let all: Vec<_> = session.partitions().map(|(key, wanted)| (key.partition, wanted.fetch_offset)).collect();
        assert_eq!(all, [(0, 9)]);
        assert!(!session.tell(&key("t", 1), &told(10, 5)), "a forgotten partition is not told of");
        assert_eq!(session.len(), 1);
    }
}
