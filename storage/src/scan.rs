//! Walks over the batches of a `.log` file, by their headers alone or with their checksums.
//!
//! No length that is read from the file decides how much memory is taken: headers are read through a window of fixed size,
//! and a checksum is computed piece by piece, so the largest batch that was ever accepted is handled by any buffer.

use std::io;

use taffrail_core::record::{BATCH_HEADER_BYTES, BatchHeader, offset_of};

use crate::disk::{self, DiskFile};

/// Window for looking at a few headers.
pub(crate) const WINDOW_SMALL_BYTES: usize = 4 << 10;

/// Window for reading a whole file.
pub(crate) const WINDOW_LARGE_BYTES: usize = 128 << 10;

/// How far the device is ahead of a walk with large windows.
pub(crate) const READ_AHEAD_BYTES: u64 = 4 * WINDOW_LARGE_BYTES as u64;

/// Why a walk cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScanError {
    /// The disk refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// There is no sound batch at this position.
    #[error("no valid batch at position {position}: {cause}")]
    Invalid {
        /// Position in the file.
        position: u64,
        /// What is wrong there.
        cause: String,
    },
}

/// A batch in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located {
    /// Where it begins.
    pub(crate) position: u64,
    /// Its header.
    pub(crate) header: BatchHeader,
}

impl Located {
    /// Where the next batch begins.
    pub(crate) fn end(&self) -> u64 {
        self.position + self.header.total_bytes() as u64
    }
}

/// A walk over a file from batch to batch.
pub(crate) struct Scan<'a> {
    file: &'a dyn DiskFile,
    position: u64,
    limit: u64,
    window: Vec<u8>,
    window_at: u64,
    window_bytes: usize,
    /// Up to where the file was asked for ahead.
    prefetched: u64,
}

impl<'a> Scan<'a> {
    /// A walk from `position`, where a batch begins, to `limit`; reads `window_bytes` at once.
    pub(crate) fn new(file: &'a dyn DiskFile, position: u64, limit: u64, window_bytes: usize) -> Self {
        Self { file, position, limit, window: Vec::new(), window_at: 0, window_bytes, prefetched: position }
    }

    /// Where the next batch begins.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The next batch, its header checked for what a header can tell; `None` at the limit.
    ///
    /// # Errors
    /// [`ScanError::Invalid`] when what is there is no batch, or one that goes beyond the limit.
    pub(crate) fn next(&mut self) -> Result<Option<Located>, ScanError> {
        let position = self.position;
        if position >= self.limit {
            return Ok(None);
        }
        let rest = self.limit - position;
        if rest < BATCH_HEADER_BYTES as u64 {
            return Err(invalid(position, format!("only {rest} bytes are left, less than a header")));
        }
        let header = BatchHeader::parse(self.bytes(position, BATCH_HEADER_BYTES)?)
            .map_err(|error| invalid(position, error.to_string()))?;
        let needed = header.total_bytes() as u64;
        if needed > rest {
            return Err(invalid(position, format!("a batch of {needed} bytes, where only {rest} are left")));
        }
        if header.base_offset < 0 || header.last_offset_delta < 0 || header.record_count < 0 {
            return Err(invalid(position, "a header with a negative offset or count".to_owned()));
        }
        self.position = position + needed;
        Ok(Some(Located { position, header }))
    }

    /// Compares the checksum of a batch with its bytes.
    ///
    /// # Errors
    /// [`ScanError::Invalid`] when they differ.
    pub(crate) fn verify(&mut self, batch: &Located) -> Result<(), ScanError> {
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        let mut at = batch.position + offset_of::ATTRIBUTES as u64;
        while at < batch.end() {
            let piece = (batch.end() - at).min(self.window_bytes as u64) as usize;
            digest.update(self.bytes(at, piece)?);
            at += piece as u64;
        }
        let computed = digest.finalize() as u32;
        let stored = batch.header.crc;
        if computed != stored {
            return Err(invalid(batch.position, format!("stored crc {stored}, computed {computed}")));
        }
        Ok(())
    }

    /// Asks for what comes after a large window at `at` when less than half of what was asked for is left.
    fn read_ahead(&mut self, at: u64) {
        if self.window_bytes < WINDOW_LARGE_BYTES || at + READ_AHEAD_BYTES / 2 < self.prefetched {
            return;
        }
        let (from, to) = (self.prefetched.max(at), self.limit.min(at + READ_AHEAD_BYTES));
        if from < to {
            self.file.prefetch(from, to - from);
            self.prefetched = to;
        }
    }

    /// Bytes of the file, from the window if they are in it. At most a window at once.
    fn bytes(&mut self, at: u64, count: usize) -> io::Result<&[u8]> {
        let count_max = self.window_bytes.max(BATCH_HEADER_BYTES);
        assert!(count <= count_max, "{count} bytes are more than a window");
        let inside = at >= self.window_at && at + count as u64 <= self.window_at + self.window.len() as u64;
        if !inside {
            let wanted = (self.limit - at).min(count_max as u64) as usize;
            self.window.resize(wanted, 0);
            self.read_ahead(at);
            let read = disk::read_up_to(self.file, &mut self.window, at)?;
            self.window.truncate(read);
            self.window_at = at;
            if read < count {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    format!("the file ends at {}, before {}", at + read as u64, at + count as u64),
                ));
            }
        }
        let start = (at - self.window_at) as usize;
        Ok(&self.window[start..start + count])
    }
}

