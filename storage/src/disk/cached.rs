//! Files as far as they are in memory.

use std::fs::File;
use std::io::{self, IoSlice};
use std::sync::Arc;

use super::DiskFile;

/// Who may be asked for what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The disk, which may take its time.
    Disk,
    /// Files that are open, as far as they are in memory.
    Memory,
}

impl Access {
    /// `file`, as it may be read.
    pub(crate) fn over(self, file: &Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        match self {
            Self::Disk => Arc::clone(file),
            Self::Memory => Arc::new(Cached(Arc::clone(file))),
        }
    }
}

/// A file that is only read, and never waited for: what is not in memory is [`io::ErrorKind::WouldBlock`].
struct Cached(Arc<dyn DiskFile>);

impl DiskFile for Cached {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_cached_at(buffer, position)
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_cached_at(buffer, position)
    }

    fn write_at(&self, _buffers: &[IoSlice<'_>], _position: u64) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn is_cached(&self, position: u64, length: u64) -> Option<bool> {
        self.0.is_cached(position, length)
    }

    fn as_file(&self) -> Option<&File> {
        self.0.as_file()
    }
}
