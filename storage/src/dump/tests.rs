use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use taffrail_core::record::{BatchBuilder, BatchOptions};

use super::*;
use crate::disk::fault::FaultDisk;
use crate::index::{Entry, OffsetEntry};
use crate::snapshot::ProducerEntry;

const DIR: &str = "/d/t-0";

fn batch(base_offset: i64, records: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions { base_offset, ..BatchOptions::default() });
    (0..records).for_each(|_| builder.push(5, Some(b"k"), Some(b"value")).unwrap());
    builder.build().unwrap()
}

fn put(disk: &FaultDisk, name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(DIR).join(name);
    disk.create_dir(Path::new(DIR)).unwrap();
    disk::replace_file(disk, &path, content).unwrap();
    path
}

/// The entries of a file, each as a text.
fn told(disk: &FaultDisk, path: &Path) -> Vec<String> {
    let mut told = Vec::new();
    let mut visit = |entry: Dumped<'_>| {
        told.push(match entry {
            Dumped::Batch { position, header, batch } => {
                format!("{position}: {}-{} {}", header.base_offset, header.last_offset(), batch.is_some())
            }
            Dumped::Position { offset, position } => format!("{offset} at {position}"),
            Dumped::Damage { position, what } => format!("{position}! {what}"),
            other => format!("{other:?}"),
        });
        ControlFlow::Continue(())
    };
    dump(disk, path, DumpedFile::of(path).unwrap(), true, &mut visit).unwrap();
    told
}

#[test]
fn batches_behind_damage_are_shown_and_the_damage_has_a_place() {
    let disk = FaultDisk::new(1);
    let batches = [batch(0, 2), batch(2, 1), batch(3, 1)];
    let length = |number: usize| batches[number].len();
    let path = put(&disk, "00000000000000000000.log", &batches.concat());
    let whole =
        ["0: 0-1 true".to_owned(), format!("{}: 2-2 true", length(0)), format!("{}: 3-3 true", length(0) + length(1))];
    assert_eq!(told(&disk, &path), whole);

    let mut damaged = batches.concat();
    damaged[length(0) + 70] ^= 1;
    let path = put(&disk, "00000000000000000000.log", &damaged);
    let found = told(&disk, &path);
    assert_eq!((&found[0], &found[2]), (&whole[0], &whole[2]));
    let (at, next) = (length(0), length(0) + length(1));
    assert!(found[1].starts_with(&format!("{at}! stored crc ")), "{found:?}");
    assert!(found[1].ends_with(&format!("; the next sound batch is at {next}")), "{found:?}");

    let torn = &batches.concat()[..next + 30];
    let path = put(&disk, "00000000000000000000.log", torn);
    let expected = format!(
        "{next}! only 30 bytes are left, less than a header; no sound batch follows in the 30 bytes from here on"
    );
    assert_eq!(told(&disk, &path).last(), Some(&expected));
}

#[test]
fn offsets_that_go_back_are_damage() {
    let disk = FaultDisk::new(1);
    let path = put(&disk, "00000000000000000000.log", &[batch(5, 1), batch(3, 1)].concat());
    let found = told(&disk, &path);
    assert!(found[1].contains("! a batch with offset 3, behind one that ends before 6"), "{found:?}");
    assert_eq!(found.len(), 3);
}

#[test]
fn entries_of_an_index_are_compared_with_the_batches_they_point_to() {
    let disk = FaultDisk::new(1);
    let first = batch(100, 2);
    let at = first.len() as u32;
    put(&disk, "00000000000000000100.log", &[first, batch(102, 1)].concat());
    let index = |entries: &[(u32, u32)], rest: &[u8]| {
        let mut bytes = Vec::new();
        for (relative_offset, position) in entries {
            OffsetEntry { relative_offset: *relative_offset, position: *position }.encode(&mut bytes);
        }
        bytes.extend_from_slice(rest);
        told(&disk, &put(&disk, "00000000000000000100.index", &bytes))
    };
    assert_eq!(index(&[(2, at)], &[0; 16]), [format!("102 at {at}")], "room for more says nothing");
    let wrong = index(&[(1, at)], &[]);
    assert_eq!(wrong[0], format!("0! the entry for offset 101 points to {at}, where a batch ends with offset 102"));
    let beyond = index(&[(2, at), (3, 90_000)], &[1]);
    assert!(beyond[1].starts_with("8! the entry for offset 103 points to 90000, and the log ends at "), "{beyond:?}");
    assert_eq!(beyond.last().unwrap(), "16! 1 bytes, which are no whole entry");
    let back = index(&[(2, at), (1, at + 1)], &[]);
    assert_eq!(back[1], "8! entry 1 does not follow the one before it");
}

#[test]
fn the_other_files_are_shown_or_said_to_be_broken() {
    let disk = FaultDisk::new(1);
    let producer = ProducerEntry {
        producer_id: 7,
        producer_epoch: 1,
        last_sequence: 4,
        last_offset: 9,
        offset_delta: 0,
        timestamp: 5,
        coordinator_epoch: -1,
        current_txn_first_offset: -1,
    };
    let mut snapshot = snapshot::encode(&[producer]);
    let shown = told(&disk, &put(&disk, "00000000000000000010.snapshot", &snapshot));
    assert!(matches!(shown.as_slice(), [one] if one.contains("producer_id: 7")), "{shown:?}");
    snapshot[20] ^= 1;
    let broken = told(&disk, &put(&disk, "00000000000000000010.snapshot", &snapshot));
    assert!(broken[0].starts_with("0! not a producer snapshot: stored crc "), "{broken:?}");

    assert_eq!(told(&disk, &put(&disk, "leader-epoch-checkpoint", b"0\n1\n3 17\n")), ["Epoch(3, 17)"]);
    let broken = told(&disk, &put(&disk, "leader-epoch-checkpoint", b"0\n1\nx\n"));
    assert!(broken[0].starts_with("0! "), "{broken:?}");
    let broken = told(&disk, &put(&disk, "partition.metadata", b"version: 0\n"));
    assert!(broken[0].contains("no topic_id"), "{broken:?}");
    put(&disk, "notes.txt", b"");
    let names: Vec<String> =
        files(&disk, Path::new(DIR)).unwrap().iter().map(|path| path.display().to_string()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}
