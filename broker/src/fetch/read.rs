//! What a fetch finds at one moment: for each partition a range of batches, or why there is none.

use std::sync::Arc;

use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{BrokerId, LeaderEpoch, Offset};
use taffrail_core::image::MetadataImage;
use taffrail_core::partition::EpochEnd;
use taffrail_core::planted::{PlantedBug, is_planted};
use taffrail_protocol::data::TopicRef;
use taffrail_protocol::message::StrBytes;
use taffrail_storage::{Log, LogRead, ReadError};

use super::session::Wanted;
use crate::replica::{Offsets, Partition, Refused, read_refusal};

/// One partition of a fetch.
pub(crate) struct Item {
    pub(crate) topic: TopicRef,
    pub(crate) index: i32,
    pub(crate) wanted: Wanted,
    pub(crate) partition: Result<Arc<Partition>, Refused>,
    /// Its number in the session; without one, its place in the request.
    pub(crate) number: u32,
}

/// What was found for one partition.
pub(crate) enum Found {
    /// It can be read, up to `upper`; there may be nothing new.
    Readable { offsets: Offsets, upper: Offset, read: Option<LogRead> },
    /// The client's log differs from this one from this epoch's end on (KIP-595).
    Diverging { offsets: Offsets, end: EpochEnd },
    /// The consumer is nearer to this replica, which has what it asks for (KIP-392).
    Nearer { offsets: Offsets, replica: BrokerId },
    /// It cannot be read.
    Failed(Refused),
}

/// What was found for all of them.
pub(crate) struct Findings {
    pub(crate) found: Vec<Found>,
    pub(crate) bytes: u64,
    /// There is no reason to wait: an error must be told, or waiting could not add to what a partition gives, because the
    /// request's own limit has been reached.
    pub(crate) is_urgent: bool,
}

impl Findings {
    /// Nothing, for now; the answer does not wait for more, and there may be more.
    pub(crate) fn nothing(items: &[Item]) -> Self {
        let found = items.iter().map(|item| match &item.partition {
            Ok(partition) => Found::Readable { offsets: partition.offsets(), upper: Offset::MAX, read: None },
            Err(refused) => Found::Failed(*refused),
        });
        Self { found: found.collect(), bytes: 0, is_urgent: true }
    }
}

/// Who fetches.
#[derive(Clone)]
pub(crate) enum Reader {
    /// A consumer.
    Consumer {
        /// It reads only what is decided.
        committed_only: bool,
        /// It knows where it is, so it may be served by a follower.
        may_follow: bool,
        /// Where it is, if leaders send it to the nearest replica.
        nearest: Option<Arc<Nearest>>,
    },
    /// The follower on this broker.
    Replica(BrokerId),
    /// Somebody who is told this.
    Stranger(ErrorCode),
}

/// By what the replica is chosen that is nearest to a consumer.
pub(crate) struct Nearest {
    pub(crate) rack: StrBytes,
    pub(crate) image: Arc<MetadataImage>,
}

impl Reader {
    /// Up to where it may read.
    fn upper(&self, offsets: &Offsets) -> Offset {
        match self {
            Self::Consumer { .. } if is_planted(PlantedBug::ReadAboveHighWatermark) => offsets.log_end,
            Self::Consumer { committed_only: true, .. } => offsets.last_stable,
            Self::Consumer { committed_only: false, .. } | Self::Stranger(_) => offsets.high_watermark,
            Self::Replica(_) => offsets.log_end,
        }
    }

    fn check(&self, partition: &Partition, epoch: LeaderEpoch) -> Result<(), Refused> {
        match self {
            Self::Consumer { may_follow, .. } => partition.check_replica(epoch, *may_follow).map(drop),
            Self::Replica(broker) => {
                partition.check_leader(epoch)?;
                partition.check_follower(*broker, epoch)
            }
            Self::Stranger(error) => Err((*error).into()),
        }
    }
}

/// How far the fetch may go.
#[derive(Clone)]
pub(crate) struct Limits {
    /// Bytes of all partitions together; the first batch may be larger.
    pub(crate) max_bytes: u64,
    pub(crate) reader: Reader,
}

