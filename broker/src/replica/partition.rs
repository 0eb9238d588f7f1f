//! One replica of one partition.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use parking_lot::RwLock;
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::PartitionState;
use taffrail_core::ids::{BrokerId, LeaderEpoch, Offset, PartitionIndex};
use taffrail_core::record::Batch;
use taffrail_storage::{AppendError, Appended, Log, ReadError};

use super::topic::Topic;
use super::waiters::Waiters;

/// A replica that this broker keeps. Its log may be offline, which shows when it is used.
pub(crate) struct Partition {
    pub(crate) topic: Arc<Topic>,
    pub(crate) index: PartitionIndex,
    pub(super) own_id: BrokerId,
    pub(super) log: Arc<Log>,
    pub(super) state: ArcSwap<PartitionState>,
    /// Held for reading while the leader appends, for writing while the office changes or a follower changes its log: so
    /// nothing is appended in an office that is over. The state changes only under it.
    pub(super) office: RwLock<()>,
    pub(super) is_gone: AtomicBool,
    pub(crate) waiters: Waiters,
}

/// Why a partition does not do what was asked. Carries what a client needs to find the right broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) error: ErrorCode,
    /// Leader and epoch, when another broker should be asked.
    pub(crate) leader: Option<(BrokerId, LeaderEpoch)>,
}

impl From<ErrorCode> for Refused {
    fn from(error: ErrorCode) -> Self {
        Self { error, leader: None }
    }
}

/// The offsets of a partition at one moment: log start <= last stable <= high watermark <= end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offsets {
    pub(crate) log_start: Offset,
    pub(crate) last_stable: Offset,
    pub(crate) high_watermark: Offset,
}

impl Partition {
    pub(super) fn new(topic: Arc<Topic>, index: PartitionIndex, own_id: BrokerId, log: Arc<Log>) -> Self {
        Self {
            topic,
            index,
            own_id,
            state: ArcSwap::from_pointee(PartitionState::new(Vec::new(), Vec::new())),
            log,
            office: RwLock::new(()),
            is_gone: AtomicBool::new(false),
            waiters: Waiters::default(),
        }
    }

    /// Its log.
    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Who keeps and leads it, as far as this broker knows.
    pub(crate) fn state(&self) -> Arc<PartitionState> {
        self.state.load_full()
    }

    /// Whether this broker leads it.
    pub(crate) fn leads(&self) -> bool {
        self.state.load().leader == self.own_id
    }

    /// Takes over what the metadata say. Whoever waits has to look again.
    pub(super) fn follow(&self, state: &Arc<PartitionState>) {
        let _office = self.office.write();
        let before = self.state.swap(Arc::clone(state));
        if state.leader == self.own_id {
            self.log.begin_epoch(state.leader_epoch);
            // The only replica in sync has committed all that it has; with others, their fetches tell.
            if state.isr.len() <= 1 {
                self.advance(self.log.end_offset());
            }
        }
        if before.leader_epoch != state.leader_epoch || before.leader != state.leader {
            self.waiters.changed();
        }
    }

    /// The topic was deleted. Whoever still holds the partition, or waits for it, finds that out.
    pub(super) fn end(&self) {
        self.is_gone.store(true, Ordering::Release);
        self.waiters.changed();
    }

    /// Refuses who believes in another leader epoch, or asks a broker that does not lead. `epoch` -1 = does not say.
    pub(crate) fn check_leader(&self, epoch: LeaderEpoch) -> Result<LeaderEpoch, Refused> {
        if self.is_gone.load(Ordering::Acquire) {
            return Err(ErrorCode::UnknownTopicOrPartition.into());
        }
        let state = self.state.load();
        let leader = Some((state.leader, state.leader_epoch));
        let refused = |error| Err(Refused { error, leader });
        match epoch {
            -1 => {}
            older if older < state.leader_epoch => return refused(ErrorCode::FencedLeaderEpoch),
            newer if newer > state.leader_epoch => return refused(ErrorCode::UnknownLeaderEpoch),
            _ => {}
        }
        if state.leader == self.own_id { Ok(state.leader_epoch) } else { refused(ErrorCode::NotLeaderOrFollower) }
    }

