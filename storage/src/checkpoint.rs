//! Kafka's checkpoint files: text with a version, a count, and one line for each entry.
//!
//! `recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`, `replication-offset-checkpoint` and
//! `cleaner-offset-checkpoint` keep an offset for each partition; `leader-epoch-checkpoint` keeps the first offset of each
//! leader epoch of one partition.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::Path;

use taffrail_core::ids::{LeaderEpoch, Offset, TopicPartition};

use crate::disk::{self, Disk};

/// The only version there is.
const VERSION: &str = "0";

/// Largest checkpoint file that is read: more than a million partitions.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// Up to where each partition is known to be on disk.
pub const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
/// First readable offset of partitions where it is not that of their first segment.
pub const LOG_STARTS: &str = "log-start-offset-checkpoint";
/// High watermarks.
pub const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";
/// Up to where compacted partitions are clean.
pub const CLEANER: &str = "cleaner-offset-checkpoint";

/// Before which offset the segments of a partition need not follow each other without a gap, because compaction has been
/// there. Ours, in Kafka's format; Kafka leaves files alone that it does not know.
pub const GAPS: &str = "taffrail-gap-checkpoint";

/// Why a checkpoint file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The disk refused.
    #[error("{file}: {source}")]
    Io {
        /// Which file.
        file: String,
        /// What the disk said.
        source: io::Error,
    },
    /// The content is none that we or Kafka write.
    #[error("{file}: line {line}: {what}")]
    Malformed {
        /// Which file.
        file: String,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

/// Reads offsets by partition; a file that does not exist is an empty one.
///
/// # Errors
/// When the file cannot be read or is malformed.
pub fn read_offsets(disk: &dyn Disk, path: &Path) -> Result<BTreeMap<TopicPartition, Offset>, CheckpointError> {
    read(disk, path, |line| {
        let mut fields = line.split(' ');
        let topic = fields.next().filter(|topic| !topic.is_empty())?;
        let partition = fields.next()?.parse().ok()?;
        let offset = fields.next()?.parse().ok()?;
        fields.next().is_none().then(|| (TopicPartition::new(topic, partition), offset))
    })
    .map(|entries| entries.into_iter().collect())
}

/// Writes offsets by partition, durably.
///
/// # Errors
/// When the disk refuses; the old content is then still there.
pub fn write_offsets<'a>(
    disk: &dyn Disk,
    path: &Path,
    offsets: impl ExactSizeIterator<Item = (&'a TopicPartition, Offset)>,
) -> io::Result<()> {
    let mut text = format!("{VERSION}\n{}\n", offsets.len());
    for (partition, offset) in offsets {
        let _ = writeln!(text, "{} {} {offset}", partition.topic, partition.partition);
    }
    disk::replace_file(disk, path, text.as_bytes())
}

/// Reads the first offset of each leader epoch; a file that does not exist is an empty one.
///
/// # Errors
/// When the file cannot be read or is malformed.
pub fn read_epochs(disk: &dyn Disk, path: &Path) -> Result<Vec<(LeaderEpoch, Offset)>, CheckpointError> {
    read(disk, path, |line| {
        let (epoch, offset) = line.split_once(' ')?;
        Some((epoch.parse().ok()?, offset.parse().ok()?))
    })
}

/// Writes the first offset of each leader epoch, durably.
///
/// # Errors
/// When the disk refuses; the old content is then still there.
pub fn write_epochs(
    disk: &dyn Disk,
    path: &Path,
    epochs: impl ExactSizeIterator<Item = (LeaderEpoch, Offset)>,
) -> io::Result<()> {
    let mut text = format!("{VERSION}\n{}\n", epochs.len());
    for (epoch, offset) in epochs {
        let _ = writeln!(text, "{epoch} {offset}");
    }
    disk::replace_file(disk, path, text.as_bytes())
}

fn read<T>(disk: &dyn Disk, path: &Path, parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, CheckpointError> {
    let file = || path.display().to_string();
    let bytes = match disk::read_file(disk, path, FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(CheckpointError::Io { file: file(), source }),
    };
    let malformed = |line: usize, what: &str| CheckpointError::Malformed { file: file(), line, what: what.to_owned() };
    let text = std::str::from_utf8(&bytes).map_err(|_| malformed(1, "not text"))?;
    let mut lines = text.lines();
    match lines.next() {
        Some(VERSION) => {}
        Some(other) if other.parse::<u32>().is_ok() => {
            return Err(malformed(1, &format!("version {other} is newer than {VERSION}, the newest known here")));
        }
        _ => return Err(malformed(1, "no version")),
    }
    let count: usize = lines.next().and_then(|line| line.parse().ok()).ok_or_else(|| malformed(2, "no count"))?;
    // The count is not trusted for memory, only compared.
    let mut entries = Vec::new();
    for (index, line) in lines.enumerate() {
        entries.push(parse(line).ok_or_else(|| malformed(index + 3, "not an entry"))?);
    }
    if entries.len() != count {
        return Err(malformed(2, &format!("{count} entries are announced, {} follow", entries.len())));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::fault::FaultDisk;

    fn write(disk: &FaultDisk, text: &str) {
        disk.create_dir(Path::new("/d")).unwrap();
        disk::replace_file(disk, Path::new("/d/c"), text.as_bytes()).unwrap();
    }

    #[test]
    fn offsets_are_written_as_kafka_writes_them() {
        let disk = FaultDisk::new(1);
        disk.create_dir(Path::new("/d")).unwrap();
        let offsets = BTreeMap::from([(TopicPartition::new("a.b", 3), 7), (TopicPartition::new("c", 0), i64::MAX)]);
        write_offsets(&disk, Path::new("/d/c"), offsets.iter().map(|(partition, offset)| (partition, *offset)))
            .unwrap();
        assert_eq!(disk.content(Path::new("/d/c")).unwrap(), b"0\n2\na.b 3 7\nc 0 9223372036854775807\n");
        assert_eq!(read_offsets(&disk, Path::new("/d/c")).unwrap(), offsets);
    }

    #[test]
    fn epochs_are_written_as_kafka_writes_them() {
        let disk = FaultDisk::new(1);
        disk.create_dir(Path::new("/d")).unwrap();
        write_epochs(&disk, Path::new("/d/c"), [(0, 0), (4, 120)].into_iter()).unwrap();
        assert_eq!(disk.content(Path::new("/d/c")).unwrap(), b"0\n2\n0 0\n4 120\n");
        assert_eq!(read_epochs(&disk, Path::new("/d/c")).unwrap(), [(0, 0), (4, 120)]);
    }

    #[test]
    fn a_missing_file_is_an_empty_one() {
        assert!(read_offsets(&FaultDisk::new(1), Path::new("/d/c")).unwrap().is_empty());
    }

    #[test]
    fn damage_and_newer_versions_are_refused_with_the_line() {
        let disk = FaultDisk::new(1);
        for (text, line, what) in [
            ("", 1, "no version"),
            ("1\n0\n", 1, "newer"),
            ("0\nmany\n", 2, "count"),
            ("0\n2\na 0 1\n", 2, "2 entries are announced, 1 follow"),
            ("0\n1\na 0\n", 3, "not an entry"),
            ("0\n1\na 0 1 2\n", 3, "not an entry"),
        ] {
            write(&disk, text);
            let error = read_offsets(&disk, Path::new("/d/c")).unwrap_err().to_string();
            assert!(error.contains(&format!("line {line}")) && error.contains(what), "{text:?}: {error}");
        }
    }
}
