//! What is told of the machine: enough to judge the figures, nothing that names it.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use rustix::system::uname;
use serde::{Deserialize, Serialize};

/// The machine of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_mb: u64,
    pub(crate) kernel: String,
    /// Type of the file system that holds both sides' data.
    pub(crate) file_system: String,
    /// The system's congestion control of TCP, which Kafka's connections have; Taffrail's have another one on loopback.
    #[serde(default)]
    pub(crate) congestion_control: String,
}

impl Machine {
    /// Looks at this machine; `data` is where both sides keep their data.
    ///
    /// # Errors
    /// Where there is no `/proc`.
    pub(crate) fn look(data: &Path) -> Result<Self> {
        let processors = fs::read_to_string("/proc/cpuinfo").context("read /proc/cpuinfo")?;
        let memory = fs::read_to_string("/proc/meminfo").context("read /proc/meminfo")?;
        let mounts = fs::read_to_string("/proc/mounts").context("read /proc/mounts")?;
        Ok(Self {
            processor: field(&processors, "model name").unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism()?.get(),
            memory_mb: field(&memory, "MemTotal").and_then(kibibytes).unwrap_or_default() * 1024 / 1_000_000,
            kernel: kernel(&uname().release().to_string_lossy()),
            file_system: file_system(&mounts, &data.canonicalize()?).unwrap_or("unknown").to_owned(),
            congestion_control: fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")
                .map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned()),
        })
    }
}

/// The version of a kernel without the name of its build.
fn kernel(release: &str) -> String {
    format!("Linux {}", release.split('-').next().unwrap_or_default())
}

/// The value after `name` and a colon.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_start_matches(['\t', ' ']).strip_prefix(':')?.trim())
}

/// The number before ` kB`.
pub(crate) fn kibibytes(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?.trim().parse().ok()
}

/// The type of the file system that holds `path`: that of the longest mount point above it.
fn file_system<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (point, kind) = (words.nth(1)?, words.next()?);
        path.starts_with(point).then_some((point.len(), kind))
    });
    mounts.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

/// Gives back the memory of the page cache, where this runs as root; says whether it did. Where memory is full of old files
/// each appended page costs a search for one to drop, by turns one side or the other: up to three times the CPU.
pub(crate) fn drop_page_cache() -> bool {
    fs::write("/proc/sys/vm/drop_caches", "1").is_ok()
}

/// The system's load average of the last minute.
pub(crate) fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

/// Lets the file system give each folder in `folder` a place of its own, where it can. Without a journal, ext4 looks at
/// every file that was deleted nearby within the last minutes before it makes a new one, so that making partitions would
/// cost by what the cells before have deleted.
pub(super) fn spread(folder: &Path) {
    let set = File::open(folder).and_then(|folder| {
        let flags = ioctl_getflags(&folder)?;
        Ok(ioctl_setflags(&folder, flags | IFlags::TOPDIR)?)
    });
    // Other file systems have no such flag, nor the need of it.
    drop(set);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_is_that_of_the_longest_mount_point() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n";
        assert_eq!(file_system(mounts, Path::new("/tmp/data")), Some("tmpfs"));
        assert_eq!(file_system(mounts, Path::new("/tmpfiles")), Some("ext4"));
    }

    #[test]
    fn fields_of_proc_are_found_by_their_names() {
        let text = "model name\t: A processor\nMemTotal:    2048 kB\n";
        assert_eq!(field(text, "model name"), Some("A processor"));
        assert_eq!(field(text, "MemTotal").and_then(kibibytes), Some(2048));
        assert_eq!(field(text, "absent"), None);
    }

    #[test]
    fn the_name_of_a_kernel_build_is_not_told() {
        assert_eq!(kernel("6.18.44-somebody-v1"), "Linux 6.18.44");
    }
}
