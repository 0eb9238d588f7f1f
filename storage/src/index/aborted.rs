//! The transaction index (`.txnindex`): which transactions of a segment were aborted.

use std::io;
use std::path::Path;

use taffrail_core::ids::{Offset, ProducerId};

use crate::disk::{self, Disk, DiskFile, OpenMode};

/// Version of the entries.
const VERSION: i16 = 0;

/// Bytes of an entry: a version and four 64-bit numbers.
const ENTRY_BYTES: usize = 34;

/// Entries of one file that are read at most: far more aborted transactions than a segment can hold.
const ENTRIES_MAX: u64 = 16 << 20;

/// A transaction that was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Whose it was.
    pub producer_id: ProducerId,
    /// Offset of its first record.
    pub first_offset: Offset,
    /// Offset of the marker that ended it.
    pub last_offset: Offset,
    /// The last stable offset when it ended.
    pub last_stable_offset: Offset,
}

impl AbortedTransaction {
    /// Adds the entry as it stands in the file.
    pub fn encode(&self, target: &mut Vec<u8>) {
        target.extend_from_slice(&VERSION.to_be_bytes());
        for number in [self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset] {
            target.extend_from_slice(&number.to_be_bytes());
        }
    }
}

/// All entries of a file.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] when the file has an entry of an unknown version or ends within one; otherwise what
/// the disk says.
pub fn read_aborted(file: &dyn DiskFile) -> io::Result<Vec<AbortedTransaction>> {
    let len = file.len()?;
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    if !len.is_multiple_of(ENTRY_BYTES as u64) || len / ENTRY_BYTES as u64 > ENTRIES_MAX {
        return Err(invalid(format!("{len} bytes are no whole number of entries")));
    }
    let mut entries = Vec::new();
    let mut bytes = [0; ENTRY_BYTES];
    for number in 0..len / ENTRY_BYTES as u64 {
        disk::read_exact_at(file, &mut bytes, number * ENTRY_BYTES as u64)?;
        let decoded = decode(&bytes);
        entries.push(decoded.map_err(|version| {
            invalid(format!("entry {number} has version {version}, where only {VERSION} is known"))
        })?);
    }
    Ok(entries)
}

/// Reads one entry; an unknown version is the error.
fn decode(bytes: &[u8; ENTRY_BYTES]) -> Result<AbortedTransaction, i16> {
    let version = i16::from_be_bytes([bytes[0], bytes[1]]);
    if version != VERSION {
        return Err(version);
    }
    let field = |at: usize| {
        let mut value = [0; 8];
        value.copy_from_slice(&bytes[at..at + 8]);
        i64::from_be_bytes(value)
    };
    Ok(AbortedTransaction {
        producer_id: field(2),
        first_offset: field(10),
        last_offset: field(18),
        last_stable_offset: field(26),
    })
}

/// The entries of transactions that ended before `offset`; what does not make sense behind them is left out.
///
/// # Errors
/// What the disk says.
pub fn read_aborted_before(disk: &dyn Disk, path: &Path, offset: Offset) -> io::Result<Vec<AbortedTransaction>> {
    let file = disk.open(path, OpenMode::Read)?;
    let whole = file.len()? / ENTRY_BYTES as u64;
    let mut entries = Vec::new();
    for number in 0..whole.min(ENTRIES_MAX) {
        let mut bytes = [0; ENTRY_BYTES];
        disk::read_exact_at(&*file, &mut bytes, number * ENTRY_BYTES as u64)?;
        match decode(&bytes) {
            Ok(entry) if entry.last_offset < offset => entries.push(entry),
            _ => break,
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::fault::FaultDisk;

    #[test]
    fn entries_are_read_as_they_were_written_and_damage_is_refused() {
        let disk = FaultDisk::new(1);
        let file = disk.open(Path::new("/t"), OpenMode::CreateNew).unwrap();
        let entry = AbortedTransaction { producer_id: 1, first_offset: 2, last_offset: 30, last_stable_offset: 31 };
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        entry.encode(&mut bytes);
        assert_eq!(bytes.len(), 2 * ENTRY_BYTES);
        super::super::write(&*file, 0, &bytes).unwrap();
        assert_eq!(read_aborted(&*file).unwrap(), [entry, entry]);
        disk.flip(Path::new("/t"), 35, 1).unwrap();
        assert!(read_aborted(&*file).unwrap_err().to_string().contains("version 1"));
        file.set_len(40).unwrap();
        assert!(read_aborted(&*file).unwrap_err().to_string().contains("whole number"));
    }
}
