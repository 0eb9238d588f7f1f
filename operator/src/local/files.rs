//! Notices that files changed, by looking.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What tells one state of a file from another; `None` = it cannot be seen.
type Stamp = Option<(SystemTime, u64, u64)>;

/// Some files, and how they were when they were last looked at.
pub(super) struct FileWatch {
    files: Vec<PathBuf>,
    /// As they were when a change was last told.
    told: Vec<Stamp>,
    /// As they were at the last look.
    last: Vec<Stamp>,
}

fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}

impl FileWatch {
    /// Watches files from now on.
    pub(super) fn new(files: &[PathBuf]) -> Self {
        let now: Vec<Stamp> = files.iter().map(|file| stamp(file)).collect();
        Self { files: files.to_vec(), told: now.clone(), last: now }
    }

    /// Whether files changed since the last `true`, and are at rest since the last look: an editor may write in several
    /// steps, and half a file may read like a whole one with fewer topics.
    pub(super) fn settled_on_a_change(&mut self) -> bool {
        let now: Vec<Stamp> = self.files.iter().map(|file| stamp(file)).collect();
        let at_rest = now == self.last;
        self.last = now;
        if at_rest && self.last != self.told {
            self.told.clone_from(&self.last);
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once_and_only_when_the_file_is_at_rest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        std::fs::write(&path, "one").unwrap();
        let mut watch = FileWatch::new(std::slice::from_ref(&path));
        assert!(!watch.settled_on_a_change());
        std::fs::write(&path, "").unwrap();
        assert!(!watch.settled_on_a_change(), "still moving");
        std::fs::write(&path, "two words").unwrap();
        assert!(!watch.settled_on_a_change(), "still moving");
        assert!(watch.settled_on_a_change());
        assert!(!watch.settled_on_a_change());
        std::fs::remove_file(&path).unwrap();
        assert!(!watch.settled_on_a_change());
        assert!(watch.settled_on_a_change(), "a file that is gone has changed");
    }
}
