//! The fetch sessions of a broker, of which there is a limited number.
//!
//! When all places are taken, a new session gets the place of one that was not used for long, or of a smaller one that has
//! had its time (Kafka's `FetchSessionCacheShard`); else the client is served without a session. Followers, of which there
//! are few, take the place of any consumer and give theirs to none.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use taffrail_core::collections::HashMap;
use taffrail_core::errors::ErrorCode;

use super::session::{
    EPOCH_FINAL, EPOCH_INITIAL, NO_SESSION, PartitionKey, SESSION_PARTITIONS_MAX, Session, Wanted, next_epoch,
};
use crate::replica::Reach;

/// A session may lose its place after this time without use, or after this age to a larger one.
pub(crate) const EVICTION_MS: i64 = 120_000;

/// The sessions of a broker.
pub(crate) struct SessionCache {
    slots_max: usize,
    entries: HashMap<i32, Entry>,
    /// By last use, oldest first.
    by_use: BTreeSet<(i64, i32)>,
    /// Those of consumers that are of full age, smallest first.
    by_size: BTreeSet<(usize, i32)>,
}

struct Entry {
    session: Arc<Mutex<Session>>,
    reach: Reach,
    created_ms: i64,
    used_ms: i64,
    /// Size under which it stands in `by_size`.
    size: usize,
}

/// How a request is to be served.
pub(crate) enum Context {
    /// It names all its partitions, and the next one will too.
    Sessionless,
    /// It names all its partitions and wants a session.
    Full,
    /// It names what changed since the last one.
    Incremental(Arc<Mutex<Session>>),
}

impl SessionCache {
    /// Room for `slots_max` sessions; 0 = none.
    pub(crate) fn new(slots_max: usize) -> Self {
        Self { slots_max, entries: HashMap::default(), by_use: BTreeSet::new(), by_size: BTreeSet::new() }
    }

