//! The sparse indexes beside a segment's batches: positions by offset, offsets by time.
//!
//! The files are Kafka's, entry for entry. They are written with plain appends and are exactly as long as their entries:
//! no map of a preallocated file, which on current kernels costs megabytes of page cache for each index.

use std::io::{self, IoSlice};

use crate::disk::{self, DiskFile};

mod aborted;
mod entry;

pub use aborted::{AbortedTransaction, read_aborted, read_aborted_before};
pub use entry::{Entry, OffsetEntry, TimeEntry, relative};

/// Bytes that a search reads at once when it is near: a page of the page cache.
const BLOCK_BYTES: usize = 4096;

/// Entries that wait in memory until they are written together.
const PENDING_MAX: usize = 32;

/// The number of whole entries in an index file.
///
/// # Errors
/// What the disk says.
pub fn count<E: Entry>(file: &dyn DiskFile) -> io::Result<u32> {
    Ok(u32::try_from(file.len()? / E::BYTES as u64).unwrap_or(u32::MAX))
}

/// The entry with this number.
///
/// # Errors
/// What the disk says.
pub fn entry_at<E: Entry>(file: &dyn DiskFile, number: u32) -> io::Result<E> {
    let mut bytes = [0; 16];
    let bytes = &mut bytes[..E::BYTES];
    disk::read_exact_at(file, bytes, u64::from(number) * E::BYTES as u64)?;
    Ok(E::decode(bytes))
}

