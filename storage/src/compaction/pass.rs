//! One pass over a log: a first part is read for its keys, and everything up to its end is written anew without the records
//! that a newer one of the same key has overtaken.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use taffrail_core::ids::Offset;
use taffrail_core::record::{BatchRef, Decompressor};

use super::filter::{Filter, Kept, decompressor};
use super::map::KeyMap;
use crate::disk::{self, Disk, DiskFile, OpenMode};
use crate::env::Env;
use crate::log::IndexBuilder;
use crate::names::{CLEANED, FileKind, SEGMENT_FILES, segment_path};
use crate::scan::{Located, Scan, ScanError, WINDOW_LARGE_BYTES};
use crate::segment::Segment;

/// Bytes that are collected before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// Why a pass ended early. The log is as it was before.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompactionError {
    /// The disk refused.
    #[error("{file}: {source}")]
    Io {
        /// Which file.
        file: String,
        /// What the disk said.
        source: io::Error,
    },
    /// A batch cannot be looked into. It and what lies around it stay as they are.
    #[error("{file}: the batch at position {position} cannot be compacted: {cause}")]
    Batch {
        /// Which file.
        file: String,
        /// Where the batch begins.
        position: u64,
        /// What is wrong with it.
        cause: String,
    },
    /// The log was cut or deleted meanwhile.
    #[error("the log changed meanwhile")]
    Changed,
}

/// A segment that was written anew and waits to take the place of others.
pub(crate) struct Cleaned {
    pub(crate) base_offset: Offset,
    /// The segments it was made from.
    pub(crate) sources: Vec<Arc<Segment>>,
    pub(crate) size: u32,
}

/// What is needed for a pass.
pub(super) struct Pass<'a> {
    pub(super) env: &'a Env,
    pub(super) dir: &'a Path,
    pub(super) interval_bytes: u32,
    /// Last offsets of producers that may still write: their last batch stays, if only empty.
    pub(super) producers: &'a [Offset],
}

fn failed(path: &Path) -> impl Fn(io::Error) -> CompactionError + '_ {
    move |source| CompactionError::Io { file: path.display().to_string(), source }
}

