//! Whether a broker's disk may lack what was written to it last.
//!
//! Records are acknowledged when they are in the page cache of enough machines. A process that dies takes nothing from
//! there; a machine that goes down does. So a stop is unclean when it left no mark *and* the machine has booted since, or
//! the partitions lie on another device than before. The controllers are told so at the next registration (KIP-966), and
//! trust the replicas again once they have followed a leader.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use taffrail_storage::disk;
use taffrail_storage::disk::real::RealDisk;

/// File beside the partitions that says on which boot of the machine they were used last.
const BOOT: &str = "taffrail-boot";

/// Where Linux tells the id of this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// First line of the file: its version.
const VERSION: &str = "1";

/// Largest such file that is read.
const FILE_BYTES_MAX: u64 = 4 << 10;

/// On which boot, and from which device, partitions were used.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    boot: String,
    device: u64,
}

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    place: Place,
    /// Whether an unclean stop before was not told to the controllers yet: the start after it may fail, and leave a mark
    /// of a clean stop behind that stands for less than there once was.
    owed: bool,
    /// Epoch of the registration before: the metadata were as long then.
    epoch: i64,
}

/// Keeps track of unclean stops of the broker whose partitions are in one folder.
#[derive(Debug)]
pub(crate) struct Boots {
    file: PathBuf,
    now: Place,
    owed: bool,
    epoch: i64,
}

impl Boots {
    /// Looks whether the last stop was unclean, and remembers it until [`Self::told`]. `was_closed`: the stop left its mark
    /// for everything that is there.
    pub(crate) fn check(logs: &Path, was_closed: bool) -> anyhow::Result<Self> {
        let device = std::fs::metadata(logs).with_context(|| format!("{} cannot be looked at", logs.display()))?.dev();
        // Where no boot can be told from another, none is taken for the same one.
        let boot = std::fs::read_to_string(BOOT_ID).map(|text| text.trim().to_owned()).unwrap_or_default();
        Self::check_at(logs, Place { boot, device }, was_closed)
    }

    fn check_at(logs: &Path, now: Place, was_closed: bool) -> anyhow::Result<Self> {
        let file = logs.join(BOOT);
        let last = read(&file)?;
        let is_same = last.as_ref().is_some_and(|last| last.place == now && !now.boot.is_empty());
        let owed = last.as_ref().is_some_and(|last| last.owed) || (!was_closed && !is_same);
        let epoch = last.as_ref().map_or(-1, |last| last.epoch);
        let boots = Self { file, now, owed, epoch };
        if owed {
            tracing::warn!(
                logs = %logs.display(),
                "the machine went down while this broker was writing: its last records may be gone, and are compared with \
                 those of the other replicas"
            );
        }
        if last != Some(boots.record(owed)) {
            boots.write(owed)?;
        }
        Ok(boots)
    }

    /// Whether the controllers have to be told that the last stop was unclean.
    pub(crate) fn is_unclean(&self) -> bool {
        self.owed
    }

    /// The controllers know, and have registered the broker at `epoch`, an offset in the metadata.
    ///
    /// # Errors
    /// When the metadata were longer before: they are not those that tell of these partitions.
    pub(crate) fn told(&mut self, epoch: i64) -> anyhow::Result<()> {
        if epoch <= self.epoch {
            bail!(
                "the controllers' metadata have been lost: they end at offset {epoch}, and were past {} when this broker was \
                 registered before. Its partitions are left as they are. Restore the directory of a controller from a \
                 copy; to begin anew without these records, move this broker's data away",
                self.epoch
            );
        }
        (self.owed, self.epoch) = (false, epoch);
        self.write(false)
    }

    fn record(&self, owed: bool) -> Record {
        Record { place: self.now.clone(), owed, epoch: self.epoch }
    }

