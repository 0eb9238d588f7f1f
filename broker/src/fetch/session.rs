//! Fetch sessions (KIP-227): what a client need not say again, and what we need not tell it again.
//!
//! A session also saves us from looking: it subscribes to its partitions, and a fetch looks only at those that have news, of
//! which the client said something new, or that had more than fitted the last time. However many others there are, they
//! cost it nothing. Rules as in Kafka's `FetchSession` and `FetchManager`.

use std::collections::BTreeMap;
use std::sync::Arc;

use taffrail_core::collections::HashMap;
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{LeaderEpoch, Offset, PartitionIndex};
use taffrail_protocol::data::TopicRef;
use taffrail_protocol::message::StrBytes;

use super::read::Item;
use crate::replica::news::News;
use crate::replica::{Partition, Reach, Refused, Subscribed};

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
    /// There is something that it must act on: where its log parts from ours, or a replica that it should rather ask.
    pub(crate) is_pressing: bool,
    /// There is more to read than it was given.
    pub(crate) has_rest: bool,
}

struct Cached {
    key: PartitionKey,
    wanted: Wanted,
    /// Its turn: those with lower ones are served first.
    place: u64,
    /// What tells of its news, while the partition is here.
    subscribed: Option<Subscribed>,
    /// What the client was told last; -1 = nothing that it may keep.
    high_watermark: Offset,
    log_start_offset: Offset,
}

/// One client's session.
pub(crate) struct Session {
    pub(crate) id: i32,
    /// Epoch that the next request must have.
    pub(crate) epoch: i32,
    pub(crate) uses_topic_ids: bool,
    /// How far its client reads.
    pub(crate) reach: Reach,
    news: Arc<News>,
    /// By number; `None` = the number is free.
    partitions: Vec<Option<Cached>>,
    free: Vec<u32>,
    numbers: HashMap<PartitionKey, u32>,
    /// The numbers of those that are worth a look, by their places.
    due: BTreeMap<u64, u32>,
    next_place: u64,
}

/// The epoch after `epoch`: 0 and below are taken.
pub(crate) fn next_epoch(epoch: i32) -> i32 {
    if epoch < 0 { EPOCH_FINAL } else { epoch.checked_add(1).unwrap_or(1) }
}

impl Session {
    pub(crate) fn new(id: i32, uses_topic_ids: bool, reach: Reach) -> Self {
        Self {
            id,
            epoch: next_epoch(EPOCH_INITIAL),
            uses_topic_ids,
            reach,
            news: News::new(),
            partitions: Vec::new(),
            free: Vec::new(),
            numbers: HashMap::default(),
            due: BTreeMap::new(),
            next_place: 0,
        }
    }

    /// Partitions in it.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// What its partitions tell.
    pub(crate) fn news(&self) -> &Arc<News> {
        &self.news
    }

    /// Adds a partition at the end, or changes what is wanted of it. Gives its number.
    pub(crate) fn want(&mut self, key: &PartitionKey, wanted: Wanted) -> u32 {
        if let Some(&number) = self.numbers.get(key)
            && let Some(cached) = self.partitions.get_mut(number as usize).and_then(Option::as_mut)
        {
            cached.wanted = wanted;
            self.due.insert(cached.place, number);
            return number;
        }
        let (key, place) = (key.detached(), self.take_place());
        let number = self.free.pop().unwrap_or_else(|| {
            self.partitions.push(None);
            // Sessions are bounded far below this.
            u32::try_from(self.partitions.len() - 1).unwrap_or(u32::MAX)
        });
        self.numbers.insert(key.clone(), number);
        self.due.insert(place, number);
        self.partitions[number as usize] =
            Some(Cached { key, wanted, place, subscribed: None, high_watermark: -1, log_start_offset: -1 });
        number
    }

    fn take_place(&mut self) -> u64 {
        self.next_place += 1;
        self.next_place - 1
    }

