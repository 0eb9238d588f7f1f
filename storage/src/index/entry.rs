//! Entries of the two sparse indexes.

use taffrail_core::ids::Offset;

/// An entry of an index file.
pub trait Entry: Copy {
    /// Bytes of an entry in the file.
    const BYTES: usize;

    /// Adds the entry's bytes.
    fn encode(&self, target: &mut Vec<u8>);

    /// Reads an entry from exactly [`Entry::BYTES`] bytes.
    fn decode(bytes: &[u8]) -> Self;

    /// Whether this entry may stand after `previous`.
    fn follows(&self, previous: &Self) -> bool;
}

/// Entry of `.index`: the batch that begins at `position` ends with the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetEntry {
    /// Last offset of the batch, minus the base offset of the segment.
    pub relative_offset: u32,
    /// Where the batch begins in the `.log` file.
    pub position: u32,
}

/// Entry of `.timeindex`: the largest timestamp of the segment up to here, and the batch that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeEntry {
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// Last offset of the batch that has this timestamp, minus the base offset of the segment.
    pub relative_offset: u32,
}

impl Entry for OffsetEntry {
    const BYTES: usize = 8;

    fn encode(&self, target: &mut Vec<u8>) {
        target.extend_from_slice(&self.relative_offset.to_be_bytes());
        target.extend_from_slice(&self.position.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        Self { relative_offset: u32_at(bytes, 0), position: u32_at(bytes, 4) }
    }

    fn follows(&self, previous: &Self) -> bool {
        self.relative_offset > previous.relative_offset && self.position > previous.position
    }
}

impl Entry for TimeEntry {
    const BYTES: usize = 12;

    fn encode(&self, target: &mut Vec<u8>) {
        target.extend_from_slice(&self.timestamp.to_be_bytes());
        target.extend_from_slice(&self.relative_offset.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        let mut timestamp = [0; 8];
        timestamp.copy_from_slice(&bytes[..8]);
        Self { timestamp: i64::from_be_bytes(timestamp), relative_offset: u32_at(bytes, 8) }
    }

    fn follows(&self, previous: &Self) -> bool {
        self.timestamp > previous.timestamp && self.relative_offset >= previous.relative_offset
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(value)
}

/// An offset as indexes keep it; `None` when it is not within 2^31 of the segment's base.
pub fn relative(offset: Offset, base: Offset) -> Option<u32> {
    let distance = offset.checked_sub(base)?;
    u32::try_from(distance).ok().filter(|&distance| distance <= i32::MAX as u32)
}
