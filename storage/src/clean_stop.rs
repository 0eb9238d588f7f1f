//! The mark of a clean stop: how each log ended. With it, a start looks into no log at all.
//!
//! The mark is removed, durably, before anything is written, so it never stands for an older state. It names all segments
//! with their sizes: a file that somebody takes away between the stop and the start is missed by name, also from the middle
//! of a log, where nothing else would tell. Kafka's own mark is written beside it, so that Kafka, too, would find a directory
//! that was closed cleanly. Kafka takes its mark away when it starts; ours counts only while that is there as we wrote it.
//!
//! Beside the segments stand the batches by which retries of producers are recognised: the snapshot of the producers has
//! room for the last one only, and a client with several requests on the way may repeat the first of them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::Path;

use taffrail_core::ids::{Offset, ProducerId, TopicPartition};
use taffrail_core::partition::{BATCHES_RETAINED, BatchMetadata};
use taffrail_core::planted::{PlantedBug, is_planted};

use crate::disk::{self, Disk};

/// Name of our mark.
const MARK: &str = "taffrail-clean-stop";

/// Name of Kafka's mark.
const KAFKA_MARK: &str = ".kafka_cleanshutdown";

/// What Kafka's mark says; -1 = no broker epoch.
const KAFKA_MARK_TEXT: &str = "{\"version\":0,\"brokerEpoch\":-1}";

/// First line of our mark: its version.
const VERSION: &str = "3";

/// The version before, which says nothing of producers.
const VERSION_BEFORE: &str = "2";

/// What a field about a producer begins with.
const PRODUCER: &str = "p:";

/// Producers of a log that are named at most: those that wrote last.
pub(crate) const PRODUCERS_MAX: usize = 1_000;

/// Largest mark that is read.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// How a log ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) end_offset: Offset,
    /// All segments in order, the active one last.
    pub(crate) segments: Vec<MarkedSegment>,
    /// Batches of producers, oldest first, where more than the last of a producer is known.
    pub(crate) recent: Vec<(ProducerId, Vec<BatchMetadata>)>,
}

/// A segment as the stop left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MarkedSegment {
    pub(crate) base_offset: Offset,
    pub(crate) bytes: u32,
}

/// How all logs ended.
pub(crate) type Marks = BTreeMap<TopicPartition, Mark>;