    /// Takes a partition out.
    pub(crate) fn forget(&mut self, key: &PartitionKey) {
        if let Some(number) = self.numbers.remove(key)
            && let Some(cached) = self.partitions.get_mut(number as usize).and_then(Option::take)
        {
            self.due.remove(&cached.place);
            self.free.push(number);
        }
    }

    /// The partitions that are worth a look, in the order in which they are to be served. `find` finds those that were not
    /// here, or are not any more.
    pub(crate) fn due(&mut self, find: impl Fn(&PartitionKey) -> Result<Arc<Partition>, Refused>) -> Vec<Item> {
        let Self { news, partitions, due, reach, .. } = self;
        news.drain(|number| {
            // One that was forgotten meanwhile may have told.
            if let Some(Some(cached)) = partitions.get(number as usize) {
                due.insert(cached.place, number);
            }
        });
        let mut items = Vec::with_capacity(due.len());
        for &number in due.values() {
            let Some(Some(cached)) = partitions.get_mut(number as usize) else { continue };
            let partition = match cached.subscribed.take() {
                Some(here) if !here.partition().is_gone() => Ok(here),
                // It has told of its end, and this look tells the client; the next one looks for its next life.
                Some(gone) => Err(Ok(Arc::clone(gone.partition()))),
                None => {
                    let found = find(&cached.key).map(|partition| partition.subscribe(*reach, news, number));
                    found.map_err(Err)
                }
            };
            let partition = match partition {
                Ok(subscribed) => {
                    // What comes during the look is news again.
                    subscribed.looked_at();
                    let partition = Arc::clone(subscribed.partition());
                    cached.subscribed = Some(subscribed);
                    Ok(partition)
                }
                Err(instead) => instead,
            };
            let (topic, index) = (cached.key.topic.clone(), cached.key.partition);
            items.push(Item { topic, index, wanted: cached.wanted, partition, number });
        }
        items
    }

    /// Notes what is to be said of a partition; tells whether the client must hear it. Other partitions can be left out of
    /// an incremental answer, because nothing about them is new.
    pub(crate) fn tell(&mut self, number: u32, told: &Told) -> bool {
        let must_hear = self.remember(number, told);
        let is_settled =
            told.error == ErrorCode::None && told.records_bytes == 0 && !told.is_pressing && !told.has_rest;
        if is_settled && let Some(Some(cached)) = self.partitions.get(number as usize) {
            self.due.remove(&cached.place);
        }
        must_hear
    }

