//! Names of files and folders, as Kafka gives them.

use std::path::{Path, PathBuf};

use taffrail_core::ids::{Offset, TopicPartition, Uuid};

/// Longest file name that common file systems take, in bytes.
const FILE_NAME_BYTES_MAX: usize = 255;

/// Longest name of a topic.
const TOPIC_NAME_CHARS_MAX: usize = 249;

/// Ending of the folder of a partition that was deleted.
const DELETED_DIR: &str = "-delete";

/// Ending of the folder of a partition that belongs to no known topic (as Kafka's).
const STRAY_DIR: &str = "-stray";

/// Ending of a file that was taken out of the log and waits to be removed.
pub const DELETED: &str = ".deleted";

/// Ending of a file that compaction has not finished.
pub const CLEANED: &str = ".cleaned";

/// Ending of a finished file of compaction that is to take the place of others.
pub const SWAP: &str = ".swap";

/// Leader epochs of a partition.
pub const LEADER_EPOCHS: &str = "leader-epoch-checkpoint";

/// Identity of a partition's topic.
pub const PARTITION_METADATA: &str = "partition.metadata";

/// The files of a segment, and the snapshot that has the same kind of name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// The batches.
    Log,
    /// Positions by offset.
    Index,
    /// Offsets by time.
    TimeIndex,
    /// Aborted transactions.
    TxnIndex,
    /// States of producers before the offset in the name.
    Snapshot,
}

/// The kinds of which a segment consists.
pub const SEGMENT_FILES: [FileKind; 4] = [FileKind::Log, FileKind::Index, FileKind::TimeIndex, FileKind::TxnIndex];

impl FileKind {
    /// What a file of this kind is called after the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Index => "index",
            Self::TimeIndex => "timeindex",
            Self::TxnIndex => "txnindex",
            Self::Snapshot => "snapshot",
        }
    }

    fn from_extension(extension: &str) -> Option<Self> {
        [Self::Log, Self::Index, Self::TimeIndex, Self::TxnIndex, Self::Snapshot]
            .into_iter()
            .find(|kind| kind.extension() == extension)
    }
}

/// The path of a file of the segment (or snapshot) at `base`, with an ending such as [`SWAP`] or none.
pub fn segment_path(dir: &Path, base: Offset, kind: FileKind, ending: &str) -> PathBuf {
    dir.join(format!("{base:020}.{}{ending}", kind.extension()))
}

/// A file name that [`segment_path`] makes, taken apart: base offset, kind, ending.
pub fn parse_segment_file(name: &str) -> Option<(Offset, FileKind, &str)> {
    let (base, rest) = name.split_once('.')?;
    if base.len() != 20 || !base.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (extension, ending) = match rest.find('.') {
        Some(dot) => rest.split_at(dot),
        None => (rest, ""),
    };
    Some((base.parse().ok()?, FileKind::from_extension(extension)?, ending))
}

/// What a folder in the data directory is by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Folder {
    /// A partition.
    Partition(TopicPartition),
    /// A deleted partition that waits to be removed.
    Deleted,
    /// A partition that was set aside.
    Stray,
    /// Nothing that is known here.
    Unknown,
}

/// Tells what a folder is by its name.
pub fn parse_folder(name: &str) -> Folder {
    // The id stands after the last dot, which a plain partition's name can have too; there, no ending follows.
    if let Some((_, ending)) = name.rsplit_once('.') {
        let is_id = |id: &str| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if ending.strip_suffix(DELETED_DIR).is_some_and(is_id) {
            return Folder::Deleted;
        }
        if ending.strip_suffix(STRAY_DIR).is_some_and(is_id) {
            return Folder::Stray;
        }
    }
    match parse_partition(name) {
        Some(partition) => Folder::Partition(partition),
        None => Folder::Unknown,
    }
}

fn parse_partition(name: &str) -> Option<TopicPartition> {
    let (topic, number) = name.rsplit_once('-')?;
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let is_topic = !topic.is_empty()
        && topic.len() <= TOPIC_NAME_CHARS_MAX
        && topic != "."
        && topic != ".."
        && topic.bytes().all(legal);
    // The number must be written as we write it, or two folders could claim one partition.
    let is_number = number == "0" || (!number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_topic || !is_number {
        return None;
    }
    Some(TopicPartition::new(topic, number.parse().ok()?))
}

/// The name of a partition's folder after it was deleted: `<topic>-<partition>.<32 hexadecimal digits>-delete`.
pub fn deleted_folder(partition: &TopicPartition, id: Uuid) -> String {
    aside(partition, id, DELETED_DIR)
}

/// The name of a partition's folder after it was set aside: `<topic>-<partition>.<32 hexadecimal digits>-stray`.
pub fn stray_folder(partition: &TopicPartition, id: Uuid) -> String {
    aside(partition, id, STRAY_DIR)
}

fn aside(partition: &TopicPartition, id: Uuid, ending: &str) -> String {
    let ending = format!(".{:032x}{ending}", u128::from_be_bytes(id.0));
    // Names of topics are ASCII, so that cutting at any byte is cutting at a character; as Kafka, the topic is cut.
    let number = format!("-{}", partition.partition);
    let room = FILE_NAME_BYTES_MAX - ending.len() - number.len();
    let topic = partition.topic.get(..room).unwrap_or(&partition.topic);
    format!("{topic}{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_files_are_named_by_their_base_offset() {
        let path = segment_path(Path::new("/d/t-0"), 9496, FileKind::TimeIndex, "");
        assert_eq!(path, Path::new("/d/t-0/00000000000000009496.timeindex"));
        assert_eq!(parse_segment_file("00000000000000009496.timeindex"), Some((9496, FileKind::TimeIndex, "")));
        assert_eq!(parse_segment_file("00000000000000000000.log.swap"), Some((0, FileKind::Log, SWAP)));
        for name in ["0.log", "00000000000000000000", "00000000000000000000.txt", "99999999999999999999.log", "x.log"] {
            assert_eq!(parse_segment_file(name), None, "{name}");
        }
    }

    #[test]
    fn folders_are_told_apart_by_their_names() {
        let id = Uuid([0xab; 16]);
        let dotted = TopicPartition::new("a.b-c_d", 12);
        assert_eq!(parse_folder("a.b-c_d-12"), Folder::Partition(dotted.clone()));
        assert_eq!(deleted_folder(&dotted, id), "a.b-c_d-12.abababababababababababababababab-delete");
        assert_eq!(parse_folder(&deleted_folder(&dotted, id)), Folder::Deleted);
        assert_eq!(parse_folder(&stray_folder(&dotted, id)), Folder::Stray);
        for name in ["lost+found", "t", "-1", "t-01", "t-x", "..-0", "t-99999999999", "caf\u{e9}-0"] {
            assert_eq!(parse_folder(name), Folder::Unknown, "{name}");
        }
    }

    #[test]
    fn long_topics_still_give_names_that_the_file_system_takes() {
        let long = TopicPartition::new("x".repeat(249), i32::MAX);
        let name = deleted_folder(&long, Uuid([1; 16]));
        assert_eq!(name.len(), 255);
        assert_eq!(parse_folder(&name), Folder::Deleted);
    }
}