/// The last entry for which `is_within` holds, with its number, among the first `count` of a file in which it holds for
/// a first part and not for the rest.
///
/// # Errors
/// What the disk says.
pub fn floor<E: Entry>(
    file: &dyn DiskFile,
    count: u32,
    is_within: impl Fn(&E) -> bool,
) -> io::Result<Option<(u32, E)>> {
    let block = (BLOCK_BYTES / E::BYTES) as u32;
    // Entries before `low` are within, entries from `high` on are not.
    let (mut low, mut high) = (0, count);
    while high - low > block {
        let middle = low + (high - low) / 2;
        if is_within(&entry_at::<E>(file, middle)?) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    // One more entry in front, because the answer may be the last that was found within.
    let first = low.saturating_sub(1);
    let mut bytes = vec![0; (high - first) as usize * E::BYTES];
    disk::read_exact_at(file, &mut bytes, u64::from(first) * E::BYTES as u64)?;
    let found =
        bytes.chunks_exact(E::BYTES).map(E::decode).zip(first..).take_while(|(entry, _)| is_within(entry)).last();
    Ok(found.map(|(entry, number)| (number, entry)))
}

/// Where the entries of a file stop making sense, if they do: the number of the first that does not follow the one
/// before it, or does not pass `check`.
///
/// # Errors
/// What the disk says.
pub fn first_unsound<E: Entry>(file: &dyn DiskFile, count: u32, check: impl Fn(&E) -> bool) -> io::Result<Option<u32>> {
    let block = (BLOCK_BYTES * 4 / E::BYTES) as u32;
    let mut previous: Option<E> = None;
    let mut number = 0;
    let mut bytes = vec![0; block.min(count) as usize * E::BYTES];
    while number < count {
        let entries = block.min(count - number);
        let bytes = &mut bytes[..entries as usize * E::BYTES];
        disk::read_exact_at(file, bytes, u64::from(number) * E::BYTES as u64)?;
        for entry in bytes.chunks_exact(E::BYTES).map(E::decode) {
            if !check(&entry) || previous.is_some_and(|previous| !entry.follows(&previous)) {
                return Ok(Some(number));
            }
            previous = Some(entry);
            number += 1;
        }
    }
    Ok(None)
}

/// The growing end of an index: how much is in its file, and what waits to be written.
#[derive(Debug)]
pub struct Growing<E> {
    written: u32,
    pending: Vec<E>,
    last: Option<E>,
}

impl<E> Default for Growing<E> {
    fn default() -> Self {
        Self { written: 0, pending: Vec::new(), last: None }
    }
}

impl<E: Entry> Growing<E> {
    /// The end of an index whose file has `written` entries, the last of which is `last`.
    pub fn new(written: u32, last: Option<E>) -> Self {
        Self { written, pending: Vec::new(), last }
    }

    /// Entries in all.
    pub fn count(&self) -> u32 {
        self.written + self.pending.len() as u32
    }

    /// Entries that are in the file.
    pub fn written(&self) -> u32 {
        self.written
    }

    /// The newest entry.
    pub fn last(&self) -> Option<&E> {
        self.last.as_ref()
    }

    /// Adds an entry if it follows the newest one; entries that say nothing new are left out.
    pub fn push(&mut self, entry: E) {
        if self.last.as_ref().is_none_or(|last| entry.follows(last)) {
            self.last = Some(entry);
            self.pending.push(entry);
        }
    }

    /// Whether enough entries wait to be worth a write.
    pub fn is_due(&self) -> bool {
        self.pending.len() >= PENDING_MAX
    }

    /// The entries that wait.
    pub fn pending(&self) -> &[E] {
        &self.pending
    }

    /// The waiting entry that [`floor`] would find among these.
    pub fn floor_pending(&self, is_within: impl Fn(&E) -> bool) -> Option<E> {
        let within = self.pending.partition_point(is_within);
        within.checked_sub(1).map(|at| self.pending[at])
    }

    /// The waiting entries as bytes, with the position at which they belong; `None` when none waits.
    pub fn unwritten(&self) -> Option<(u64, Vec<u8>, usize)> {
        if self.pending.is_empty() {
            return None;
        }
        let mut bytes = Vec::with_capacity(self.pending.len() * E::BYTES);
        for entry in &self.pending {
            entry.encode(&mut bytes);
        }
        Some((u64::from(self.written) * E::BYTES as u64, bytes, self.pending.len()))
    }

    /// Takes note that the first `entries` of those that waited are in the file.
    pub fn mark_written(&mut self, entries: usize) {
        let entries = entries.min(self.pending.len());
        self.pending.drain(..entries);
        self.written += entries as u32;
        if self.pending.is_empty() {
            // A log that falls idle keeps no buffer.
            self.pending = Vec::new();
        }
    }
}

/// Writes bytes of entries at their position.
///
/// # Errors
/// What the disk says; a part may then be in the file, which the next write at this position covers.
pub fn write(file: &dyn DiskFile, position: u64, bytes: &[u8]) -> io::Result<()> {
    disk::write_all_at(file, &mut [IoSlice::new(bytes)], position)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::fault::FaultDisk;
    use crate::disk::{Disk, OpenMode};

    fn file_of(entries: &[OffsetEntry]) -> std::sync::Arc<dyn DiskFile> {
        let disk = FaultDisk::new(1);
        let file = disk.open(Path::new("/i"), OpenMode::CreateNew).unwrap();
        let mut bytes = Vec::new();
        entries.iter().for_each(|entry| entry.encode(&mut bytes));
        write(&*file, 0, &bytes).unwrap();
        file
    }

    #[test]
    fn a_search_agrees_with_looking_at_every_entry() {
        for count in [0_u32, 1, 2, 511, 512, 513, 1024, 5000] {
            let entries: Vec<_> =
                (0..count).map(|n| OffsetEntry { relative_offset: n * 3 + 2, position: n * 10 }).collect();
            let file = file_of(&entries);
            for target in (0..count * 3 + 6).step_by(7).chain([0, 1, 2, u32::MAX]) {
                let expected = entries.iter().rposition(|entry| entry.relative_offset <= target);
                let found = floor::<OffsetEntry>(&*file, count, |entry| entry.relative_offset <= target).unwrap();
                assert_eq!(found.map(|(number, _)| number as usize), expected, "{target} among {count}");
                assert_eq!(found.map(|(_, entry)| entry), expected.map(|at| entries[at]));
            }
        }
    }

    #[test]
    fn the_first_entry_out_of_order_is_found() {
        let mut entries: Vec<_> = (0..3000).map(|n| OffsetEntry { relative_offset: n + 1, position: n * 10 }).collect();
        assert_eq!(first_unsound::<OffsetEntry>(&*file_of(&entries), 3000, |_| true).unwrap(), None);
        entries[2500].position = 5;
        assert_eq!(first_unsound::<OffsetEntry>(&*file_of(&entries), 3000, |_| true).unwrap(), Some(2500));
        let file = file_of(&entries);
        assert_eq!(first_unsound::<OffsetEntry>(&*file, 3000, |entry| entry.position < 700).unwrap(), Some(70));
    }

    #[test]
    fn entries_wait_until_they_are_written_and_are_found_meanwhile() {
        let mut growing = Growing::new(5, Some(OffsetEntry { relative_offset: 10, position: 100 }));
        growing.push(OffsetEntry { relative_offset: 10, position: 200 });
        assert!(growing.pending().is_empty(), "an entry that does not follow says nothing new");
        growing.push(OffsetEntry { relative_offset: 20, position: 200 });
        growing.push(OffsetEntry { relative_offset: 30, position: 300 });
        assert_eq!(growing.floor_pending(|entry| entry.relative_offset <= 25).unwrap().position, 200);
        assert_eq!(growing.floor_pending(|entry| entry.relative_offset <= 19), None);
        let (position, bytes, entries) = growing.unwritten().unwrap();
        assert_eq!((position, bytes.len(), entries), (40, 16, 2));
        growing.mark_written(entries);
        assert_eq!((growing.count(), growing.written()), (7, 7));
        assert!(growing.unwritten().is_none());
    }
}
