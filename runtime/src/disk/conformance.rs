//! One suite for every implementation of the disk; each check is a sentence of the contract in the module above.
use std::io::{ErrorKind, IoSlice};
use std::path::{Path, PathBuf};

use super::fault::{Fault, FaultDisk, Op};
use super::real::{PortableCalls, RealDisk};
use super::{Disk, DiskFile, OpenMode, read_file, read_up_to, replace_file, write_all_at};

/// Runs `check` on every implementation, each with an empty directory of its own.
fn on_every_disk(check: impl Fn(&dyn Disk, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    let disks: [(&str, Box<dyn Disk>, PathBuf); 3] = [
        ("native", Box::new(RealDisk::new()), folder.path().join("native")),
        ("portable", Box::new(RealDisk::<PortableCalls>::default()), folder.path().join("portable")),
        ("fault", Box::new(FaultDisk::new(1)), PathBuf::from("/data")),
    ];
    for (name, disk, dir) in disks {
        eprintln!("on the {name} disk");
        disk.create_dir(&dir).unwrap();
        check(&*disk, &dir);
    }
}

fn write(file: &dyn DiskFile, bytes: &[u8], position: u64) {
    write_all_at(file, &mut [IoSlice::new(bytes)], position).unwrap();
}

fn content(file: &dyn DiskFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize + 10];
    let read = read_up_to(file, &mut bytes, 0).unwrap();
    bytes.truncate(read);
    bytes
}

