//! Small files that say whose data this is: `partition.metadata` in each partition's folder, `meta.properties` in the
//! data directory. Both are Kafka's own.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::path::Path;

use taffrail_core::ids::{TopicId, Uuid};

use crate::disk::{self, Disk, OpenMode};
use crate::names::PARTITION_METADATA;

/// Name of the file that says which node of which cluster a data directory belongs to.
pub const META_PROPERTIES: &str = "meta.properties";

/// Largest of these files that is read.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Why such a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The disk refused.
    #[error("{file}: {source}")]
    Io {
        /// Which file.
        file: String,
        /// What the disk said.
        source: io::Error,
    },
    /// The content is none that we or Kafka write.
    #[error("{file}: {what}")]
    Malformed {
        /// Which file.
        file: String,
        /// What is wrong with it.
        what: String,
    },
}

/// The id of the topic that a partition's folder belongs to; `None` when the file does not exist.
///
/// # Errors
/// When the file cannot be read or is malformed.
pub fn read_topic_id(disk: &dyn Disk, partition_dir: &Path) -> Result<Option<TopicId>, IdentityError> {
    let path = partition_dir.join(PARTITION_METADATA);
    let Some(lines) = read_pairs(disk, &path, ": ")? else { return Ok(None) };
    check_version(&path, &lines, "0")?;
    let id = lines.get("topic_id").ok_or_else(|| malformed(&path, "no topic_id"))?;
    let id: Uuid = id.parse().map_err(|error| malformed(&path, error))?;
    if id.is_zero() {
        return Err(malformed(&path, "the topic_id is zero"));
    }
    Ok(Some(id))
}

/// Writes the id of the topic that a new partition's folder belongs to. It becomes durable with the first flush of the
/// partition: a folder that a crash takes before held nothing that anyone was told is there.
///
/// # Errors
/// When the disk refuses, or the file exists.
pub fn write_topic_id(disk: &dyn Disk, partition_dir: &Path, id: TopicId) -> io::Result<()> {
    // As Kafka writes it: without a line break at the end.
    let text = format!("version: 0\ntopic_id: {id}");
    let file = disk.open(&partition_dir.join(PARTITION_METADATA), OpenMode::CreateNew)?;
    disk::write_all_at(&*file, &mut [IoSlice::new(text.as_bytes())], 0)
}

/// Which node of which cluster a data directory belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaProperties {
    /// Id of the cluster.
    pub cluster_id: String,
    /// Number of the node.
    pub node_id: i32,
    /// Id of this directory, drawn when it was formatted.
    pub directory_id: Uuid,
}

impl MetaProperties {
    /// Reads the file of a data directory; `None` when it does not exist.
    ///
    /// # Errors
    /// When the file cannot be read or is malformed.
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, IdentityError> {
        let path = dir.join(META_PROPERTIES);
        let Some(lines) = read_pairs(disk, &path, "=")? else { return Ok(None) };
        check_version(&path, &lines, "1")?;
        let field = |name: &str| lines.get(name).ok_or_else(|| malformed(&path, format!("no {name}")));
        Ok(Some(Self {
            cluster_id: field("cluster.id")?.clone(),
            node_id: field("node.id")?.parse().map_err(|_| malformed(&path, "the node.id is no number"))?,
            directory_id: field("directory.id")?.parse().map_err(|error| malformed(&path, error))?,
        }))
    }

    /// Writes the file of a data directory, durably.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        let text = format!(
            "#\ncluster.id={}\ndirectory.id={}\nnode.id={}\nversion=1\n",
            self.cluster_id, self.directory_id, self.node_id
        );
        disk::replace_file(disk, &dir.join(META_PROPERTIES), text.as_bytes())
    }
}

fn malformed(path: &Path, what: impl ToString) -> IdentityError {
    IdentityError::Malformed { file: path.display().to_string(), what: what.to_string() }
}

fn check_version(path: &Path, lines: &BTreeMap<String, String>, known: &str) -> Result<(), IdentityError> {
    match lines.get("version") {
        Some(version) if version == known => Ok(()),
        Some(other) => Err(malformed(path, format!("version {other}, where only {known} is known"))),
        None => Err(malformed(path, "no version")),
    }
}

fn read_pairs(
    disk: &dyn Disk,
    path: &Path,
    separator: &str,
) -> Result<Option<BTreeMap<String, String>>, IdentityError> {
    let bytes = match disk::read_file(disk, path, FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(IdentityError::Io { file: path.display().to_string(), source }),
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| malformed(path, "not text"))?;
    let mut pairs = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, value) = line.split_once(separator).ok_or_else(|| malformed(path, "a line without a value"))?;
        pairs.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    Ok(Some(pairs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::fault::FaultDisk;

    fn disk() -> FaultDisk {
        let disk = FaultDisk::new(1);
        disk.create_dir(Path::new("/d")).unwrap();
        disk
    }

    #[test]
    fn topic_ids_are_written_as_kafka_writes_them() {
        let disk = disk();
        let id: Uuid = "MOrxF12iR8i_XyFuL8W3Gw".parse().unwrap();
        assert_eq!(read_topic_id(&disk, Path::new("/d")).unwrap(), None);
        write_topic_id(&disk, Path::new("/d"), id).unwrap();
        let content = disk.content(Path::new("/d/partition.metadata")).unwrap();
        assert_eq!(content, b"version: 0\ntopic_id: MOrxF12iR8i_XyFuL8W3Gw");
        assert_eq!(read_topic_id(&disk, Path::new("/d")).unwrap(), Some(id));
    }

    #[test]
    fn the_directory_file_of_kafka_is_read() {
        let disk = disk();
        let text = "#\n#Sun Nov 29 18:54:17 UTC 2026\ncluster.id=nY5IY0TxW-9EDomvYXU8dQ\n\
                    directory.id=sF4IHaw-ddFCZyE5uvTRsA\nnode.id=1\nversion=1\n";
        disk::replace_file(&disk, Path::new("/d/meta.properties"), text.as_bytes()).unwrap();
        let read = MetaProperties::read(&disk, Path::new("/d")).unwrap().unwrap();
        assert_eq!((read.cluster_id.as_str(), read.node_id), ("nY5IY0TxW-9EDomvYXU8dQ", 1));
        assert_eq!(read.directory_id.to_string(), "sF4IHaw-ddFCZyE5uvTRsA");
        read.write(&disk, Path::new("/d")).unwrap();
        assert_eq!(MetaProperties::read(&disk, Path::new("/d")).unwrap(), Some(read));
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        let disk = disk();
        for (text, what) in [
            ("version: 1\ntopic_id: MOrxF12iR8i_XyFuL8W3Gw", "version 1"),
            ("version: 0\n", "no topic_id"),
            ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "zero"),
            ("version: 0\ntopic_id: short", "'short' is not an id"),
            ("nonsense", "without a value"),
        ] {
            disk::replace_file(&disk, Path::new("/d/partition.metadata"), text.as_bytes()).unwrap();
            let error = read_topic_id(&disk, Path::new("/d")).unwrap_err().to_string();
            assert!(error.contains("/d/partition.metadata") && error.contains(what), "{error}");
        }
    }
}
