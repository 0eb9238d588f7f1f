//! Producer snapshots (`<offset>.snapshot`): what the log knows about its producers before the offset in the name.
//!
//! The layout is Kafka's `ProducerSnapshot` message, version 1: version, CRC-32C of all that follows it, count, entries.

use std::io;
use std::path::Path;

use taffrail_core::ids::{Offset, ProducerEpoch, ProducerId};
use taffrail_core::record::crc32c;

use crate::disk::{self, Disk};
use crate::names::{FileKind, parse_segment_file};

const VERSION: i16 = 1;
const ENTRIES_AT: usize = 6;
const ENTRY_BYTES: usize = 46;

/// Largest snapshot that is read: more than ten million producers.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// Removes the snapshots in `dir` of whose offsets `is_kept` does not hold; gives the offsets of the others, smallest first.
/// Make the folder durable afterwards: a snapshot that came back after a power cut would speak of records that are gone.
///
/// # Errors
/// When the disk refuses.
pub(crate) fn retain(disk: &dyn Disk, dir: &Path, is_kept: impl Fn(Offset) -> bool) -> io::Result<Vec<Offset>> {
    let mut kept = Vec::new();
    for entry in disk.list(dir)? {
        match parse_segment_file(&entry.name) {
            Some((offset, FileKind::Snapshot, "")) if is_kept(offset) => kept.push(offset),
            Some((_, FileKind::Snapshot, "")) => disk::remove_if_exists(disk, &dir.join(&entry.name))?,
            _ => {}
        }
    }
    kept.sort_unstable();
    Ok(kept)
}

/// What is kept of one producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerEntry {
    /// Whose entry this is.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the last record of its last batch; -1 = none.
    pub last_sequence: i32,
    /// Offset of the last record of its last batch; -1 = none.
    pub last_offset: Offset,
    /// Number of records of its last batch, minus one.
    pub offset_delta: i32,
    /// Largest timestamp of its last batch, in milliseconds.
    pub timestamp: i64,
    /// Epoch of the transaction coordinator that wrote its last marker; -1 = none.
    pub coordinator_epoch: i32,
    /// First offset of its open transaction; -1 = none.
    pub current_txn_first_offset: Offset,
}

/// Why a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The disk refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The content is none that we or Kafka write.
    #[error("not a producer snapshot: {0}")]
    Malformed(String),
}

/// The content of a snapshot file.
pub fn encode(entries: &[ProducerEntry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ENTRIES_AT + 4 + entries.len() * ENTRY_BYTES);
    bytes.extend_from_slice(&VERSION.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&(entries.len() as u32).to_be_bytes());
    for entry in entries {
        bytes.extend_from_slice(&entry.producer_id.to_be_bytes());
        bytes.extend_from_slice(&entry.producer_epoch.to_be_bytes());
        bytes.extend_from_slice(&entry.last_sequence.to_be_bytes());
        bytes.extend_from_slice(&entry.last_offset.to_be_bytes());
        bytes.extend_from_slice(&entry.offset_delta.to_be_bytes());
        bytes.extend_from_slice(&entry.timestamp.to_be_bytes());
        bytes.extend_from_slice(&entry.coordinator_epoch.to_be_bytes());
        bytes.extend_from_slice(&entry.current_txn_first_offset.to_be_bytes());
    }
    let crc = crc32c(&bytes[ENTRIES_AT..]);
    bytes[2..ENTRIES_AT].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// Reads the content of a snapshot file.
///
/// # Errors
/// When version, sum or length are wrong.
pub fn decode(bytes: &[u8]) -> Result<Vec<ProducerEntry>, SnapshotError> {
    let malformed = |what: String| SnapshotError::Malformed(what);
    let Some((head, entries)) = bytes.split_first_chunk::<{ ENTRIES_AT + 4 }>() else {
        return Err(malformed(format!("only {} bytes", bytes.len())));
    };
    let version = i16::from_be_bytes(take(head, 0));
    if version != VERSION {
        return Err(malformed(format!("version {version}, where only {VERSION} is known")));
    }
    let stored = u32::from_be_bytes(take(head, 2));
    let computed = crc32c(&bytes[ENTRIES_AT..]);
    if stored != computed {
        return Err(malformed(format!("stored crc {stored}, computed {computed}")));
    }
    let count = u32::from_be_bytes(take(head, ENTRIES_AT));
    if entries.len() as u64 != u64::from(count) * ENTRY_BYTES as u64 {
        return Err(malformed(format!("{count} entries are announced, {} bytes follow", entries.len())));
    }
    let entry = |entry: &[u8]| ProducerEntry {
        producer_id: i64::from_be_bytes(take(entry, 0)),
        producer_epoch: i16::from_be_bytes(take(entry, 8)),
        last_sequence: i32::from_be_bytes(take(entry, 10)),
        last_offset: i64::from_be_bytes(take(entry, 14)),
        offset_delta: i32::from_be_bytes(take(entry, 22)),
        timestamp: i64::from_be_bytes(take(entry, 26)),
        coordinator_epoch: i32::from_be_bytes(take(entry, 34)),
        current_txn_first_offset: i64::from_be_bytes(take(entry, 38)),
    };
    Ok(entries.chunks_exact(ENTRY_BYTES).map(entry).collect())
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at..at + N]);
    value
}

/// Reads a snapshot file.
///
/// # Errors
/// When it cannot be read or is damaged.
pub fn read(disk: &dyn Disk, path: &Path) -> Result<Vec<ProducerEntry>, SnapshotError> {
    decode(&disk::read_file(disk, path, FILE_BYTES_MAX)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(producer_id: i64) -> ProducerEntry {
        ProducerEntry {
            producer_id,
            producer_epoch: 3,
            last_sequence: 41,
            last_offset: 29_300,
            offset_delta: 7,
            timestamp: 1_764_442_500_000,
            coordinator_epoch: -1,
            current_txn_first_offset: -1,
        }
    }

    #[test]
    fn snapshots_are_read_as_they_were_written() {
        for count in [0, 1, 3] {
            let entries: Vec<_> = (0..count).map(entry).collect();
            let bytes = encode(&entries);
            assert_eq!(bytes.len(), 10 + 46 * count as usize);
            assert_eq!(decode(&bytes).unwrap(), entries);
        }
    }

    #[test]
    fn a_flipped_or_missing_byte_is_noticed() {
        let bytes = encode(&[entry(1), entry(2)]);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(decode(&damaged).is_err(), "byte {at} flipped");
            assert!(decode(&bytes[..at]).is_err(), "cut to {at} bytes");
        }
    }
}
