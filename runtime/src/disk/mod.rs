//! The seam to the disk.
//!
//! Everything that is done to partitions' files goes through [`Disk`] and [`DiskFile`], and so do a controller's files when
//! it runs in simulation: one set of tests runs against the real file system and against [`fault::FaultDisk`], which loses,
//! tears and refuses writes on request.
//!
//! # Contract
//! Every implementation keeps these promises, and the suite in `disk/conformance.rs` checks each of them:
//! - A write is seen by every later read through any handle of the same file, also after the path was renamed or removed.
//! - A write may be short: the count tells how many bytes, from the first on, were taken. Zero with bytes left is not
//!   returned; a full disk is [`io::ErrorKind::StorageFull`], and what was taken before it stays in the file.
//! - After [`DiskFile::sync`] returned without an error, all bytes and the length at the time of the call survive a crash.
//!   After it returned an error, nothing is known about any byte written since the last good sync, and syncing again
//!   proves nothing: the caller must treat the directory as lost for writing.
//! - Creating, renaming and removing survive a crash after [`Disk::sync_dir`] of the directory concerned (for a rename
//!   across directories: of both); before that, a crash may undo the newest of them, never an older one alone.
//! - [`Disk::rename`] replaces the target in one step: after a crash the name leads to the old or to the new file.
//! - A handle that is dropped loses nothing that was written through it.

use std::any::Any;
use std::fs::File;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

#[cfg(test)]
mod conformance;
pub mod fault;
pub mod real;

/// Room that appends leave, or an eighth of a small volume.
const FLOOR_BYTES_MAX: u64 = 16 << 20;

/// Room below which a volume counts as nearly full, or a tenth of a small one; at least twice the floor.
const LOW_BYTES_MAX: u64 = 1 << 30;

/// How a file is opened. Nothing ever truncates a file by opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Only reading; the file must exist.
    Read,
    /// Reading and writing; the file must exist.
    Write,
    /// Reading and writing; the file must not exist yet.
    CreateNew,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The last component of the path; what is not Unicode in it is replaced, so such a name matches nothing of ours.
    pub name: String,
    /// Whether it is a directory (links are followed).
    pub is_dir: bool,
}

/// What the disk knows about a file without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Length in bytes.
    pub len: u64,
    /// Last change of the content, in milliseconds since 1970.
    pub modified_ms: i64,
    /// Which file it is, whatever its name.
    pub id: FileId,
}

/// Tells a file from all others that exist at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// Number of the device.
    pub device: u64,
    /// Number of the file on it.
    pub number: u64,
}

/// Room on the volume of a directory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Size of the volume.
    pub total: u64,
    /// What an unprivileged process may still write.
    pub available: u64,
}

impl Space {
    /// Bytes that appends leave free.
    pub fn floor(&self) -> u64 {
        FLOOR_BYTES_MAX.min(self.total / 8)
    }

    /// Whether the room is about to run out: time to act before a write is refused.
    pub fn is_low(&self) -> bool {
        self.available < LOW_BYTES_MAX.min(self.total / 10).max(2 * self.floor())
    }
}

/// A lock that ends when this is dropped, or with the process.
pub type DiskLock = Box<dyn Any + Send + Sync>;

/// A file system below one data directory. See the module for the contract.
pub trait Disk: Send + Sync + 'static {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;

    /// Length and time of change of a file.
    fn stat(&self, path: &Path) -> io::Result<FileStat>;

    /// The names in a directory, in no special order.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;

    /// Makes a directory and those above it that do not exist. An existing one is no error.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Moves a file or a directory to another name on the same volume; a file that has the new name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory with all that is in it.
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// How much room the volume of `dir` has.
    fn space(&self, dir: &Path) -> io::Result<Space>;

    /// Takes the lock that `path` stands for, making the file if needed, and writes `holder` into it.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when another process (or another lock in this one) has it; the file's content,
    /// which can be read, then is what that holder wrote.
    fn lock(&self, path: &Path, holder: &str) -> io::Result<DiskLock>;
}

/// An open file. Positions are explicit, so a handle is shared without a lock.
pub trait DiskFile: Send + Sync {
    /// Reads at most `buffer.len()` bytes from `position` on; 0 = at or past the end.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// The same for what is in memory.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when the device would have to be asked.
    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes the buffers one after the other from `position` on; tells how many bytes were taken.
    fn write_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize>;

    /// Cuts the file, or fills it with zeros, to `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes an empty file `len` zeros long and takes the room for them on the volume, which a hole would not. What was
    /// taken is durable no earlier than other bytes.
    fn allocate(&self, len: u64) -> io::Result<()> {
        write_zeros(self, len)
    }

    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Makes the content durable (fdatasync).
    fn sync(&self) -> io::Result<()>;

