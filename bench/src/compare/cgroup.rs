//! A cgroup that limits the memory of a process with its page cache. It needs root.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::sides::Process;

/// Where the hierarchies are: version 2, and version 1's of memory.
const UNIFIED: &str = "/sys/fs/cgroup";
const MEMORY_V1: &str = "/sys/fs/cgroup/memory";

/// A group of its own; it is removed when it is dropped, which needs its processes to have ended.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    group: PathBuf,
}

impl MemoryLimit {
    /// Makes a group that may hold so many bytes.
    ///
    /// # Errors
    /// Without root, or where neither version of cgroups controls memory.
    pub(crate) fn create(bytes: u64) -> Result<Self> {
        let controllers = fs::read_to_string(Path::new(UNIFIED).join("cgroup.controllers")).unwrap_or_default();
        let unified = controllers.split_whitespace().any(|controller| controller == "memory");
        let (hierarchy, limit) = if unified { (UNIFIED, "memory.max") } else { (MEMORY_V1, "memory.limit_in_bytes") };
        if unified {
            fs::write(Path::new(UNIFIED).join("cgroup.subtree_control"), "+memory")
                .context("let child cgroups control memory (it needs root)")?;
        }
        let group = Path::new(hierarchy).join(format!("taffrail-bench-{}", std::process::id()));
        fs::create_dir(&group).context("make a cgroup (it needs root and a memory controller)")?;
        let made = Self { group };
        fs::write(made.group.join(limit), bytes.to_string()).context("limit the memory of a cgroup")?;
        Ok(made)
    }

    /// Puts a process into the group. What it holds already does not count, what it takes from now on does.
    ///
    /// # Errors
    /// When the process is gone.
    pub(crate) fn hold(&self, process: Process) -> Result<()> {
        fs::write(self.group.join("cgroup.procs"), process.pid.to_string()).context("put the broker into a cgroup")
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // A group that is left over harms nobody.
        let _removed = fs::remove_dir(&self.group);
    }
}
