//! What stands in the way of making a partition's folder: nothing, a folder that is this partition's own, the leftovers of
//! an attempt that failed, or somebody else's data, which is kept under another name.

use std::io;
use std::path::Path;

use taffrail_core::ids::{TopicId, TopicPartition};

use crate::disk::{DirEntry, Disk};
use crate::env::Env;
use crate::error::StorageError;
use crate::identity::{self, IdentityError};
use crate::names::{PARTITION_METADATA, parse_segment_file, stray_folder};

/// Where a partition's folder shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vacancy {
    /// There is nothing any more.
    Free,
    /// There is a folder of this very partition, which could not be opened before.
    Own,
}

/// Looks at `dir`, and makes room there for a partition of the topic `topic_id`. Never removes anything but what an
/// attempt to make this folder has left.
///
/// # Errors
/// When the disk refuses; when the partition had durable records, and its folder is gone or does not say any more whose it
/// is. Served as empty, what is only away would look lost.
pub(crate) fn make_room(
    env: &Env,
    partition: &TopicPartition,
    dir: &Path,
    topic_id: TopicId,
) -> Result<Vacancy, StorageError> {
    let disk = &*env.disk;
    let failed = || StorageError::io(format!("clearing {}", dir.display()));
    // The folder becomes durable, with the file that says whose it is, before the recovery point first moves. What an older
    // life of the name had is forgotten with it.
    let durable_to = env.recovery_points.get(partition).filter(|&offset| offset > 0);
    let entries = match (disk.list(dir), durable_to) {
        (Err(error), None) if error.kind() == io::ErrorKind::NotFound => return Ok(Vacancy::Free),
        (Err(error), Some(end_offset)) if error.kind() == io::ErrorKind::NotFound => {
            return Err(StorageError::Gone { partition: partition.clone(), dir: dir.to_owned(), end_offset });
        }
        (entries, _) => entries.map_err(failed())?,
    };
    let mut is_foreign = false;
    let cause = match identity::read_topic_id(disk, dir) {
        Ok(Some(found)) if found == topic_id => return Ok(Vacancy::Own),
        Ok(Some(found)) => {
            is_foreign = true;
            format!("it belongs to topic id {found}")
        }
        // What cannot be read now is not judged.
        Err(IdentityError::Io { file, source }) => return Err(StorageError::io(format!("reading {file}"))(source)),
        Err(error) => error.to_string(),
        Ok(None) => format!("it has no {PARTITION_METADATA}"),
    };
    if is_half_made(disk, dir, &entries) {
        disk.remove_dir_all(dir).map_err(failed())?;
        return Ok(Vacancy::Free);
    }
    if !is_foreign && durable_to.is_some() {
        return Err(StorageError::Unidentified { partition: partition.clone(), dir: dir.to_owned(), cause });
    }
    let target = env.dir.join(stray_folder(partition, taffrail_runtime::random::uuid()));
    tracing::warn!(%partition, folder = %target.display(), %cause, "a folder that is not the partition's is set aside");
    disk.rename(dir, &target).and_then(|()| disk.sync_dir(&env.dir)).map_err(failed())?;
    Ok(Vacancy::Free)
}

