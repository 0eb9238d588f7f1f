//! The sparse indexes of a segment. Kafka makes room for more entries while it runs, which are zeros and say nothing.

use std::io;
use std::ops::ControlFlow;

use taffrail_core::ids::Offset;

use super::{Dumped, Visit};
use crate::disk::{self, DiskFile};
use crate::index::{Entry, OffsetEntry, TimeEntry};
use crate::scan::{Scan, WINDOW_SMALL_BYTES};

/// Entries that are read at once.
const BLOCK_ENTRIES: u64 = 1_024;

/// The entries of `.index` of the segment at `base`, each compared with the batch that it points to in `log`, if that is there.
pub(super) fn positions(
    file: &dyn DiskFile,
    base: Offset,
    log: Option<&dyn DiskFile>,
    visit: &mut Visit<'_>,
) -> io::Result<()> {
    walk::<OffsetEntry>(file, visit, |at, entry, visit| {
        let offset = base.saturating_add(entry.relative_offset.into());
        if let Some(what) = log.and_then(|log| mistake(log, offset, u64::from(entry.position)))
            && visit(Dumped::Damage { position: at, what }).is_break()
        {
            return ControlFlow::Break(());
        }
        visit(Dumped::Position { offset, position: entry.position })
    })
}

/// The entries of `.timeindex` of the segment at `base`.
pub(super) fn times(file: &dyn DiskFile, base: Offset, visit: &mut Visit<'_>) -> io::Result<()> {
    walk::<TimeEntry>(file, visit, |_, entry, visit| {
        let offset = base.saturating_add(entry.relative_offset.into());
        visit(Dumped::Time { timestamp: entry.timestamp, offset })
    })
}

/// What is wrong with an entry by which a batch that ends with `offset` begins at `position`.
fn mistake(log: &dyn DiskFile, offset: Offset, position: u64) -> Option<String> {
    let points = format!("the entry for offset {offset} points to {position}");
    let limit = match log.len() {
        Ok(limit) => limit,
        Err(error) => return Some(format!("{points}, and the log cannot be read: {error}")),
    };
    match Scan::new(log, position, limit, WINDOW_SMALL_BYTES).next() {
        Ok(Some(batch)) if batch.header.last_offset() == offset => None,
        Ok(Some(batch)) => Some(format!("{points}, where a batch ends with offset {}", batch.header.last_offset())),
        Ok(None) => Some(format!("{points}, and the log ends at {limit}")),
        Err(error) => Some(format!("{points}: {error}")),
    }
}

/// Shows the entries of a file one after the other, with their places, until one does not follow the one before it.
fn walk<E: Entry>(
    file: &dyn DiskFile,
    visit: &mut Visit<'_>,
    mut show: impl FnMut(u64, &E, &mut Visit<'_>) -> ControlFlow<()>,
) -> io::Result<()> {
    let (len, size) = (file.len()?, E::BYTES as u64);
    let mut previous: Option<E> = None;
    let mut at = 0;
    while at + size <= len {
        let mut block = vec![0; (BLOCK_ENTRIES.min((len - at) / size) * size) as usize];
        disk::read_exact_at(file, &mut block, at)?;
        for bytes in block.chunks_exact(E::BYTES) {
            if bytes.iter().all(|byte| *byte == 0) {
                return Ok(());
            }
            let entry = E::decode(bytes);
            if previous.is_some_and(|previous| !entry.follows(&previous)) {
                let what = format!("entry {} does not follow the one before it", at / size);
                let _ = visit(Dumped::Damage { position: at, what });
                return Ok(());
            }
            if show(at, &entry, visit).is_break() {
                return Ok(());
            }
            previous = Some(entry);
            at += size;
        }
    }
    if at < len {
        let what = format!("{} bytes, which are no whole entry", len - at);
        let _ = visit(Dumped::Damage { position: at, what });
    }
    Ok(())
}