/// Reads the marks and removes them, durably; `None` = there are none. A mark that is not understood is as good as none.
pub(crate) fn take(disk: &dyn Disk, dir: &Path) -> io::Result<Option<Marks>> {
    let path = dir.join(MARK);
    let marks = match disk::read_file(disk, &path, FILE_BYTES_MAX) {
        Ok(bytes) => {
            let marks = parse(&bytes);
            if marks.is_none() {
                tracing::warn!(file = %path.display(), "the mark of the clean stop is not understood");
            }
            marks
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let kafka_mark = dir.join(KAFKA_MARK);
    let is_ours =
        disk::read_file(disk, &kafka_mark, FILE_BYTES_MAX).is_ok_and(|text| text == KAFKA_MARK_TEXT.as_bytes());
    if !is_planted(PlantedBug::CleanMarkKept) {
        disk::remove_if_exists(disk, &path)?;
        disk::remove_if_exists(disk, &kafka_mark)?;
        disk.sync_dir(dir)?;
    }
    Ok(marks.filter(|_| is_ours))
}

/// Writes the marks, durably.
pub(crate) fn write(disk: &dyn Disk, dir: &Path, marks: &Marks) -> io::Result<()> {
    let mut text = format!("{VERSION}\n{}\n", marks.len());
    for (partition, mark) in marks {
        let _ = write!(text, "{} {} {}", partition.topic, partition.partition, mark.end_offset);
        for segment in &mark.segments {
            let _ = write!(text, " {}:{}", segment.base_offset, segment.bytes);
        }
        for (producer_id, batches) in &mark.recent {
            let _ = write!(text, " {PRODUCER}{producer_id}");
            for batch in batches {
                let BatchMetadata { last_sequence, last_offset, offset_delta, timestamp } = batch;
                let _ = write!(text, ":{last_sequence},{last_offset},{offset_delta},{timestamp}");
            }
        }
        text.push('\n');
    }
    disk::replace_file(disk, &dir.join(MARK), text.as_bytes())?;
    disk::replace_file(disk, &dir.join(KAFKA_MARK), KAFKA_MARK_TEXT.as_bytes())
}

fn parse(bytes: &[u8]) -> Option<Marks> {
    let mut lines = std::str::from_utf8(bytes).ok()?.lines();
    if ![VERSION, VERSION_BEFORE].contains(&lines.next()?) {
        return None;
    }
    let count: usize = lines.next()?.parse().ok()?;
    let mut marks = Marks::new();
    for line in lines {
        let mut fields = line.split(' ');
        let topic = fields.next()?;
        let partition = fields.next()?.parse().ok()?;
        let end_offset = fields.next()?.parse().ok()?;
        let (mut segments, mut recent) = (Vec::new(), Vec::new());
        for field in fields {
            match field.strip_prefix(PRODUCER) {
                Some(field) => recent.push(parse_producer(field)?),
                None => segments.push(parse_segment(field)?),
            }
        }
        if segments.is_empty() {
            return None;
        }
        marks.insert(TopicPartition::new(topic, partition), Mark { end_offset, segments, recent });
    }
    (marks.len() == count).then_some(marks)
}

fn parse_segment(field: &str) -> Option<MarkedSegment> {
    let (base_offset, bytes) = field.split_once(':')?;
    Some(MarkedSegment { base_offset: base_offset.parse().ok()?, bytes: bytes.parse().ok()? })
}

fn parse_producer(field: &str) -> Option<(ProducerId, Vec<BatchMetadata>)> {
    let mut parts = field.split(':');
    let producer_id = parts.next()?.parse().ok()?;
    let batch = |part: &str| {
        let mut numbers = part.split(',');
        let batch = BatchMetadata {
            last_sequence: numbers.next()?.parse().ok()?,
            last_offset: numbers.next()?.parse().ok()?,
            offset_delta: numbers.next()?.parse().ok()?,
            timestamp: numbers.next()?.parse().ok()?,
        };
        numbers.next().is_none().then_some(batch)
    };
    let batches = parts.map(batch).collect::<Option<Vec<_>>>()?;
    (batches.len() <= BATCHES_RETAINED).then_some((producer_id, batches))
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
        let batch = |number: i32| BatchMetadata {
            last_sequence: number,
            last_offset: 30_000 + i64::from(number),
            offset_delta: 0,
            timestamp: -1,
        };
        let recent = vec![(7, vec![batch(0), batch(1)]), (9_000_000_000, vec![batch(2), batch(2), batch(2)])];
        let mark = Mark { end_offset: 30_003, segments, recent };
        let marks = Marks::from([(TopicPartition::new("a.b", 0), mark)]);
        write(&disk, dir, &marks).unwrap();
        assert_eq!(disk.content(&dir.join(KAFKA_MARK)).unwrap(), KAFKA_MARK_TEXT.as_bytes());
        disk.crash();
        assert_eq!(take(&disk, dir).unwrap(), Some(marks));
        disk.crash();
        assert_eq!(take(&disk, dir).unwrap(), None);
    }

    #[test]
    fn a_mark_that_is_not_understood_is_none() {
        let disk = FaultDisk::new(1);
        let dir = Path::new("/d");
        disk.create_dir(dir).unwrap();
        let producer = "3\n1\na 0 1 0:9 p:7:1,2,3\n";
        for text in ["", "1\n0\n", "2\n1\n", "2\n1\na 0 1\n", "2\n1\na 0 1 2\n", "2\nx\n", "4\n0\n", producer] {
            disk::replace_file(&disk, &dir.join(MARK), text.as_bytes()).unwrap();
            disk::replace_file(&disk, &dir.join(KAFKA_MARK), KAFKA_MARK_TEXT.as_bytes()).unwrap();
            assert_eq!(take(&disk, dir).unwrap(), None, "{text:?}");
        }
    }

    #[test]
    fn a_mark_does_not_count_when_kafka_has_run_on_the_directory_since() {
        for left in [None, Some("{\"version\":0,\"brokerEpoch\":17}")] {
            let disk = FaultDisk::new(1);
            let dir = Path::new("/d");
            disk.create_dir(dir).unwrap();
            let segments = vec![MarkedSegment { base_offset: 0, bytes: 0 }];
            write(
                &disk,
                dir,
                &Marks::from([(TopicPartition::new("t", 0), Mark { end_offset: 0, segments, recent: Vec::new() })]),
            )
            .unwrap();
            disk.remove_file(&dir.join(KAFKA_MARK)).unwrap();
            if let Some(text) = left {
                disk::replace_file(&disk, &dir.join(KAFKA_MARK), text.as_bytes()).unwrap();
            }
            assert_eq!(take(&disk, dir).unwrap(), None);
        }
    }
}