/// Whether a folder holds nothing but what making a partition leaves when it fails: no record, and no file of others.
fn is_half_made(disk: &dyn Disk, dir: &Path, entries: &[DirEntry]) -> bool {
    entries.iter().all(|entry| {
        let is_empty = || disk.stat(&dir.join(&entry.name)).is_ok_and(|stat| stat.len == 0);
        !entry.is_dir && (entry.name == PARTITION_METADATA || (parse_segment_file(&entry.name).is_some() && is_empty()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogOptions;
    use crate::disk::OpenMode;
    use crate::disk::fault::{Fault, FaultDisk, Op};
    use crate::testing::{DIR, TOPIC_ID, batch, open, open_log, partition, read_all, run};

    const EACCES: i32 = 13;
    const ENOSPC: i32 = 28;

    fn dirs(disk: &FaultDisk) -> Vec<String> {
        disk.list(Path::new(DIR)).unwrap().into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name).collect()
    }

    #[test]
    fn what_a_full_disk_has_left_half_made_blocks_neither_the_next_try_nor_the_next_start() {
        // Each call that takes room may be the one that finds none.
        for (op, path) in
            [(Op::Open, "t-0"), (Op::Write, "partition.metadata"), (Op::Open, ".index"), (Op::Open, ".log")]
        {
            for restarts in [false, true] {
                let disk = FaultDisk::new(1);
                let mut storage = open(&disk);
                disk.inject(Fault { op, path_contains: path.into(), skip: 0, times: u32::MAX, errno: ENOSPC });
                for _ in 0..2 {
                    assert!(storage.create(&partition(), TOPIC_ID, LogOptions::default()).is_err(), "{op:?} {path}");
                }
                if restarts {
                    drop(storage);
                    disk.kill();
                    storage = open(&disk);
                    assert!(storage.create(&partition(), TOPIC_ID, LogOptions::default()).is_err(), "{op:?} {path}");
                }
                disk.heal();
                let log = storage.create(&partition(), TOPIC_ID, LogOptions::default()).unwrap();
                log.append(&[batch(1, 1, 1)], 0, 0).unwrap();
                assert_eq!((read_all(&log).len(), dirs(&disk)), (1, vec!["t-0".to_owned()]), "{op:?} {path}");
            }
        }
    }

    #[test]
    fn a_log_that_could_not_be_opened_for_now_is_opened_later_with_all_its_records() {
        for (op, path) in [(Op::Look, "t-0"), (Op::Open, "partition.metadata"), (Op::Open, ".log")] {
            let disk = FaultDisk::new(1);
            let (storage, log) = open_log(&disk, LogOptions::default());
            log.append(&[batch(3, 1, 1)], 0, 0).unwrap();
            drop((storage, log));
            disk.kill();
            disk.inject(Fault { op, path_contains: path.into(), skip: 0, times: u32::MAX, errno: EACCES });
            let storage = open(&disk);
            let refused = storage.create(&partition(), TOPIC_ID, LogOptions::default()).unwrap_err().to_string();
            assert!(refused.contains("t-0"), "{refused}");
            disk.heal();
            let log = storage.create(&partition(), TOPIC_ID, LogOptions::default()).unwrap();
            assert_eq!((log.end_offset(), dirs(&disk)), (3, vec!["t-0".to_owned()]), "{op:?} {path}");
        }
    }

    #[test]
    fn records_that_were_durable_are_not_set_aside_when_the_folder_does_not_say_whose_they_are() {
        let disk = FaultDisk::new(1);
        let (storage, log) = open_log(&disk, LogOptions::default());
        log.append(&[batch(3, 1, 1)], 0, 0).unwrap();
        run(storage.close());
        drop((storage, log));
        let path = Path::new(DIR).join("t-0").join(PARTITION_METADATA);
        let text = disk.content(&path).unwrap();
        disk.remove_file(&path).unwrap();
        let storage = open(&disk);
        let refused = storage.create(&partition(), TOPIC_ID, LogOptions::default()).unwrap_err().to_string();
        assert!(refused.contains("/data/t-0") && refused.contains(PARTITION_METADATA), "{refused}");
        crate::disk::replace_file(&disk, &path, &text).unwrap();
        assert_eq!(storage.create(&partition(), TOPIC_ID, LogOptions::default()).unwrap().end_offset(), 3);
    }

    #[test]
    fn a_partition_whose_folder_is_gone_begins_anew_only_after_it_was_deleted_or_forgotten() {
        for forgets in [false, true] {
            let disk = FaultDisk::new(1);
            let (storage, log) = open_log(&disk, LogOptions::default());
            log.append(&[batch(3, 1, 1)], 0, 0).unwrap();
            run(storage.close());
            drop((storage, log));
            disk.rename(&Path::new(DIR).join("t-0"), Path::new("/backup")).unwrap();
            let storage = open(&disk);
            let create = || storage.create(&partition(), TOPIC_ID, LogOptions::default());
            let refused = create().unwrap_err().to_string();
            assert!(refused.contains("/data/t-0 is gone") && refused.contains("offset 3"), "{refused}");
            if forgets {
                storage.forget_gone(|_| true).unwrap();
                assert!(create().is_err(), "it is still wanted");
                storage.forget_gone(|_| false).unwrap();
                assert_eq!(create().unwrap().end_offset(), 0);
                continue;
            }
            disk.rename(Path::new("/backup"), &Path::new(DIR).join("t-0")).unwrap();
            assert_eq!(create().unwrap().end_offset(), 3, "it is restored");
        }
    }

    #[test]
    fn the_folder_of_a_deleted_partition_goes_also_when_it_could_not_be_opened() {
        let disk = FaultDisk::new(1);
        let (storage, log) = open_log(&disk, LogOptions::default());
        log.append(&[batch(3, 1, 1)], 0, 0).unwrap();
        run(storage.close());
        drop((storage, log));
        disk.remove_file(&Path::new(DIR).join("t-0").join(PARTITION_METADATA)).unwrap();
        let storage = open(&disk);
        assert!(storage.create(&partition(), TOPIC_ID, LogOptions::default()).is_err());
        storage.delete_unopened(&partition(), TOPIC_ID).unwrap();
        assert_eq!(storage.create(&partition(), TOPIC_ID, LogOptions::default()).unwrap().end_offset(), 0);
        assert!(dirs(&disk).iter().any(|name| name.ends_with("-stray")), "nothing said that it was this topic's");
    }

    #[test]
    fn folders_of_others_are_set_aside_with_all_that_is_in_them() {
        for (file, content) in
            [(PARTITION_METADATA, "version: 0\ntopic_id: MOrxF12iR8i_XyFuL8W3Gw"), ("precious", "data")]
        {
            let disk = FaultDisk::new(1);
            let storage = open(&disk);
            let dir = Path::new(DIR).join("t-0");
            disk.create_dir(&dir).unwrap();
            disk.open(&dir.join("00000000000000000000.log"), OpenMode::CreateNew).unwrap();
            crate::disk::replace_file(&disk, &dir.join(file), content.as_bytes()).unwrap();
            disk.open(&dir.join("notes.txt"), OpenMode::CreateNew).unwrap();
            let log = storage.create(&partition(), TOPIC_ID, LogOptions::default()).unwrap();
            assert_eq!((log.topic_id(), log.end_offset()), (TOPIC_ID, 0));
            let aside = dirs(&disk).into_iter().find(|name| name.ends_with("-stray")).unwrap();
            assert_eq!(disk.content(&Path::new(DIR).join(aside).join(file)).unwrap(), content.as_bytes());
        }
    }
}
