//! `taffrail up` as a process of its own, with a data directory of its own.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::client::Client;
use crate::runtimes::usage::Usage;

/// Pause between two attempts to connect to a process that starts.
const CONNECT_PAUSE: Duration = Duration::from_micros(500);
/// How long a process may take until it takes connections.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A process that runs, or was killed and can be started again.
pub(super) struct Process {
    program: PathBuf,
    dir: TempDir,
    address: SocketAddr,
    child: Child,
    started: Instant,
}

impl Process {
    /// Starts one on an empty directory.
    ///
    /// # Errors
    /// When there is no such program.
    pub(super) fn start(program: &Path) -> io::Result<Self> {
        let dir = TempDir::with_prefix("taffrail-bench-")?;
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let program = program.to_owned();
        let started = Instant::now();
        let child = spawn(&program, dir.path(), address)?;
        Ok(Self { program, dir, address, child, started })
    }

    /// Kills it, and starts it again on what it has left.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.start_again()
    }

    /// Kills it, changes what it has left, and starts it again.
    ///
    /// # Errors
    /// When it cannot be started or the change fails.
    pub(super) fn restart_after(&mut self, change: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        change(&self.dir.path().join("logs"))?;
        self.start_again()
    }

    fn start_again(&mut self) -> io::Result<()> {
        self.started = Instant::now();
        self.child = spawn(&self.program, self.dir.path(), self.address)?;
        Ok(())
    }

    /// A connection, as soon as one is taken.
    ///
    /// # Errors
    /// When none is.
    pub(super) fn connect(&mut self) -> io::Result<Client> {
        loop {
            match Client::connect(self.address) {
                Ok(client) => return Ok(client),
                Err(error) if self.started.elapsed() > START_TIMEOUT => return Err(error),
                Err(_) => {}
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("taffrail has ended: {status}")));
            }
            std::thread::sleep(CONNECT_PAUSE);
        }
    }

    /// Time since it was started last.
    pub(super) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Memory that it occupies, in MB: all, and what is not the program's own file.
    ///
    /// # Errors
    /// Where `/proc` does not tell.
    pub(super) fn memory_mb(&self) -> io::Result<(f64, f64)> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let mb = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
            value.and_then(|value| value.parse::<f64>().ok()).map(|kb| kb * 1024.0 / 1e6)
        };
        match (mb("VmRSS:"), mb("RssAnon:")) {
            (Some(all), Some(own)) => Ok((all, own)),
            _ => Err(io::Error::other("no VmRSS")),
        }
    }

    /// Processor time that it takes over `time`, in percent of one processor, and how often a thread woke in a second.
    ///
    /// # Errors
    /// Where `/proc` does not tell.
    pub(super) fn idle(&self, time: Duration) -> io::Result<(f64, f64)> {
        let before = Usage::of(self.child.id())?;
        std::thread::sleep(time);
        let used = Usage::of(self.child.id())?.since(&before);
        let seconds = time.as_secs_f64();
        Ok((used.cpu_ns as f64 / 1e9 / seconds * 100.0, used.switches as f64 / seconds))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(program: &Path, dir: &Path, address: SocketAddr) -> io::Result<Child> {
    Command::new(program)
        .args(["up", "--metrics", "off", "--log-filter", "warn", "--listen", &address.to_string(), "--data-dir"])
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
}