    /// Whether a range can be read without waiting for the device; `None` = unknown.
    fn is_cached(&self, position: u64, length: u64) -> Option<bool>;

    /// From now on a read brings in what it asks for and nothing beyond. Otherwise a read of what is in memory may start to
    /// read ahead, and wait until others give up memory for that.
    fn disable_read_ahead(&self) {}

    /// Begins to bring a range into memory, and waits for room in memory at most; only for threads that may wait.
    fn prefetch(&self, _position: u64, _length: u64) {}

    /// The file of the operating system behind this one, for `sendfile`; `None` when there is none.
    fn as_file(&self) -> Option<&File>;
}

/// Fills the whole `buffer` from `position` on.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] when the file ends before; otherwise what the disk says.
pub fn read_exact_at(file: &dyn DiskFile, buffer: &mut [u8], position: u64) -> io::Result<()> {
    let read = read_up_to(file, buffer, position)?;
    if read < buffer.len() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!(
                "the file ends at {} where {} bytes from {position} on were expected",
                position + read as u64,
                buffer.len()
            ),
        ));
    }
    Ok(())
}

/// Reads from `position` on until `buffer` is full or the file ends; tells how many bytes.
///
/// # Errors
/// What the disk says.
pub fn read_up_to(file: &dyn DiskFile, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], position + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Writes all `buffers` from `position` on, however short the single writes are.
///
/// # Errors
/// What the disk says; part of the bytes may then be in the file.
pub fn write_all_at(file: &dyn DiskFile, mut buffers: &mut [IoSlice<'_>], mut position: u64) -> io::Result<()> {
    IoSlice::advance_slices(&mut buffers, 0);
    while !buffers.is_empty() {
        match file.write_at(&buffers[..buffers.len().min(IOVECS_MAX)], position) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                position += count as u64;
                IoSlice::advance_slices(&mut buffers, count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Takes room for `len` bytes by writing them.
fn write_zeros(file: &(impl DiskFile + ?Sized), len: u64) -> io::Result<()> {
    let zeros = vec![0; len.min(ZEROS_BYTES_MAX) as usize];
    let mut position = 0;
    while position < len {
        let rest = &zeros[..(len - position).min(ZEROS_BYTES_MAX) as usize];
        position += file.write_at(&[IoSlice::new(rest)], position)? as u64;
    }
    Ok(())
}

/// Zeros that are written at once where room can only be taken by writing.
const ZEROS_BYTES_MAX: u64 = 1 << 20;

/// Buffers that one vectored write takes; the kernel's own limit.
const IOVECS_MAX: usize = 1024;

/// The whole content of a file of at most `max_bytes`.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] when the file is larger; otherwise what the disk says.
pub fn read_file(disk: &dyn Disk, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = disk.open(path, OpenMode::Read)?;
    let len = file.len()?;
    if len > max_bytes {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{len} bytes, where at most {max_bytes} are expected"),
        ));
    }
    let mut content = vec![0; len as usize];
    let read = read_up_to(&*file, &mut content, 0)?;
    content.truncate(read);
    Ok(content)
}

/// Puts `content` at `path` so that a crash at any time leaves the old content or the new, never a part: as Kafka does,
/// through `<path>.tmp`, which is synced and then renamed.
///
/// # Errors
/// What the disk says; the old content is then still there.
pub fn replace_file(disk: &dyn Disk, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = Path::new(&name);
    match disk.remove_file(temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.open(temporary, OpenMode::CreateNew)?;
    let written = write_all_at(&*file, &mut [IoSlice::new(content)], 0).and_then(|()| file.sync());
    drop(file);
    if let Err(error) = written.and_then(|()| disk.rename(temporary, path)) {
        // A full disk must not also keep the part that was written.
        let _ = disk.remove_file(temporary);
        return Err(error);
    }
    match path.parent() {
        Some(parent) => disk.sync_dir(parent),
        None => Ok(()),
    }
}

/// Removes a file; one that does not exist is no error.
///
/// # Errors
/// What the disk says.
pub fn remove_if_exists(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::Space;

    #[test]
    fn a_volume_is_low_before_appends_are_refused() {
        for total in [64 << 20, 10 << 30, 4 << 40] {
            let at = |available| Space { total, available };
            assert!(at(at(0).floor()).is_low());
            assert!(at(at(0).floor() * 2 - 1).is_low());
            assert!(!at(total / 2).is_low());
        }
    }
}
