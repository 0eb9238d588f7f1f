//! Makes partitions of very many segments, as a broker leaves them that rolled often; through a broker it would take
//! gigabytes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use taffrail_core::ids::TopicPartition;
use taffrail_storage::checkpoint::{self, RECOVERY_POINTS};
use taffrail_storage::disk::real::RealDisk;
use taffrail_storage::names::{FileKind, segment_path};
use taffrail_storage::snapshot;

/// Partitions that get the segments.
pub(super) const PARTITIONS: i32 = 40;
/// Segments of each.
pub(super) const SEGMENTS: i64 = 1_000;

/// Bytes of the base offset, with which a batch begins; it is no part of the checksum.
const BASE_OFFSET_BYTES: usize = 8;
/// Where the largest timestamp is in a batch.
const TIMESTAMP: std::ops::Range<usize> = 35..43;

/// Gives each partition of `topic`, in which there is one batch of one record, a segment for each offset from 1 on, with
/// the same batch in it. All but the last are written down as durable.
///
/// # Errors
/// When the disk refuses.
pub(super) fn fill(logs: &Path, topic: &str) -> io::Result<()> {
    let mut recovery_points = BTreeMap::new();
    for partition in 0..PARTITIONS {
        let partition = TopicPartition::new(topic, partition);
        let dir = logs.join(partition.to_string());
        let file = |offset, kind| segment_path(&dir, offset, kind, "");
        let mut batch = fs::read(file(0, FileKind::Log))?;
        let timestamp = batch.get(TIMESTAMP).ok_or(io::ErrorKind::UnexpectedEof)?.to_vec();
        for offset in 1..SEGMENTS {
            batch[..BASE_OFFSET_BYTES].copy_from_slice(&offset.to_be_bytes());
            fs::write(file(offset, FileKind::Log), &batch)?;
            fs::write(file(offset, FileKind::Index), [])?;
            // The entry that closing a segment writes: the largest timestamp, and its offset relative to the first one.
            fs::write(file(offset, FileKind::TimeIndex), [&timestamp[..], &[0; 4]].concat())?;
            fs::write(file(offset, FileKind::Snapshot), snapshot::encode(&[]))?;
        }
        recovery_points.insert(partition, SEGMENTS - 1);
    }
    let path = logs.join(RECOVERY_POINTS);
    checkpoint::write_offsets(&RealDisk::new(), &path, recovery_points.iter().map(|(name, offset)| (name, *offset)))
}
