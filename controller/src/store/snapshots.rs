//! Snapshots of the metadata as files beside the database.
//!
//! A file is complete or it is not there: it is written under another name, synced, renamed, and the folder synced. Its
//! checksum covers all of it. The one before the newest is kept until the next comes, as a second copy.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use prost::Message;
use taffrail_protocol::rpc::{FormatError, check_version, v1};

use super::StoreError;
use super::checksum::{seal, unseal};
use super::folder::Folder;
use super::reserve::Reserve;
use crate::raft::SnapshotMeta;
use crate::raft::messages::{meta_from_message, meta_to_message};

/// Version of the file's layout: checksum, version, length of the meta part, meta part, image. Integers are big endian.
const FILE_VERSION: u32 = 1;

/// Stands in place of an index in the checksum.
const PLACE: u64 = u64::MAX - 2;

const SUFFIX: &str = ".snapshot";

/// Size of a snapshot that is read: far more than the metadata of a million partitions.
const SNAPSHOT_BYTES_MAX: u64 = 1 << 30;

/// Snapshots kept, the newest included.
const KEPT: usize = 2;

/// Where snapshots are kept.
#[derive(Debug)]
pub(crate) enum Snapshots {
    /// In a folder, with room for when the disk is full.
    Folder(Folder, Option<Arc<Reserve>>),
    /// In memory, with `--ephemeral`.
    Memory(Mutex<Option<(SnapshotMeta, Vec<u8>)>>),
}

impl Snapshots {
    /// Snapshots in `folder`, which is made if need be; `reserve` has room for when the disk is full.
    pub(crate) fn open(folder: Folder, reserve: Option<Arc<Reserve>>) -> Result<Self, StoreError> {
        folder.make()?;
        for name in folder.names()? {
            if name.ends_with(".tmp") {
                folder.remove(&name)?;
            }
        }
        Ok(Self::Folder(folder, reserve))
    }

    /// Keeps a snapshot; durable when this returns.
    pub(crate) fn save(&self, meta: &SnapshotMeta, image: &[u8]) -> Result<(), StoreError> {
        let (folder, reserve) = match self {
            Self::Folder(folder, reserve) => (folder, reserve),
            Self::Memory(kept) => {
                *kept.lock() = Some((meta.clone(), image.to_vec()));
                return Ok(());
            }
        };
        let index = meta.last_log_id.map_or(0, |log_id| log_id.index);
        // Raft ends when a snapshot cannot be written.
        if let Some(reserve) = reserve {
            reserve.make_room(image.len() as u64);
        }
        folder.replace(&format!("{index:020}{SUFFIX}"), &encode(meta, image))?;
        snapshots(folder)?.iter().rev().skip(KEPT).try_for_each(|old| folder.remove(old))
    }

    /// The newest snapshot that can be read. A damaged one is reported and passed over.
    pub(crate) fn load(&self) -> Result<Option<(SnapshotMeta, Vec<u8>)>, StoreError> {
        let folder = match self {
            Self::Folder(folder, _) => folder,
            Self::Memory(kept) => return Ok(kept.lock().clone()),
        };
        for name in snapshots(folder)?.iter().rev() {
            let Some(bytes) = folder.read(name, SNAPSHOT_BYTES_MAX)? else { continue };
            let path = folder.path().join(name);
            match decode(&path, &bytes) {
                Ok(snapshot) => return Ok(Some(snapshot)),
                Err(error @ StoreError::Format(FormatError::NewerVersion { .. })) => return Err(error),
                Err(error) => {
                    tracing::error!(file = %path.display(), %error, "a snapshot of the metadata cannot be read");
                }
            }
        }
        Ok(None)
    }
}

fn encode(meta: &SnapshotMeta, image: &[u8]) -> Vec<u8> {
    let meta = meta_to_message(meta).encode_to_vec();
    let mut content = Vec::with_capacity(8 + meta.len() + image.len());
    content.extend_from_slice(&FILE_VERSION.to_be_bytes());
    content.extend_from_slice(&u32::try_from(meta.len()).unwrap_or(u32::MAX).to_be_bytes());
    content.extend_from_slice(&meta);
    content.extend_from_slice(image);
    seal(PLACE, &content)
}

fn decode(path: &Path, bytes: &[u8]) -> Result<(SnapshotMeta, Vec<u8>), StoreError> {
    let what = "a snapshot file";
    let short = || StoreError::Format(FormatError::Length { what });
    let content = unseal(PLACE, bytes, &|| path.display().to_string())?;
    let (version, content) = content.split_first_chunk::<4>().ok_or_else(short)?;
    check_version(what, u32::from_be_bytes(*version), FILE_VERSION)?;
    let (length, content) = content.split_first_chunk::<4>().ok_or_else(short)?;
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    let (meta, image) = content.split_at_checked(length).ok_or_else(short)?;
    let meta = v1::RaftSnapshotMeta::decode(meta).map_err(|source| FormatError::Decode { what, source })?;
    Ok((meta_from_message(meta)?, image.to_vec()))
}

/// Snapshot files, oldest first.
fn snapshots(folder: &Folder) -> Result<Vec<String>, StoreError> {
    let mut names = folder.names()?;
    names.retain(|name| name.ends_with(SUFFIX));
    Ok(names)
}
