//! How many files this process may have open, and how it shares them out.
//!
//! Sockets, partitions and the metadata database all take from one allowance. When it is used up, whatever comes next
//! fails, be it the most important; so each taker has a share, and a quarter is nobody's.

use std::io;

use rustix::process::{Resource, getrlimit, setrlimit};

/// What is taken for the limit where there is none.
const UNLIMITED: u64 = 1 << 20;

/// Where the kernel lists what this process has open.
#[cfg(target_os = "linux")]
const LISTED_IN: &str = "/proc/self/fd";
#[cfg(not(target_os = "linux"))]
const LISTED_IN: &str = "/dev/fd";

/// Raises the limit as far as this process may, and gives what it is then.
pub fn raise_limit() -> u64 {
    let limits = getrlimit(Resource::Nofile);
    if limits.current != limits.maximum {
        let raised = rustix::process::Rlimit { current: limits.maximum, ..limits };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, limit = ?limits.current, "the limit of open files cannot be raised");
        }
    }
    limit()
}

/// Files that this process may have open.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED)
}

/// Files that this process has open.
///
/// # Errors
/// When the kernel does not list them.
pub fn count() -> io::Result<u64> {
    // The listing itself is one of them.
    Ok((std::fs::read_dir(LISTED_IN)?.count() as u64).saturating_sub(1))
}

/// How a limit is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// For client connections.
    pub connections: usize,
    /// For files of partitions that are kept open.
    pub partition_files: usize,
}

impl Shares {
    /// Half for connections and a quarter for partitions. The rest is for the metadata database, listeners, files that
    /// are open for a moment, and those that an answer still reads after they left the share of the partitions.
    pub fn of(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self { connections: limit / 2, partition_files: limit / 4 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_are_counted() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let before = count().unwrap();
        assert!(before >= 4, "three standard ones and ours");
        assert!(before < limit());
        drop(file);
    }

    #[test]
    fn shares_leave_a_quarter() {
        for limit in [256, 1024, 1 << 20] {
            let shares = Shares::of(limit);
            assert!((shares.connections + shares.partition_files) as u64 <= limit - limit / 4);
        }
        assert!(raise_limit() >= limit().min(256));
    }
}