    fn write(&self, owed: bool) -> anyhow::Result<()> {
        let Place { boot, device } = &self.now;
        let text = format!("{VERSION}\nboot={boot}\ndevice={device}\nowed={owed}\nepoch={}\n", self.epoch);
        let written = disk::replace_file(&RealDisk::new(), &self.file, text.as_bytes());
        // What is owed must not be forgotten. Anything else that is missing here makes the next start more careful, not less.
        if let Err(error) = &written
            && error.kind() == std::io::ErrorKind::StorageFull
            && !owed
        {
            tracing::warn!(file = %self.file.display(), "the disk is full: the boot of the machine is not written down");
            return Ok(());
        }
        written.with_context(|| format!("{} cannot be written", self.file.display()))
    }
}

/// What the file says; one that is not understood is as good as none.
fn read(file: &Path) -> anyhow::Result<Option<Record>> {
    match disk::read_file(&RealDisk::new(), file, FILE_BYTES_MAX) {
        Ok(bytes) => Ok(parse(&bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", file.display())),
    }
}

fn parse(bytes: &[u8]) -> Option<Record> {
    let mut lines = std::str::from_utf8(bytes).ok()?.lines();
    if lines.next()? != VERSION {
        return None;
    }
    let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
    let place = Place { boot: field("boot")?, device: field("device")?.parse().ok()? };
    let owed = field("owed")?.parse().ok()?;
    // Earlier releases did not write it down.
    let epoch = field("epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(-1);
    Some(Record { place, owed, epoch })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(boot: &str, device: u64) -> Place {
        Place { boot: boot.to_owned(), device }
    }

    #[test]
    fn a_stop_is_unclean_without_a_mark_and_on_another_boot_or_device() {
        let before = place("one", 7);
        for (now, was_closed, is_unclean) in [
            (place("one", 7), true, false),
            (place("one", 7), false, false),
            (place("two", 7), true, false),
            (place("two", 7), false, true),
            (place("one", 8), false, true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            assert!(!Boots::check_at(dir.path(), before.clone(), true).unwrap().is_unclean(), "a new folder");
            let boots = Boots::check_at(dir.path(), now.clone(), was_closed).unwrap();
            assert_eq!(boots.is_unclean(), is_unclean, "{now:?}, closed: {was_closed}");
        }
    }

    #[test]
    fn an_unclean_stop_is_told_also_when_the_first_start_after_it_failed() {
        let dir = tempfile::tempdir().unwrap();
        Boots::check_at(dir.path(), place("one", 7), true).unwrap();
        assert!(Boots::check_at(dir.path(), place("two", 7), false).unwrap().is_unclean());
        // That start closed the partitions in order, and told nobody.
        let mut boots = Boots::check_at(dir.path(), place("two", 7), true).unwrap();
        assert!(boots.is_unclean());
        boots.told(7).unwrap();
        assert!(!boots.is_unclean());
        assert!(!Boots::check_at(dir.path(), place("two", 7), false).unwrap().is_unclean());
    }

    #[test]
    fn metadata_that_have_become_shorter_are_not_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let boots = || Boots::check_at(dir.path(), place("one", 7), true).unwrap();
        boots().told(40).unwrap();
        for lost in [3, 40] {
            let refused = boots().told(lost).unwrap_err().to_string();
            assert!(refused.contains("Restore the directory of a controller"), "{refused}");
        }
        boots().told(41).unwrap();
        assert_eq!(parse(b"1\nboot=a\ndevice=1\nowed=false\n").map(|record| record.epoch), Some(-1));
    }

    #[test]
    fn boots_that_cannot_be_told_apart_are_taken_for_different_ones() {
        let dir = tempfile::tempdir().unwrap();
        Boots::check_at(dir.path(), place("", 7), true).unwrap();
        assert!(Boots::check_at(dir.path(), place("", 7), false).unwrap().is_unclean());
    }

    #[test]
    fn a_file_that_is_not_understood_is_none() {
        for text in ["", "2\nboot=a\ndevice=1\nowed=false\n", "1\nboot=a\ndevice=x\nowed=false\n", "1\nboot=a\n"] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
