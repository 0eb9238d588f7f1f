//! The mark of a clean stop: how each log ended. With it, a start looks into no log at all.
//!
//! The mark is removed, durably, before anything is written, so it never stands for an older state. It names all segments
//! with their sizes: a file that somebody takes away between the stop and the start is missed by name, also from the middle
//! of a log, where nothing else would tell. Kafka's own mark is written beside it, so that Kafka, too, would find a directory
//! that was closed cleanly. Kafka takes its mark away when it starts; ours counts only while that is there as we wrote it.

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
const VERSION: &str = "2";

/// Largest mark that is read.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// How a log ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) end_offset: Offset,
    /// All segments in order, the active one last.
    pub(crate) segments: Vec<MarkedSegment>,
}

/// A segment as the stop left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MarkedSegment {
    pub(crate) base_offset: Offset,
    pub(crate) bytes: u32,
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
    let kafka_mark = dir.join(KAFKA_MARK);
    let is_ours =
        disk::read_file(disk, &kafka_mark, FILE_BYTES_MAX).is_ok_and(|text| text == KAFKA_MARK_TEXT.as_bytes());
    let marks = if is_ours { marks } else { Marks::new() };
    disk::remove_if_exists(disk, &path)?;
    disk::remove_if_exists(disk, &kafka_mark)?;
    disk.sync_dir(dir)?;
    Ok(marks)
}

/// Writes the marks, durably.
pub(crate) fn write(disk: &dyn Disk, dir: &Path, marks: &Marks) -> io::Result<()> {
    let mut text = format!("{VERSION}\n{}\n", marks.len());
    for (partition, mark) in marks {
        let _ = write!(text, "{} {} {}", partition.topic, partition.partition, mark.end_offset);
        for segment in &mark.segments {
            let _ = write!(text, " {}:{}", segment.base_offset, segment.bytes);
        }
        text.push('\n');
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
        let segment = |field: &str| {
            let (base_offset, bytes) = field.split_once(':')?;
            Some(MarkedSegment { base_offset: base_offset.parse().ok()?, bytes: bytes.parse().ok()? })
        };
        let segments = fields.map(segment).collect::<Option<Vec<_>>>().filter(|segments| !segments.is_empty())?;
        marks.insert(TopicPartition::new(topic, partition), Mark { end_offset, segments });
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
        let segments = [(0, 1_000_000), (29_301, 147_393)];
        let segments = segments.map(|(base_offset, bytes)| MarkedSegment { base_offset, bytes }).to_vec();
        let mark = Mark { end_offset: 30_003, segments };
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
        for text in ["", "1\n0\n", "2\n1\n", "2\n1\na 0 1\n", "2\n1\na 0 1 2\n", "2\nx\n"] {
            disk::replace_file(&disk, &dir.join(MARK), text.as_bytes()).unwrap();
            disk::replace_file(&disk, &dir.join(KAFKA_MARK), KAFKA_MARK_TEXT.as_bytes()).unwrap();
            assert_eq!(take(&disk, dir).unwrap(), Marks::new(), "{text:?}");
        }
    }

    #[test]
    fn a_mark_does_not_count_when_kafka_has_run_on_the_directory_since() {
        for left in [None, Some("{\"version\":0,\"brokerEpoch\":17}")] {
            let disk = FaultDisk::new(1);
            let dir = Path::new("/d");
            disk.create_dir(dir).unwrap();
            let segments = vec![MarkedSegment { base_offset: 0, bytes: 0 }];
            write(&disk, dir, &Marks::from([(TopicPartition::new("t", 0), Mark { end_offset: 0, segments })])).unwrap();
            disk.remove_file(&dir.join(KAFKA_MARK)).unwrap();
            if let Some(text) = left {
                disk::replace_file(&disk, &dir.join(KAFKA_MARK), text.as_bytes()).unwrap();
            }
            assert_eq!(take(&disk, dir).unwrap(), Marks::new());
        }
    }
}