impl Pass<'_> {
    /// Reads the keys of `segments` from `from` on into the map; gives the offset up to which there was room.
    pub(super) fn fill(
        &self,
        segments: &[Arc<Segment>],
        from: Offset,
        map: &mut KeyMap,
    ) -> Result<Offset, CompactionError> {
        let mut decompressor = decompressor();
        let mut reached = from;
        for (at, segment) in segments.iter().enumerate() {
            let filled = self.each_batch(segment, &mut decompressor, |batch, located, decompressor| {
                let header = &located.header;
                if header.last_offset() < from || header.is_control() || header.is_transactional() {
                    return Ok(true);
                }
                for record in batch.records(decompressor).map_err(|error| error.to_string())? {
                    let record = record.map_err(|error| error.to_string())?;
                    if record.offset >= from
                        && let Some(key) = record.key
                        && !map.put(key, record.offset)
                    {
                        return Ok(false);
                    }
                }
                reached = header.last_offset() + 1;
                Ok(true)
            })?;
            if !filled {
                return Ok(reached);
            }
            reached = segments.get(at + 1).map_or(reached, |next| next.base_offset);
        }
        Ok(reached)
    }

    /// Writes `sources` anew, into files with the ending `.cleaned`.
    pub(super) fn clean(
        &self,
        sources: &[Arc<Segment>],
        filter: &Filter<'_>,
        end_offset: Offset,
    ) -> Result<Cleaned, CompactionError> {
        let Some(first) = sources.first() else { return Err(CompactionError::Changed) };
        let base_offset = first.base_offset;
        for kind in SEGMENT_FILES {
            let path = segment_path(self.dir, base_offset, kind, CLEANED);
            disk::remove_if_exists(&*self.env.disk, &path).map_err(failed(&path))?;
        }
        let path = segment_path(self.dir, base_offset, FileKind::Log, CLEANED);
        let file = self.env.disk.open(&path, OpenMode::CreateNew).map_err(failed(&path))?;
        let mut target = Target::new(&*file, base_offset, self.interval_bytes);
        let mut decompressor = decompressor();
        for segment in sources {
            self.each_batch(segment, &mut decompressor, |batch, located, decompressor| {
                let last_offset = located.header.last_offset();
                // Readers wait for the position after the last batch, so that one always stays.
                let must_stay = last_offset + 1 == end_offset || self.producers.binary_search(&last_offset).is_ok();
                match filter.apply(batch, decompressor, must_stay)? {
                    Kept::Nothing => {}
                    Kept::Whole => target.push(batch.bytes()).map_err(|error| error.to_string())?,
                    Kept::Rebuilt(bytes) => target.push(&bytes).map_err(|error| error.to_string())?,
                }
                Ok(true)
            })?;
        }
        let size = target.finish().map_err(failed(&path))?;
        let builder = target.builder;
        file.sync().map_err(failed(&path))?;
        builder.write_with_ending(self.env, self.dir, CLEANED).map_err(failed(&path))?;
        self.copy_aborted(sources, base_offset)?;
        Ok(Cleaned { base_offset, sources: sources.to_vec(), size })
    }

    /// The aborted transactions of all sources, one after the other.
    fn copy_aborted(&self, sources: &[Arc<Segment>], base_offset: Offset) -> Result<(), CompactionError> {
        let mut bytes = Vec::new();
        for segment in sources {
            let path = segment.path(FileKind::TxnIndex);
            match disk::read_file(&*self.env.disk, &path, u64::from(u32::MAX)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => bytes.extend_from_slice(&other.map_err(failed(&path))?),
            }
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let path = segment_path(self.dir, base_offset, FileKind::TxnIndex, CLEANED);
        let file = self.env.disk.open(&path, OpenMode::CreateNew).map_err(failed(&path))?;
        disk::write_all_at(&*file, &mut [IoSlice::new(&bytes)], 0).and_then(|()| file.sync()).map_err(failed(&path))
    }

    /// Gives every batch of a segment, with its checksum compared, to `visit`, until that says false.
    fn each_batch(
        &self,
        segment: &Arc<Segment>,
        decompressor: &mut Decompressor,
        mut visit: impl FnMut(BatchRef<'_>, &Located, &mut Decompressor) -> Result<bool, String>,
    ) -> Result<bool, CompactionError> {
        let path = segment.path(FileKind::Log);
        let broken =
            |position: u64, cause: String| CompactionError::Batch { file: path.display().to_string(), position, cause };
        let file = segment.open(self.env, FileKind::Log).map_err(failed(&path))?;
        let mut scan = Scan::new(&*file, 0, u64::from(segment.size()), WINDOW_LARGE_BYTES);
        let mut buffer = Vec::new();
        let fault = |error: ScanError| match error {
            ScanError::Io(error) => failed(&path)(error),
            ScanError::Invalid { position, cause } => broken(position, cause),
        };
        while let Some(located) = scan.next().map_err(fault)? {
            // The checksum is compared before memory is taken for a length that could be damaged.
            scan.verify(&located).map_err(fault)?;
            buffer.resize(located.header.total_bytes(), 0);
            disk::read_exact_at(&*file, &mut buffer, located.position).map_err(failed(&path))?;
            let batch = BatchRef::parse(&buffer).map_err(|error| broken(located.position, error.to_string()))?;
            if !visit(batch, &located, decompressor).map_err(|cause| broken(located.position, cause))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The file that a pass writes.
struct Target<'a> {
    file: &'a dyn DiskFile,
    builder: IndexBuilder,
    buffer: Vec<u8>,
    written: u64,
}

impl<'a> Target<'a> {
    fn new(file: &'a dyn DiskFile, base_offset: Offset, interval_bytes: u32) -> Self {
        let builder = IndexBuilder::empty(base_offset, interval_bytes);
        Self { file, builder, buffer: Vec::new(), written: 0 }
    }

    fn push(&mut self, batch: &[u8]) -> io::Result<()> {
        let position = self.written + self.buffer.len() as u64;
        let header = *BatchRef::parse(batch).map_err(|error| io::Error::other(error.to_string()))?.header();
        self.builder.add(&Located { position, header });
        self.buffer.extend_from_slice(batch);
        if self.buffer.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        disk::write_all_at(self.file, &mut [IoSlice::new(&self.buffer)], self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn finish(&mut self) -> io::Result<u32> {
        self.write()?;
        self.builder.push_largest();
        u32::try_from(self.written).map_err(|_| io::Error::other("a compacted segment is too large"))
    }
}

/// Removes what a pass that ended early has written.
pub(super) fn remove_cleaned(disk: &dyn Disk, dir: &Path, base_offset: Offset) {
    let paths: Vec<PathBuf> =
        SEGMENT_FILES.into_iter().map(|kind| segment_path(dir, base_offset, kind, CLEANED)).collect();
    for path in paths {
        if let Err(error) = disk::remove_if_exists(disk, &path) {
            tracing::warn!(file = %path.display(), %error, "an unfinished file of compaction is not removed");
        }
    }
}
