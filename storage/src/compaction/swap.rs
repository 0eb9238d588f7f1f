//! Putting a compacted segment in the place of those it was made from, so that a crash at any time leaves one or the other.
//!
//! The new files are written with the ending `.cleaned` and made durable. Then they are renamed to `.swap`, the batches
//! last: as soon as a `.log.swap` exists, the new segment counts. The old segments get the ending `.deleted`, and the new
//! files lose theirs. What a crash has interrupted is finished when the log is opened.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use taffrail_core::ids::Offset;

use crate::disk::{self, Disk, OpenMode};
use crate::names::{DELETED, FileKind, SEGMENT_FILES, SWAP, parse_segment_file, segment_path};
use crate::scan::{Scan, ScanError, WINDOW_LARGE_BYTES};

/// Renames all files of a segment from one ending to another, the batches last. Files that do not exist are left out.
pub(crate) fn rename_segment(disk: &dyn Disk, dir: &Path, base: Offset, from: &str, to: &str) -> io::Result<()> {
    for kind in SEGMENT_FILES.into_iter().rev() {
        match disk.rename(&segment_path(dir, base, kind, from), &segment_path(dir, base, kind, to)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Finishes what a crash has interrupted in the folder of a partition; tells whether there was anything.
pub(crate) fn finish_swaps(disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
    let mut logs: Vec<Offset> = Vec::new();
    let mut swaps: BTreeMap<Offset, bool> = BTreeMap::new();
    for entry in disk.list(dir)? {
        match parse_segment_file(&entry.name) {
            Some((base, FileKind::Log, "")) => logs.push(base),
            Some((base, kind, SWAP)) => *swaps.entry(base).or_default() |= kind == FileKind::Log,
            _ => {}
        }
    }
    let is_swapped = !swaps.is_empty();
    for (base, is_decided) in swaps {
        if is_decided {
            let end = end_of(disk, &segment_path(dir, base, FileKind::Log, SWAP))?.max(base + 1);
            for &old in logs.iter().filter(|&&old| old >= base && old < end) {
                rename_segment(disk, dir, old, "", DELETED)?;
            }
            rename_segment(disk, dir, base, SWAP, "")?;
        } else if logs.contains(&base) {
            // The old batches are still there and count; their indexes fit them.
            for kind in SEGMENT_FILES {
                disk::remove_if_exists(disk, &segment_path(dir, base, kind, SWAP))?;
            }
        } else {
            // The batches have their name already; only indexes were left to rename.
            rename_segment(disk, dir, base, SWAP, "")?;
        }
    }
    Ok(is_swapped)
}

/// The offset after the last record of a file of batches.
fn end_of(disk: &dyn Disk, path: &Path) -> io::Result<Offset> {
    let file = disk.open(path, OpenMode::Read)?;
    let mut scan = Scan::new(&*file, 0, file.len()?, WINDOW_LARGE_BYTES);
    let mut end = 0;
    loop {
        match scan.next() {
            Ok(Some(batch)) => end = batch.header.last_offset() + 1,
            Ok(None) => return Ok(end),
            Err(ScanError::Io(error)) => return Err(error),
            Err(error) => return Err(io::Error::other(format!("{}: {error}", path.display()))),
        }
    }
}