fn invalid(position: u64, cause: String) -> ScanError {
    ScanError::Invalid { position, cause }
}

/// The first sound batch (checksum included) that begins at or after `position` and before `limit`, with a base offset
/// of at least `offset_min`, wherever it begins. For telling a torn tail from damage in the middle.
///
/// # Errors
/// What the disk says.
pub(crate) fn find_valid_batch(
    file: &dyn DiskFile,
    position: u64,
    limit: u64,
    offset_min: i64,
) -> io::Result<Option<Located>> {
    let mut block = vec![0; WINDOW_LARGE_BYTES];
    let mut at = position;
    while at + BATCH_HEADER_BYTES as u64 <= limit {
        let wanted = (limit - at).min(block.len() as u64) as usize;
        let read = disk::read_up_to(file, &mut block[..wanted], at)?;
        if read < BATCH_HEADER_BYTES {
            break;
        }
        let starts = read - BATCH_HEADER_BYTES + 1;
        for start in 0..starts {
            // The magic is at a fixed place; almost every wrong start ends here.
            if block[start + offset_of::MAGIC] != 2 {
                continue;
            }
            let candidate = at + start as u64;
            let mut scan = Scan::new(file, candidate, limit, WINDOW_SMALL_BYTES);
            match scan.next() {
                Ok(Some(batch)) if batch.header.base_offset >= offset_min && scan.verify(&batch).is_ok() => {
                    return Ok(Some(batch));
                }
                Err(ScanError::Io(error)) => return Err(error),
                _ => {}
            }
        }
        at += starts as u64;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use taffrail_core::record::{BatchBuilder, BatchOptions};

    use super::*;
    use crate::disk::fault::FaultDisk;
    use crate::disk::{Disk, OpenMode};

    fn batch(base_offset: i64, value_bytes: usize) -> Vec<u8> {
        let mut builder = BatchBuilder::new(BatchOptions { base_offset, ..BatchOptions::default() });
        builder.push(1, None, Some(&vec![7; value_bytes])).unwrap();
        builder.build().unwrap()
    }

    fn file_of(content: &[u8]) -> Arc<dyn DiskFile> {
        let file = FaultDisk::new(1).open(Path::new("/f"), OpenMode::CreateNew).unwrap();
        crate::index::write(&*file, 0, content).unwrap();
        file
    }

    #[test]
    fn batches_larger_than_the_window_are_walked_and_verified() {
        let content: Vec<u8> = [10, 300_000, 0, 70_000].iter().zip(0..).flat_map(|(&n, o)| batch(o, n)).collect();
        let file = file_of(&content);
        for window_bytes in [64, 4096, 1 << 20] {
            let mut scan = Scan::new(&*file, 0, content.len() as u64, window_bytes);
            let mut offsets = Vec::new();
            while let Some(batch) = scan.next().unwrap() {
                scan.verify(&batch).unwrap();
                offsets.push(batch.header.base_offset);
            }
            assert_eq!(offsets, [0, 1, 2, 3]);
        }
    }

    #[test]
    fn every_flipped_bit_of_what_the_sum_covers_is_found_at_its_batch() {
        let first = batch(0, 10);
        let content = [first.clone(), batch(1, 10)].concat();
        for at in first.len() + offset_of::MAGIC..content.len() {
            let mut damaged = content.clone();
            damaged[at] ^= 4;
            let file = file_of(&damaged);
            let mut scan = Scan::new(&*file, 0, content.len() as u64, 4096);
            let result = loop {
                match scan.next() {
                    Ok(Some(batch)) => match scan.verify(&batch) {
                        Ok(()) => {}
                        Err(error) => break error,
                    },
                    Ok(None) => panic!("damage at {at} is not seen"),
                    Err(error) => break error,
                }
            };
            assert!(
                matches!(result, ScanError::Invalid { position, .. } if position == first.len() as u64),
                "{result}"
            );
        }
    }

    #[test]
    fn a_valid_batch_behind_rubbish_is_found_wherever_it_begins() {
        for rubbish in [1, 61, 1000, WINDOW_LARGE_BYTES - 30, WINDOW_LARGE_BYTES + 5] {
            let content = [vec![2; rubbish], batch(9, 100)].concat();
            let file = file_of(&content);
            let found = find_valid_batch(&*file, 0, content.len() as u64, 5).unwrap().unwrap();
            assert_eq!((found.position, found.header.base_offset), (rubbish as u64, 9));
            assert!(
                find_valid_batch(&*file, 0, content.len() as u64, 10).unwrap().is_none(),
                "an older one is no proof"
            );
            assert!(find_valid_batch(&*file, 0, content.len() as u64 - 1, 5).unwrap().is_none());
        }
    }
}
