//! The mark of a clean stop: how each log ended. With it, a start looks into no log at all.
//!
//! The mark is removed, durably, before anything is written, so it never stands for an older state. Kafka's own mark is
//! written beside it, so that Kafka, too, would find a directory that was closed cleanly.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::Path;

use taffrail_core::ids::{Offset, TopicPartition};

use crate::disk::{self, Disk};

/// Name of our mark.
const MARK: &str = "taffrail-clean-stop";

/// Name of Kafka's mark.
const KAFKA_MARK: &str = ".kafka_cleanshutdown";

/// What Kafka's mark says; -1 = no broker epoch.
const KAFKA_MARK_TEXT: &str = "{\"version\":0,\"brokerEpoch\":-1}";

/// First line of our mark: its version.
const VERSION: &str = "1";

/// Largest mark that is read.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// How a log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) end_offset: Offset,
    pub(crate) active_base: Offset,
    pub(crate) active_size: u32,
}

/// How all logs ended.
pub(crate) type Marks = BTreeMap<TopicPartition, Mark>;

/// Reads the marks and removes them, durably. A mark that is not understood is as good as none.
pub(crate) fn take(disk: &dyn Disk, dir: &Path) -> io::Result<Marks> {
    let path = dir.join(MARK);
    let marks = match disk::read_file(disk, &path, FILE_BYTES_MAX) {
        Ok(bytes) => parse(&bytes).unwrap_or_else(|| {
            tracing::warn!(file = %path.display(), "the mark of the clean stop is not understood");
            Marks::new()
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Marks::new(),
        Err(error) => return Err(error),
    };
    disk::remove_if_exists(disk, &path)?;
    disk::remove_if_exists(disk, &dir.join(KAFKA_MARK))?;
    disk.sync_dir(dir)?;
    Ok(marks)
}

/// Writes the marks, durably.
pub(crate) fn write(disk: &dyn Disk, dir: &Path, marks: &Marks) -> io::Result<()> {
    let mut text = format!("{VERSION}\n{}\n", marks.len());
    for (partition, mark) in marks {
        let Mark { end_offset, active_base, active_size } = mark;
        let _ = writeln!(text, "{} {} {end_offset} {active_base} {active_size}", partition.topic, partition.partition);
    }
    disk::replace_file(disk, &dir.join(MARK), text.as_bytes())?;
    disk::replace_file(disk, &dir.join(KAFKA_MARK), KAFKA_MARK_TEXT.as_bytes())
}

fn parse(bytes: &[u8]) -> Option<Marks> {
    let mut lines = std::str::from_utf8(bytes).ok()?.lines();
    if lines.next()? != VERSION {
        return None;
    }
    let count: usize = lines.next()?.parse().ok()?;
    let mut marks = Marks::new();
    for line in lines {
        let mut fields = line.split(' ');
        let topic = fields.next()?;
        let partition = fields.next()?.parse().ok()?;
        let end_offset = fields.next()?.parse().ok()?;
        let active_base = fields.next()?.parse().ok()?;
        let active_size = fields.next()?.parse().ok()?;
        marks.insert(TopicPartition::new(topic, partition), Mark { end_offset, active_base, active_size });
    }
    (marks.len() == count).then_some(marks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::fault::FaultDisk;

    #[test]
    fn marks_are_read_once_and_are_gone_then_also_after_a_crash() {
        let disk = FaultDisk::new(1);
        let dir = Path::new("/d");
        disk.create_dir(dir).unwrap();
        let mark = Mark { end_offset: 30_003, active_base: 29_301, active_size: 147_393 };
        let marks = Marks::from([(TopicPartition::new("a.b", 0), mark)]);
        write(&disk, dir, &marks).unwrap();
        assert_eq!(disk.content(&dir.join(KAFKA_MARK)).unwrap(), KAFKA_MARK_TEXT.as_bytes());
        disk.crash();
        assert_eq!(take(&disk, dir).unwrap(), marks);
        disk.crash();
        assert_eq!(take(&disk, dir).unwrap(), Marks::new());
    }

    #[test]
    fn a_mark_that_is_not_understood_is_none() {
        let disk = FaultDisk::new(1);
        let dir = Path::new("/d");
        disk.create_dir(dir).unwrap();
        for text in ["", "2\n0\n", "1\n1\n", "1\n1\na 0 1 2\n", "1\nx\n"] {
            disk::replace_file(&disk, &dir.join(MARK), text.as_bytes()).unwrap();
            assert_eq!(take(&disk, dir).unwrap(), Marks::new(), "{text:?}");
        }
    }
}
