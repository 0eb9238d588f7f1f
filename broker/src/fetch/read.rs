//! What a fetch finds at one moment: for each partition a range of batches, or why there is none.

use std::sync::Arc;

use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{LeaderEpoch, Offset};
use taffrail_protocol::data::TopicRef;
use taffrail_storage::LogRead;

use super::session::Wanted;
use crate::replica::{Offsets, Partition, Refused, read_refusal};

/// One partition of a fetch.
pub(crate) struct Item {
    pub(crate) topic: TopicRef,
    pub(crate) index: i32,
    pub(crate) wanted: Wanted,
    pub(crate) partition: Result<Arc<Partition>, Refused>,
}

impl Item {
    /// Whether it can be read without a look at the disk, or not at all.
    pub(crate) fn is_near_end(&self) -> bool {
        self.partition.as_ref().map_or(true, |partition| partition.log().is_near_end(self.wanted.fetch_offset))
    }
}

/// What was found for one partition.
pub(crate) enum Found {
    /// It can be read; there may be nothing new.
    Readable { offsets: Offsets, read: Option<LogRead> },
    /// The client's log differs from this one from this epoch's end on (KIP-595).
    Diverging { offsets: Offsets, epoch: LeaderEpoch, end_offset: Offset },
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
    /// Nothing, for now; the answer does not wait for more.
    pub(crate) fn nothing(items: &[Item]) -> Self {
        let found = items.iter().map(|item| match &item.partition {
            Ok(partition) => Found::Readable { offsets: partition.offsets(), read: None },
            Err(refused) => Found::Failed(*refused),
        });
        Self { found: found.collect(), bytes: 0, is_urgent: true }
    }
}

/// How far the fetch may go.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Bytes of the whole answer; the first batch may be larger.
    pub(crate) max_bytes: u64,
    /// Whether only decided records are wanted (read_committed).
    pub(crate) committed_only: bool,
}

/// Looks at all partitions in their order (KIP-74): the first one that has records gives at least one batch.
pub(crate) fn read_all(items: &[Item], limits: Limits) -> Findings {
    let mut findings = Findings { found: Vec::with_capacity(items.len()), bytes: 0, is_urgent: false };
    for item in items {
        let room = limits.max_bytes.saturating_sub(findings.bytes);
        let found = match &item.partition {
            Ok(partition) => {
                let is_first = findings.bytes == 0;
                read(partition, &item.wanted, room, is_first, limits.committed_only)
                    .unwrap_or_else(|refused| Found::Failed(by_topic(&item.topic, refused)))
            }
            Err(refused) => Found::Failed(*refused),
        };
        match &found {
            Found::Readable { offsets, read: Some(read) } => {
                findings.bytes += read.bytes();
                let upper = if limits.committed_only { offsets.last_stable } else { offsets.high_watermark };
                findings.is_urgent |= read.next_offset < upper;
            }
            Found::Readable { .. } => {}
            Found::Diverging { .. } | Found::Failed(_) => findings.is_urgent = true,
        }
        findings.found.push(found);
    }
    findings
}

/// Whoever knows the topic by its id is told about the id.
fn by_topic(topic: &TopicRef, refused: Refused) -> Refused {
    match (topic, refused.error) {
        (TopicRef::Id(_), ErrorCode::UnknownTopicOrPartition) => ErrorCode::UnknownTopicId.into(),
        _ => refused,
    }
}

fn read(
    partition: &Partition,
    wanted: &Wanted,
    room: u64,
    is_first: bool,
    committed_only: bool,
) -> Result<Found, Refused> {
    partition.check_leader(wanted.current_leader_epoch)?;
    let offsets = partition.offsets();
    let log = partition.log();
    if wanted.last_fetched_epoch >= 0 {
        let (epoch, end_offset) = log.epoch_end(wanted.last_fetched_epoch);
        if epoch < 0 || end_offset < 0 || wanted.fetch_offset < offsets.log_start {
            return Err(ErrorCode::OffsetOutOfRange.into());
        }
        if epoch < wanted.last_fetched_epoch || end_offset < wanted.fetch_offset {
            return Ok(Found::Diverging { offsets, epoch, end_offset });
        }
    }
    let upper = if committed_only { offsets.last_stable } else { offsets.high_watermark };
    if wanted.fetch_offset == upper && log.offline().is_none() {
        // Where consumers that keep up stand: nothing need be looked up.
        return Ok(Found::Readable { offsets, read: None });
    }
    let max_bytes = room.min(u64::try_from(wanted.max_bytes).unwrap_or(0));
    let read = log.read(wanted.fetch_offset, max_bytes, upper, is_first).map_err(|error| read_refusal(&error))?;
    Ok(Found::Readable { offsets, read: Some(read).filter(|read| read.bytes() > 0) })
}
