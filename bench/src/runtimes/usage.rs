//! What a process has used, from Linux's `/proc/<pid>/task/<tid>/schedstat`: exact to the nanosecond where
//! `/proc/<pid>/stat` counts hundredths of a second.

use std::fs;
use std::io;

/// Sums over the threads of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Time on a processor, in user and kernel mode.
    pub(crate) cpu_ns: u64,
    /// How often a thread was put on a processor.
    pub(crate) switches: u64,
}

impl Usage {
    /// Of the threads that process `pid` has now.
    ///
    /// # Errors
    /// When the process is gone, or the system does not count.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let mut sum = Self::default();
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let text = fs::read_to_string(thread?.path().join("schedstat"))?;
            let numbers: Vec<u64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
            let [cpu_ns, _waited_ns, switches] = numbers[..] else {
                return Err(io::Error::other(format!("schedstat is not three numbers: {text:?}")));
            };
            sum.cpu_ns += cpu_ns;
            sum.switches += switches;
        }
        Ok(sum)
    }

    /// What was added since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            switches: self.switches.saturating_sub(before.switches),
        }
    }
}
