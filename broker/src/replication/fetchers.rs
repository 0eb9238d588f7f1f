//! Which fetcher brings which partition: one task for each leader (or `num.replica.fetchers` of them), on a shard.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use taffrail_core::collections::{HashMap, Hasher};
use taffrail_core::ids::BrokerId;
use taffrail_core::image::{MetadataImage, PartitionKey};
use taffrail_runtime::shard::Shards;
use taffrail_runtime::shutdown::Shutdown;

use super::fetcher::Fetcher;
use super::inbox::{Change, Inbox};
use crate::broker::Broker;
use crate::replica::Partition;

/// A leader, and which of the fetchers that fetch from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FetcherId {
    pub(super) leader: BrokerId,
    pub(super) number: usize,
}

/// What fetchers need to run.
struct Ground {
    broker: Weak<Broker>,
    shards: Arc<Shards>,
    shutdown: Shutdown,
}

/// One fetcher.
struct Handle {
    inbox: Arc<Inbox>,
    is_running: bool,
    /// Epoch of the leader's registration as it was seen last.
    leader_epoch: i64,
}

#[derive(Default)]
struct Assigned {
    homes: HashMap<PartitionKey, FetcherId>,
    fetchers: BTreeMap<FetcherId, Handle>,
}

/// All fetchers of a broker. They are told what to fetch, and run once there is something to run on.
#[derive(Default)]
pub(crate) struct Fetchers {
    ground: OnceLock<Ground>,
    assigned: Mutex<Assigned>,
}

impl Fetchers {
    /// Lets the fetchers of `broker`, whose fetchers these are, run on `shards` until `shutdown`. Further calls change
    /// nothing.
    pub(crate) fn start(&self, broker: &Arc<Broker>, shards: &Arc<Shards>, shutdown: &Shutdown) {
        let ground = Ground { broker: Arc::downgrade(broker), shards: Arc::clone(shards), shutdown: shutdown.clone() };
        if self.ground.set(ground).is_ok() {
            self.run_all(&mut self.assigned.lock());
        }
    }

    /// Gives each of these partitions, whose state may have changed, to the fetcher of its leader; takes it from the one that
    /// had it if it has another leader, is led here, or is gone. `image` says which brokers there are.
    pub(crate) fn follow(
        &self,
        changed: impl IntoIterator<Item = Arc<Partition>>,
        image: &MetadataImage,
        fetchers_a_leader: usize,
    ) {
        let assigned = &mut *self.assigned.lock();
        let mut rung: BTreeMap<FetcherId, Arc<Inbox>> = BTreeMap::new();
        for partition in changed {
            let key = (partition.topic.id, partition.index);
            let home = partition
                .following()
                .map(|following| FetcherId { leader: following.leader, number: number_of(key, fetchers_a_leader) });
            let before = match home {
                Some(home) => assigned.homes.insert(key, home),
                None => assigned.homes.remove(&key),
            };
            if let Some(before) = before.filter(|before| Some(*before) != home)
                && let Some(handle) = assigned.fetchers.get(&before)
            {
                handle.inbox.put(key, Change::Leave);
                rung.insert(before, Arc::clone(&handle.inbox));
            }
            if let Some(home) = home {
                let handle = assigned.fetchers.entry(home).or_insert_with(|| Handle {
                    inbox: Arc::default(),
                    is_running: false,
                    leader_epoch: registration_epoch(image, home.leader),
                });
                handle.inbox.put(key, Change::Follow(partition));
                rung.insert(home, Arc::clone(&handle.inbox));
            }
        }
        rung.values().for_each(|inbox| inbox.ring());
        for (id, handle) in &mut assigned.fetchers {
            let epoch = registration_epoch(image, id.leader);
            if handle.leader_epoch != epoch {
                handle.leader_epoch = epoch;
                handle.inbox.note_leader_moved();
            }
        }
        self.run_all(assigned);
    }

    /// Starts the fetchers that do not run.
    fn run_all(&self, assigned: &mut Assigned) {
        let Some(ground) = self.ground.get() else { return };
        let waiting = assigned.fetchers.iter_mut().filter(|(_, handle)| !handle.is_running);
        for (position, (id, handle)) in waiting.enumerate() {
            let (broker, inbox, shutdown) =
                (Weak::clone(&ground.broker), Arc::clone(&handle.inbox), ground.shutdown.clone());
            let id = *id;
            let shard = usize::try_from(id.leader.0).unwrap_or(0).wrapping_add(id.number).wrapping_add(position);
            let started = ground.shards.spawn_on(shard, move || async move {
                if let Some(broker) = broker.upgrade() {
                    Fetcher::new(broker, id, inbox).run(&shutdown).await;
                }
            });
            match started {
                Ok(()) => handle.is_running = true,
                // Tried again with the next change of the metadata.
                Err(error) => tracing::error!(leader = %id.leader, %error, "a fetcher cannot be started"),
            }
        }
    }
}

fn registration_epoch(image: &MetadataImage, broker: BrokerId) -> i64 {
    image.broker(broker).map_or(-1, |registration| registration.epoch)
}

/// Which of the fetchers of its leader has a partition: always the same one.
fn number_of(key: PartitionKey, fetchers_a_leader: usize) -> usize {
    match fetchers_a_leader {
        0 | 1 => 0,
        count => (Hasher::default().hash_one(key) % count as u64) as usize,
    }
}