    /// [`Self::tell`] in an answer that tells of every partition: all stay due for another look, because news between the
    /// first one and the subscription were not heard.
    pub(crate) fn remember(&mut self, number: u32, told: &Told) -> bool {
        let place = self.next_place;
        let Some(Some(cached)) = self.partitions.get_mut(number as usize) else { return false };
        let mut must_hear = told.records_bytes > 0 || told.is_pressing;
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
        if told.records_bytes > 0 {
            // It has had its turn.
            self.due.remove(&cached.place);
            cached.place = place;
            self.due.insert(place, number);
            self.next_place += 1;
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
        let error = ErrorCode::None;
        Told { error, records_bytes, high_watermark, log_start_offset: 0, is_pressing: false, has_rest: false }
    }

    fn session() -> Session {
        Session::new(7, false, Reach::Committed)
    }

    /// The partitions that are due; none of them is here.
    fn due(session: &mut Session) -> Vec<PartitionIndex> {
        session.due(|_| Err(ErrorCode::UnknownTopicOrPartition.into())).iter().map(|item| item.index).collect()
    }

    #[test]
    fn epochs_rise_and_wrap_to_one() {
        assert_eq!(next_epoch(EPOCH_INITIAL), 1);
        assert_eq!(next_epoch(i32::MAX), 1);
        assert_eq!(next_epoch(EPOCH_FINAL), EPOCH_FINAL);
    }

    #[test]
    fn only_what_is_new_is_told_again() {
        let mut session = session();
        let number = session.want(&key("t", 0), WANTED);
        assert!(session.tell(number, &told(0, 5)), "the first answer is new");
        assert!(!session.tell(number, &told(0, 5)), "nothing is new");
        assert!(session.tell(number, &told(0, 6)), "the high watermark is");
        assert!(session.tell(number, &Told { log_start_offset: 2, ..told(0, 6) }), "the log start is");
        assert!(session.tell(number, &Told { log_start_offset: 2, ..told(10, 6) }), "records are");
        assert!(session.tell(number, &Told { log_start_offset: 2, is_pressing: true, ..told(0, 6) }));
        let failed = Told { error: ErrorCode::NotLeaderOrFollower, log_start_offset: 2, ..told(0, 6) };
        assert!(session.tell(number, &failed), "an error is told");
        assert!(session.tell(number, &failed), "as long as it lasts");
        assert!(session.tell(number, &Told { log_start_offset: 2, ..told(0, 6) }), "and so is its end");
        assert!(!session.tell(number, &Told { log_start_offset: 2, ..told(0, 6) }));
    }

    #[test]
    fn partitions_that_gave_records_go_to_the_end_so_that_others_get_their_turn() {
        let mut session = session();
        let numbers: Vec<u32> = (0..3).map(|partition| session.want(&key("t", partition), WANTED)).collect();
        assert_eq!(due(&mut session), [0, 1, 2]);
        session.tell(numbers[0], &told(10, 5));
        assert_eq!(due(&mut session), [1, 2, 0]);
        session.tell(numbers[2], &Told { has_rest: true, ..told(0, 5) });
        assert_eq!(due(&mut session), [1, 2, 0], "what did not fit keeps its turn");
    }

    #[test]
    fn partitions_of_which_nothing_is_left_to_say_are_not_looked_at_again() {
        let mut session = session();
        let numbers: Vec<u32> = (0..5).map(|partition| session.want(&key("t", partition), WANTED)).collect();
        let unsettled = [
            told(10, 5),
            Told { error: ErrorCode::NotLeaderOrFollower, ..told(0, 5) },
            Told { is_pressing: true, ..told(0, 5) },
            Told { has_rest: true, ..told(0, 5) },
        ];
        for (number, told) in numbers.iter().zip(&unsettled) {
            session.tell(*number, told);
        }
        session.tell(numbers[4], &told(0, 5));
        assert_eq!(due(&mut session), [1, 2, 3, 0]);
        session.want(&key("t", 4), Wanted { fetch_offset: 9, ..WANTED });
        assert_eq!(due(&mut session), [1, 2, 3, 4, 0], "the client wants something else of it");
    }

    #[test]
    fn after_an_answer_that_tells_of_all_all_are_looked_at_once_more() {
        let mut session = session();
        let number = session.want(&key("t", 0), WANTED);
        assert!(session.remember(number, &told(0, 5)));
        assert_eq!(due(&mut session), [0]);
        assert!(!session.tell(number, &told(0, 5)), "it was told");
        assert_eq!(due(&mut session), [0; 0]);
    }

    #[test]
    fn requests_add_change_and_forget_partitions() {
        let mut session = session();
        session.want(&key("t", 0), WANTED);
        let forgotten = session.want(&key("t", 1), WANTED);
        session.want(&key("t", 0), Wanted { fetch_offset: 9, ..WANTED });
        session.forget(&key("t", 1));
        session.forget(&key("t", 5));
        let items = session.due(|_| Err(ErrorCode::UnknownTopicOrPartition.into()));
        let all: Vec<_> = items.iter().map(|item| (item.index, item.wanted.fetch_offset)).collect();
        assert_eq!(all, [(0, 9)]);
        assert!(!session.tell(forgotten, &told(10, 5)), "a forgotten partition is not told of");
        assert_eq!(session.len(), 1);
        assert_eq!(session.want(&key("t", 2), WANTED), forgotten, "numbers are used again");
        assert_eq!(due(&mut session), [0, 2]);
    }
}