    /// Appends batches that were judged before, as the leader; `done` gets what became of each, in their order.
    /// `all_in_sync`: the producers want every replica in sync to have them (acks=all), so there must be enough of them.
    pub(crate) fn append_each(
        &self,
        batches: &[Batch],
        all_in_sync: bool,
        now_ms: i64,
        mut done: impl FnMut(Result<Appended, Refused>),
    ) {
        let _office = self.office.read();
        let leader_epoch = match self.check_appendable(all_in_sync) {
            Ok(leader_epoch) => leader_epoch,
            Err(refused) => return batches.iter().for_each(|_| done(Err(refused))),
        };
        let (mut bytes, mut records, mut end_offset) = (0, 0, None);
        let mut appending = batches.iter();
        self.log.append_each(batches, leader_epoch, now_ms, |result| {
            if let (Some(batch), Ok(appended)) = (appending.next(), &result)
                && !appended.duplicate
            {
                bytes += batch.bytes().len() as u64;
                records += u64::try_from(batch.header().record_count).unwrap_or(0);
                end_offset = Some(appended.last_offset + 1);
            }
            done(result.map_err(|error| append_refusal(&error)));
        });
        if let Some(end_offset) = end_offset {
            let counters = &self.topic.counters;
            counters.bytes_in.inc_by(bytes);
            counters.messages_in.inc_by(records);
            if self.state.load().isr.len() <= 1 {
                self.advance(end_offset);
            }
            self.waiters.grown(bytes as i64);
        }
    }

    /// [`Self::append_each`] for one batch.
    pub(crate) fn append(&self, batch: &Batch, all_in_sync: bool, now_ms: i64) -> Result<Appended, Refused> {
        let mut appended = None;
        self.append_each(std::slice::from_ref(batch), all_in_sync, now_ms, |result| appended = Some(result));
        appended.unwrap_or_else(|| unreachable!("each batch gets an answer"))
    }

    /// Whether this broker may append as the leader; tells in which epoch.
    fn check_appendable(&self, all_in_sync: bool) -> Result<LeaderEpoch, Refused> {
        let leader_epoch = self.check_leader(-1)?;
        let state = self.state.load();
        if all_in_sync && state.isr.len() < self.min_in_sync(&state) {
            return Err(ErrorCode::NotEnoughReplicas.into());
        }
        Ok(leader_epoch)
    }

    /// Replicas that acks=all needs; no more than there are.
    fn min_in_sync(&self, state: &PartitionState) -> usize {
        let min = self.topic.settings.load().config.min_insync_replicas;
        state.min_in_sync(usize::try_from(min).unwrap_or(1))
    }

    /// Whether its replicas in sync are fewer than (`Less`), just (`Equal`) or more than its minimum.
    pub(crate) fn in_sync_against_minimum(&self) -> std::cmp::Ordering {
        let state = self.state.load();
        state.isr.len().cmp(&self.min_in_sync(&state))
    }

    /// Raises the high watermark. Needs the office.
    pub(super) fn advance(&self, high_watermark: Offset) {
        self.log.advance_high_watermark(high_watermark);
    }

    /// Its offsets. Read in an order in which none can be ahead of one that must not be behind it.
    pub(crate) fn offsets(&self) -> Offsets {
        let high_watermark = self.log.high_watermark();
        let log_start = self.log.log_start_offset();
        let high_watermark = high_watermark.max(log_start);
        // Without transactions everything below the high watermark is decided.
        Offsets { log_start, last_stable: high_watermark, high_watermark }
    }
}

/// What a client is told when an append failed.
fn append_refusal(error: &AppendError) -> Refused {
    let code = match error {
        AppendError::Producer(error) => error.code(),
        AppendError::TooLarge { .. } => ErrorCode::RecordListTooLarge,
        AppendError::Deleted => ErrorCode::NotLeaderOrFollower,
        AppendError::InvalidBatch(_) => ErrorCode::InvalidRecord,
        AppendError::OutOfOrderOffset { .. } => ErrorCode::UnknownServerError,
        AppendError::Offline(_) | AppendError::Fenced(_) | AppendError::DiskFull | AppendError::Io(_) => {
            ErrorCode::KafkaStorageError
        }
    };
    code.into()
}

/// What a client is told when a read failed.
pub(crate) fn read_refusal(error: &ReadError) -> Refused {
    let code = match error {
        ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        ReadError::Deleted => ErrorCode::NotLeaderOrFollower,
        ReadError::Offline(_) | ReadError::Io(_) | ReadError::Busy => ErrorCode::KafkaStorageError,
    };
    code.into()
}
