//! The batches of a `.log` file. Behind damage it goes on with the next batch that is sound.

use std::io;

use taffrail_core::record::BatchRef;

use super::{Dumped, Visit};
use crate::disk::{self, DiskFile};
use crate::scan::{Located, Scan, ScanError, WINDOW_LARGE_BYTES, find_valid_batch};

/// Largest batch that is read as a whole, for its records.
const BATCH_BYTES_MAX: usize = 256 << 20;

pub(super) fn dump(file: &dyn DiskFile, with_records: bool, visit: &mut Visit<'_>) -> io::Result<()> {
    let limit = file.len()?;
    let (mut from, mut next_offset) = (0, 0);
    while from < limit {
        let mut scan = Scan::new(file, from, limit, WINDOW_LARGE_BYTES);
        let damage = loop {
            let batch = match scan.next() {
                Ok(Some(batch)) => batch,
                Ok(None) => return Ok(()),
                Err(error) => break error,
            };
            if let Err(error) = scan.verify(&batch) {
                break error;
            }
            if batch.header.base_offset < next_offset {
                let what = format!(
                    "a batch with offset {}, behind one that ends before {next_offset}",
                    batch.header.base_offset
                );
                if visit(Dumped::Damage { position: batch.position, what }).is_break() {
                    return Ok(());
                }
            }
            next_offset = batch.header.last_offset().saturating_add(1);
            if show(file, &batch, with_records, visit)? {
                return Ok(());
            }
        };
        let (position, cause) = match damage {
            ScanError::Io(error) => return Err(error),
            ScanError::Invalid { position, cause } => (position, cause),
        };
        let sound = find_valid_batch(file, position + 1, limit, next_offset)?;
        let rest = match &sound {
            Some(batch) => format!("the next sound batch is at {}", batch.position),
            None => format!("no sound batch follows in the {} bytes from here on", limit - position),
        };
        if visit(Dumped::Damage { position, what: format!("{cause}; {rest}") }).is_break() {
            return Ok(());
        }
        from = sound.map_or(limit, |batch| batch.position);
    }
    Ok(())
}

/// Shows a sound batch; whether that was enough.
fn show(file: &dyn DiskFile, located: &Located, with_records: bool, visit: &mut Visit<'_>) -> io::Result<bool> {
    let Located { position, header } = *located;
    let mut bytes = Vec::new();
    if with_records && header.total_bytes() <= BATCH_BYTES_MAX {
        bytes.resize(header.total_bytes(), 0);
        disk::read_exact_at(file, &mut bytes, position)?;
    }
    let batch = BatchRef::parse(&bytes).ok();
    Ok(visit(Dumped::Batch { position, header, batch }).is_break())
}
