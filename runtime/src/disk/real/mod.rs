//! The real file system.
//!
//! What only Linux can do sits in `linux.rs`; `portable.rs` beside it does the same with the standard library alone.
//! Both are built on Linux, where the tests run both.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use rustix::fs::{FlockOperation, flock, statvfs};

use super::{DirEntry, Disk, DiskFile, DiskLock, FileId, FileStat, OpenMode, Space, write_zeros};

#[cfg(target_os = "linux")]
mod linux;
mod portable;

#[cfg(target_os = "linux")]
pub use linux::LinuxCalls;
pub use portable::PortableCalls;

/// The calls in which platforms differ.
pub trait Calls: Send + Sync + 'static {
    /// One vectored write; see [`DiskFile::write_at`].
    fn write_at(file: &File, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize>;

    /// One read that does not wait for the device; see [`DiskFile::read_cached_at`].
    fn read_cached_at(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Takes room for a file without writing to it; an error of the kind [`io::ErrorKind::Unsupported`] where that cannot
    /// be done.
    fn allocate(file: &File, len: u64) -> io::Result<()>;

    /// Makes the content of a file durable.
    fn sync(file: &File) -> io::Result<()>;

    /// Whether a range is in memory; see [`DiskFile::is_cached`].
    fn is_cached(file: &File, position: u64, length: u64) -> Option<bool>;

    /// See [`DiskFile::disable_read_ahead`].
    fn disable_read_ahead(_file: &File) {}

    /// See [`DiskFile::prefetch`].
    fn prefetch(_file: &File, _position: u64, _length: u64) {}
}

/// The calls of the system that this was built for.
#[cfg(target_os = "linux")]
pub type NativeCalls = LinuxCalls;
/// The calls of the system that this was built for.
#[cfg(not(target_os = "linux"))]
pub type NativeCalls = PortableCalls;

/// The file system of the machine.
pub struct RealDisk<C = NativeCalls>(std::marker::PhantomData<fn() -> C>);

impl RealDisk {
    /// The disk of this system.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<C> Default for RealDisk<C> {
    fn default() -> Self {
        Self(std::marker::PhantomData)
    }
}

struct RealFile<C> {
    file: File,
    calls: std::marker::PhantomData<fn() -> C>,
}

impl<C: Calls> Disk for RealDisk<C> {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(mode != OpenMode::Read).create_new(mode == OpenMode::CreateNew);
        let file = options.open(path)?;
        Ok(Arc::new(RealFile::<C> { file, calls: std::marker::PhantomData }))
    }

    fn stat(&self, path: &Path) -> io::Result<FileStat> {
        let metadata = fs::metadata(path)?;
        let since = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(FileStat {
            len: metadata.len(),
            modified_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            id: FileId { device: metadata.dev(), number: metadata.ino() },
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            // A link is judged by its target, and one that leads nowhere is no directory.
            let is_dir = kind.is_dir() || (kind.is_symlink() && fs::metadata(entry.path()).is_ok_and(|m| m.is_dir()));
            entries.push(DirEntry { name: entry.file_name().to_string_lossy().into_owned(), is_dir });
        }
        Ok(entries)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        let stat = statvfs(dir)?;
        Ok(Space {
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
            available: stat.f_bavail.saturating_mul(stat.f_frsize),
        })
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<DiskLock> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                // The text only helps to name the holder; a lock file that cannot be read is still locked.
                let _ = (&file).take(HOLDER_BYTES_MAX).read_to_string(&mut text);
                return Err(io::Error::new(io::ErrorKind::WouldBlock, text.trim().to_owned()));
            }
            other => other?,
        }
        // The lock holds without its text, so a full disk does not keep the broker from starting.
        let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(holder.as_bytes()));
        if let Err(error) = written {
            tracing::warn!(file = %path.display(), %error, "the holder of the lock cannot be written down");
        }
        Ok(Box::new(file))
    }
}

/// Bytes of a lock file that are read to name its holder.
const HOLDER_BYTES_MAX: u64 = 256;

impl<C: Calls> DiskFile for RealFile<C> {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.file, buffer, position)
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        C::read_cached_at(&self.file, buffer, position)
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        C::write_at(&self.file, buffers, position)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match C::allocate(&self.file, len) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => write_zeros(self, len),
            allocated => allocated,
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        C::sync(&self.file)
    }

    fn is_cached(&self, position: u64, length: u64) -> Option<bool> {
        C::is_cached(&self.file, position, length)
    }

    fn disable_read_ahead(&self) {
        C::disable_read_ahead(&self.file);
    }

    fn prefetch(&self, position: u64, length: u64) {
        C::prefetch(&self.file, position, length);
    }

    fn as_file(&self) -> Option<&File> {
        Some(&self.file)
    }
}