    /// Finds out how to serve a request with this session id and epoch.
    ///
    /// # Errors
    /// The error with which the whole request is answered; the client then starts a new session.
    pub(crate) fn begin<'a>(
        &mut self,
        (id, epoch): (i32, i32),
        (uses_topic_ids, reach): (bool, Reach),
        now_ms: i64,
        wanted: impl Iterator<Item = (PartitionKey, Wanted)>,
        forgotten: impl Iterator<Item = &'a PartitionKey>,
    ) -> Result<Context, ErrorCode> {
        if epoch == EPOCH_INITIAL || epoch == EPOCH_FINAL {
            self.remove(id);
            return Ok(if epoch == EPOCH_FINAL { Context::Sessionless } else { Context::Full });
        }
        // Nobody goes on with a session of another kind of client.
        let entry = self.entries.get(&id).filter(|entry| entry.reach == reach);
        let session = entry.map(|entry| Arc::clone(&entry.session)).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        let mut locked = session.lock();
        if locked.epoch != epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if locked.uses_topic_ids != uses_topic_ids {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        for (key, wanted) in wanted {
            locked.want(&key, wanted);
        }
        for key in forgotten {
            locked.forget(key);
        }
        let size = locked.len();
        if size == 0 || size > SESSION_PARTITIONS_MAX {
            drop(locked);
            self.remove(id);
            return if size == 0 { Ok(Context::Sessionless) } else { Err(ErrorCode::FetchSessionIdNotFound) };
        }
        locked.epoch = next_epoch(epoch);
        // A request of the session that waits is answered now, so that what is new here need not wait for it.
        locked.news().begin_turn(locked.epoch);
        drop(locked);
        self.touch(id, size, now_ms);
        Ok(Context::Incremental(session))
    }

    /// Keeps a session that `fill` fills with `size` partitions, if there is a place for it; tells its id, or
    /// [`NO_SESSION`]. `random`: gives random numbers.
    pub(crate) fn create(
        &mut self,
        size: usize,
        (uses_topic_ids, reach): (bool, Reach),
        now_ms: i64,
        mut random: impl FnMut() -> u64,
        fill: impl FnOnce(&mut Session),
    ) -> i32 {
        if size == 0 || size > SESSION_PARTITIONS_MAX || !self.make_place(size, reach, now_ms) {
            return NO_SESSION;
        }
        let id = loop {
            let id = (random() >> 33) as i32;
            if id != NO_SESSION && !self.entries.contains_key(&id) {
                break id;
            }
        };
        let mut session = Session::new(id, uses_topic_ids, reach);
        fill(&mut session);
        let size = session.len();
        let session = Arc::new(Mutex::new(session));
        self.entries.insert(id, Entry { session, reach, created_ms: now_ms, used_ms: now_ms, size });
        self.by_use.insert((now_ms, id));
        id
    }

    /// Sessions that are kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn make_place(&mut self, size: usize, reach: Reach, now_ms: i64) -> bool {
        if self.entries.len() < self.slots_max {
            return true;
        }
        let stale = self.by_use.first().filter(|(used_ms, _)| now_ms - used_ms > EVICTION_MS);
        let smaller = self.by_size.first().filter(|(other, _)| *other < size);
        let of_consumer = |(_, id): &&(i64, i32)| self.entries.get(id).is_some_and(|it| it.reach == Reach::Committed);
        let consumers = self.by_use.iter().filter(|_| reach == Reach::LogEnd).find(of_consumer);
        let given = stale.or(consumers).map(|(_, id)| *id).or_else(|| smaller.map(|(_, id)| *id));
        match given {
            Some(id) => {
                self.remove(id);
                true
            }
            None => false,
        }
    }

    fn touch(&mut self, id: i32, size: usize, now_ms: i64) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        self.by_use.remove(&(entry.used_ms, id));
        self.by_size.remove(&(entry.size, id));
        (entry.used_ms, entry.size) = (now_ms, size);
        self.by_use.insert((now_ms, id));
        if now_ms - entry.created_ms > EVICTION_MS && entry.reach == Reach::Committed {
            self.by_size.insert((size, id));
        }
    }

    fn remove(&mut self, id: i32) {
        if let Some(entry) = self.entries.remove(&id) {
            self.by_use.remove(&(entry.used_ms, id));
            self.by_size.remove(&(entry.size, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use taffrail_protocol::data::TopicRef;

    use super::*;

    const WANTED: Wanted = Wanted { fetch_offset: 0, max_bytes: 1, current_leader_epoch: -1, last_fetched_epoch: -1 };

    fn keys(count: i32) -> Vec<PartitionKey> {
        (0..count).map(|partition| PartitionKey { topic: TopicRef::Name("t".into()), partition }).collect()
    }

    const CONSUMER: (bool, Reach) = (false, Reach::Committed);

    fn create(cache: &mut SessionCache, partitions: i32, now_ms: i64) -> i32 {
        create_for(cache, Reach::Committed, partitions, now_ms)
    }

    fn create_for(cache: &mut SessionCache, reach: Reach, partitions: i32, now_ms: i64) -> i32 {
        // Ids differ from call to call, as random ones do.
        let mut seed = (now_ms as u64 + 2) << 36;
        let next = move || {
            seed += 1 << 33;
            seed
        };
        let fill = |session: &mut Session| {
            for key in keys(partitions) {
                session.want(&key, WANTED);
            }
        };
        cache.create(partitions as usize, (false, reach), now_ms, next, fill)
    }

    fn next(cache: &mut SessionCache, id: i32, epoch: i32, now_ms: i64) -> Result<Context, ErrorCode> {
        cache.begin((id, epoch), CONSUMER, now_ms, std::iter::empty(), std::iter::empty())
    }

    #[test]
    fn requests_of_a_session_must_come_in_turn() {
        let mut cache = SessionCache::new(10);
        let id = create(&mut cache, 2, 0);
        assert!(matches!(next(&mut cache, id, 1, 0), Ok(Context::Incremental(_))));
        assert_eq!(next(&mut cache, id, 1, 0).err(), Some(ErrorCode::InvalidFetchSessionEpoch));
        assert!(matches!(next(&mut cache, id, 2, 0), Ok(Context::Incremental(_))));
        assert_eq!(next(&mut cache, id + 1, 1, 0).err(), Some(ErrorCode::FetchSessionIdNotFound));
        let by_id = cache.begin((id, 3), (true, Reach::Committed), 0, std::iter::empty(), std::iter::empty());
        assert_eq!(by_id.err(), Some(ErrorCode::FetchSessionTopicIdError));
    }

    #[test]
    fn a_full_request_ends_the_session_that_it_names() {
        let mut cache = SessionCache::new(10);
        let id = create(&mut cache, 2, 0);
        assert!(matches!(next(&mut cache, id, EPOCH_INITIAL, 0), Ok(Context::Full)));
        assert_eq!(next(&mut cache, id, 1, 0).err(), Some(ErrorCode::FetchSessionIdNotFound));
        let id = create(&mut cache, 2, 0);
        assert!(matches!(next(&mut cache, id, EPOCH_FINAL, 0), Ok(Context::Sessionless)));
        assert_eq!(cache.len(), 0);
        assert!(matches!(next(&mut cache, 99, EPOCH_FINAL, 0), Ok(Context::Sessionless)), "an unknown one is no error");
    }

    #[test]
    fn a_session_without_partitions_ends() {
        let mut cache = SessionCache::new(10);
        let id = create(&mut cache, 2, 0);
        let context = cache.begin((id, 1), CONSUMER, 0, std::iter::empty(), keys(2).iter());
        assert!(matches!(context, Ok(Context::Sessionless)));
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn a_full_cache_keeps_what_is_in_use_and_gives_stale_places_away() {
        let mut cache = SessionCache::new(2);
        let first = create(&mut cache, 5, 0);
        let second = create(&mut cache, 5, 0);
        assert_eq!(create(&mut cache, 50, 1), NO_SESSION, "all places are in use");
        assert!(next(&mut cache, second, 1, EVICTION_MS).is_ok());
        let third = create(&mut cache, 1, EVICTION_MS + 1);
        assert_ne!(third, NO_SESSION, "the first was not used for long enough");
        assert_eq!(next(&mut cache, first, 1, EVICTION_MS + 1).err(), Some(ErrorCode::FetchSessionIdNotFound));
    }

    #[test]
    fn a_larger_session_takes_the_place_of_a_smaller_one_of_full_age() {
        let mut cache = SessionCache::new(1);
        let small = create(&mut cache, 5, 0);
        assert!(next(&mut cache, small, 1, EVICTION_MS + 1).is_ok());
        assert_eq!(create(&mut cache, 5, EVICTION_MS + 1), NO_SESSION, "it is no larger");
        assert_ne!(create(&mut cache, 6, EVICTION_MS + 1), NO_SESSION);
        assert_eq!(next(&mut cache, small, 2, EVICTION_MS + 1).err(), Some(ErrorCode::FetchSessionIdNotFound));
    }

    #[test]
    fn a_follower_takes_the_place_of_a_consumer_and_gives_its_own_to_none() {
        let mut cache = SessionCache::new(1);
        let consumer = create(&mut cache, 50, 0);
        let follower = create_for(&mut cache, Reach::LogEnd, 1, 1);
        assert_ne!(follower, NO_SESSION);
        assert_eq!(next(&mut cache, consumer, 1, 1).err(), Some(ErrorCode::FetchSessionIdNotFound));
        let used = cache.begin((follower, 1), (false, Reach::LogEnd), EVICTION_MS + 2, std::iter::empty(), [].iter());
        assert!(used.is_ok());
        assert_eq!(create(&mut cache, 50, EVICTION_MS + 2), NO_SESSION);
        assert_eq!(create_for(&mut cache, Reach::LogEnd, 50, EVICTION_MS + 2), NO_SESSION);
        let forged = next(&mut cache, follower, 2, EVICTION_MS + 2);
        assert_eq!(forged.err(), Some(ErrorCode::FetchSessionIdNotFound), "a consumer cannot go on with it");
    }

    #[test]
    fn without_places_there_are_no_sessions() {
        assert_eq!(create(&mut SessionCache::new(0), 5, 0), NO_SESSION);
    }
}