#[test]
fn what_is_written_is_read_through_every_handle_also_after_rename_and_removal() {
    on_every_disk(|disk, dir| {
        let path = dir.join("a");
        let writer = disk.open(&path, OpenMode::CreateNew).unwrap();
        let reader = disk.open(&path, OpenMode::Read).unwrap();
        write(&*writer, b"one", 0);
        assert_eq!(content(&*reader), b"one");
        disk.rename(&path, &dir.join("b")).unwrap();
        write(&*writer, b"two", 3);
        assert_eq!(content(&*reader), b"onetwo");
        disk.remove_file(&dir.join("b")).unwrap();
        write(&*writer, b"three", 6);
        assert_eq!(content(&*reader), b"onetwothree");
        assert_eq!(disk.open(&dir.join("b"), OpenMode::Read).err().unwrap().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn vectored_writes_land_one_after_the_other_and_past_the_end_lie_zeros() {
    on_every_disk(|disk, dir| {
        let file = disk.open(&dir.join("a"), OpenMode::CreateNew).unwrap();
        let many: Vec<Vec<u8>> = (0..3000_u32).map(|n| n.to_be_bytes().to_vec()).collect();
        let mut slices: Vec<_> = many.iter().map(|bytes| IoSlice::new(bytes)).collect();
        write_all_at(&*file, &mut slices, 2).unwrap();
        assert_eq!(content(&*file), [vec![0, 0], many.concat()].concat());
        let mut buffer = [1; 4];
        assert_eq!(file.read_at(&mut buffer, 12_002).unwrap(), 0, "nothing is read at the end");
        assert_eq!(file.read_at(&mut buffer, 12_000).unwrap(), 2);
    });
}

#[test]
fn advice_on_reading_ahead_changes_nothing_of_what_is_read() {
    on_every_disk(|disk, dir| {
        let file = disk.open(&dir.join("a"), OpenMode::CreateNew).unwrap();
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
        write(&*file, &bytes, 0);
        file.disable_read_ahead();
        for (position, length) in
            [(0, 1), (500_000, 100_000), (999_999, 5_000_000), (9_000_000, 1), (u64::MAX, 1), (0, 0)]
        {
            file.prefetch(position, length);
        }
        assert!(content(&*file) == bytes, "other bytes than those that were written");
    });
}

#[test]
fn room_is_taken_as_zeros_or_refused_when_there_is_none() {
    on_every_disk(|disk, dir| {
        let path = dir.join("a");
        let file = disk.open(&path, OpenMode::CreateNew).unwrap();
        file.allocate(3_000_000).unwrap();
        assert_eq!(disk.stat(&path).unwrap().len, 3_000_000);
        assert!(content(&*file).iter().all(|byte| *byte == 0));
    });
    let disk = FaultDisk::new(1);
    disk.set_capacity(Some(100));
    let file = disk.open(Path::new("/a"), OpenMode::CreateNew).unwrap();
    assert_eq!(file.allocate(101).unwrap_err().kind(), ErrorKind::StorageFull);
}

#[test]
fn the_length_can_be_cut_and_filled_with_zeros() {
    on_every_disk(|disk, dir| {
        let path = dir.join("a");
        let file = disk.open(&path, OpenMode::CreateNew).unwrap();
        assert!(file.is_empty().unwrap());
        write(&*file, b"abcdef", 0);
        file.set_len(2).unwrap();
        file.set_len(4).unwrap();
        file.sync().unwrap();
        assert_eq!(content(&*file), b"ab\0\0");
        assert_eq!(disk.stat(&path).unwrap().len, 4);
    });
}

#[test]
fn opening_creates_only_when_told_and_never_cuts() {
    on_every_disk(|disk, dir| {
        let path = dir.join("a");
        for mode in [OpenMode::Read, OpenMode::Write] {
            assert_eq!(disk.open(&path, mode).err().unwrap().kind(), ErrorKind::NotFound);
        }
        write(&*disk.open(&path, OpenMode::CreateNew).unwrap(), b"kept", 0);
        assert_eq!(disk.open(&path, OpenMode::CreateNew).err().unwrap().kind(), ErrorKind::AlreadyExists);
        let reader = disk.open(&path, OpenMode::Read).unwrap();
        assert!(reader.write_at(&[IoSlice::new(b"x")], 0).is_err(), "a handle for reading refuses writes");
        assert_eq!(content(&*disk.open(&path, OpenMode::Write).unwrap()), b"kept");
    });
}

#[test]
fn directories_are_made_with_parents_listed_moved_and_removed() {
    on_every_disk(|disk, dir| {
        disk.create_dir(&dir.join("x/y")).unwrap();
        disk.create_dir(&dir.join("x/y")).unwrap();
        drop(disk.open(&dir.join("x/f"), OpenMode::CreateNew).unwrap());
        let mut names: Vec<_> =
            disk.list(&dir.join("x")).unwrap().into_iter().map(|entry| (entry.name, entry.is_dir)).collect();
        names.sort();
        assert_eq!(names, [("f".to_owned(), false), ("y".to_owned(), true)]);
        disk.rename(&dir.join("x"), &dir.join("z")).unwrap();
        assert!(disk.list(&dir.join("x")).is_err());
        disk.sync_dir(dir).unwrap();
        assert_eq!(disk.stat(&dir.join("z/f")).unwrap().len, 0);
        disk.remove_dir_all(&dir.join("z")).unwrap();
        assert!(disk.list(dir).unwrap().is_empty());
        assert!(disk.open(&dir.join("none/f"), OpenMode::CreateNew).is_err());
    });
}

#[test]
fn a_rename_replaces_and_a_replaced_file_is_whole() {
    on_every_disk(|disk, dir| {
        let path = dir.join("c");
        replace_file(disk, &path, b"old").unwrap();
        replace_file(disk, &path, b"new content").unwrap();
        assert_eq!(read_file(disk, &path, 100).unwrap(), b"new content");
        assert_eq!(read_file(disk, &path, 5).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(disk.list(dir).unwrap().len(), 1, "nothing temporary stays");
        assert_eq!(disk.remove_file(&dir.join("none")).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_file_is_the_same_under_another_name_and_another_one_under_the_same_name_is_not() {
    on_every_disk(|disk, dir| {
        let (path, moved) = (dir.join("a"), dir.join("b"));
        let id = |path: &Path| disk.stat(path).unwrap().id;
        disk.open(&path, OpenMode::CreateNew).unwrap();
        let first = id(&path);
        disk.rename(&path, &moved).unwrap();
        disk.open(&path, OpenMode::CreateNew).unwrap();
        assert_eq!(id(&moved), first);
        assert_ne!(id(&path), first);
    });
}

#[test]
fn a_lock_is_held_by_one_and_names_its_holder() {
    on_every_disk(|disk, dir| {
        let held = disk.lock(&dir.join("l"), "me").unwrap();
        assert!(disk.stat(&dir.join("l")).is_ok(), "it has a file");
        let error = disk.lock(&dir.join("l"), "you").err().unwrap();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::WouldBlock, "me"));
        drop(held);
        assert!(disk.lock(&dir.join("l"), "you").is_ok());
    });
}

#[test]
fn there_is_room_and_cached_ranges_are_not_called_cold() {
    on_every_disk(|disk, dir| {
        let space = disk.space(dir).unwrap();
        assert!(space.available > 0 && space.available <= space.total);
        let file = disk.open(&dir.join("a"), OpenMode::CreateNew).unwrap();
        write(&*file, &[5; 300_000], 0);
        assert_ne!(file.is_cached(0, 300_000), Some(false), "what was just written is in memory");
        assert_ne!(file.is_cached(0, 0), Some(false));
    });
}

#[test]
fn a_crash_takes_what_was_not_synced_and_nothing_else() {
    for seed in 0..50 {
        let disk = FaultDisk::new(seed);
        disk.create_dir(Path::new("/d")).unwrap();
        let file = disk.open(Path::new("/d/a"), OpenMode::CreateNew).unwrap();
        write(&*file, b"durable", 0);
        file.sync().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        write(&*file, b"lost?", 7);
        disk.rename(Path::new("/d/a"), Path::new("/d/b")).unwrap();
        disk.crash();
        assert!(file.len().is_err(), "handles die with the process");
        let names = disk.list(Path::new("/d")).unwrap();
        assert_eq!(names.len(), 1, "the file has the old or the new name");
        let bytes = disk.content(&Path::new("/d").join(&names[0].name)).unwrap();
        assert!(b"durablelost?".starts_with(&bytes) && bytes.len() >= 7, "{bytes:?}");
    }
}

#[test]
fn a_failed_sync_forgets_and_a_full_disk_takes_a_part() {
    let disk = FaultDisk::new(3);
    let file = disk.open(Path::new("/a"), OpenMode::CreateNew).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    write(&*file, b"gone", 0);
    disk.inject(Fault { op: Op::Sync, path_contains: "a".into(), skip: 0, times: 1, errno: 5 });
    assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(5));
    file.sync().unwrap();
    disk.crash();
    assert_eq!(disk.content(Path::new("/a")).unwrap(), b"", "the second sync proves nothing");

    let file = disk.open(Path::new("/a"), OpenMode::Write).unwrap();
    disk.set_capacity(Some(6));
    assert_eq!(file.write_at(&[IoSlice::new(b"1234"), IoSlice::new(b"5678")], 0).unwrap(), 6);
    assert_eq!(file.write_at(&[IoSlice::new(b"78")], 6).unwrap_err().kind(), ErrorKind::StorageFull);
    file.write_at(&[IoSlice::new(b"abcdef")], 0).unwrap();
    assert_eq!(disk.space(Path::new("/")).unwrap().available, 0);
}