/// Looks at all partitions in their order (KIP-74): the first one that has records gives at least one batch. Asks the disk
/// where things are.
pub(crate) fn read_all(items: &[Item], limits: &Limits) -> Findings {
    let read = |log: &Log, range: Range| Some(log.read(range.from, range.max_bytes, range.upper, range.is_first));
    let Some(findings) = gather(items, limits, read) else { unreachable!("a read that may wait tells something") };
    findings
}

/// The same if the disk need not be asked: all that is wanted is near the ends of the logs, or where readers stopped.
pub(crate) fn read_all_from_memory(items: &[Item], limits: &Limits) -> Option<Findings> {
    gather(items, limits, |log, range| log.read_from_memory(range.from, range.max_bytes, range.upper, range.is_first))
}

/// What is wanted of one log.
struct Range {
    from: Offset,
    max_bytes: u64,
    upper: Offset,
    /// Whether one batch at least is given.
    is_first: bool,
}

/// Looks at all partitions by way of `read_log`, until that says that it cannot tell.
fn gather(
    items: &[Item],
    limits: &Limits,
    read_log: impl Fn(&Log, Range) -> Option<Result<LogRead, ReadError>>,
) -> Option<Findings> {
    let mut findings = Findings { found: Vec::with_capacity(items.len()), bytes: 0, is_urgent: false };
    for item in items {
        let room = limits.max_bytes.saturating_sub(findings.bytes);
        let found = match &item.partition {
            Ok(partition) => {
                let is_first = findings.bytes == 0;
                let found = read(partition, &item.wanted, room, is_first, &limits.reader, &read_log);
                found.transpose()?.unwrap_or_else(|refused| Found::Failed(by_topic(&item.topic, refused)))
            }
            Err(refused) => Found::Failed(*refused),
        };
        match &found {
            Found::Readable { upper, read: Some(read), .. } => {
                findings.bytes += read.bytes();
                findings.is_urgent |= read.next_offset < *upper;
            }
            Found::Readable { .. } => {}
            Found::Diverging { .. } | Found::Nearer { .. } | Found::Failed(_) => findings.is_urgent = true,
        }
        findings.found.push(found);
    }
    Some(findings)
}

/// Whoever knows the topic by its id is told about the id.
fn by_topic(topic: &TopicRef, refused: Refused) -> Refused {
    match (topic, refused.error) {
        (TopicRef::Id(_), ErrorCode::UnknownTopicOrPartition) => ErrorCode::UnknownTopicId.into(),
        _ => refused,
    }
}

/// What one partition gives; `None` = `read_log` cannot tell.
fn read(
    partition: &Partition,
    wanted: &Wanted,
    room: u64,
    is_first: bool,
    reader: &Reader,
    read_log: impl Fn(&Log, Range) -> Option<Result<LogRead, ReadError>>,
) -> Result<Option<Found>, Refused> {
    reader.check(partition, wanted.current_leader_epoch)?;
    let offsets = partition.offsets();
    let log = partition.log();
    if let Some(end) = partition.diverging(wanted.fetch_offset, wanted.last_fetched_epoch, &offsets)? {
        return Ok(Some(Found::Diverging { offsets, end }));
    }
    if let Reader::Consumer { nearest: Some(nearest), .. } = reader
        && let Some(replica) = partition.read_replica(&nearest.rack, wanted.fetch_offset, &nearest.image)
    {
        return Ok(Some(Found::Nearer { offsets, replica }));
    }
    let upper = reader.upper(&offsets);
    if let Reader::Replica(broker) = reader
        && partition.withholds_from(*broker)
    {
        // As if there were nothing new yet. There is more than it was given, so the session looks again.
        return Ok(Some(Found::Readable { offsets, upper, read: None }));
    }
    if wanted.fetch_offset == upper && log.offline().is_none() {
        // Where consumers that keep up stand: nothing need be looked up.
        return Ok(Some(Found::Readable { offsets, upper, read: None }));
    }
    let max_bytes = room.min(u64::try_from(wanted.max_bytes).unwrap_or(0));
    let Some(read) = read_log(log, Range { from: wanted.fetch_offset, max_bytes, upper, is_first }) else {
        return Ok(None);
    };
    let read = Some(read.map_err(|error| read_refusal(&error))?).filter(|read| read.bytes() > 0);
    Ok(Some(Found::Readable { offsets, upper, read }))
}
