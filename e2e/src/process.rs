//! A `taffrail up` process for a test: started on free ports of loopback with a folder of its own, ended with the test.
//!
//! The binary is the one that `TAFFRAIL_BIN` names, else the newest that cargo has built.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long a process may take until it says that it is ready, and until it has ended after SIGTERM.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// A port that was free may be taken by another process before ours listens there: then others are tried.
const START_ATTEMPTS: usize = 3;
/// How much of the end of the log goes into an error.
const LOG_TAIL_BYTES: usize = 4_000;

/// A running `taffrail up`, or one that was stopped or killed and can be started again on its data.
#[derive(Debug)]
pub struct Server {
    child: Child,
    folder: TempDir,
    kafka: SocketAddr,
    metrics: SocketAddr,
    /// Environment variables with their values.
    settings: Vec<(String, String)>,
}

impl Server {
    /// Starts a process with an empty data folder and waits until it is ready. `settings` are broker settings under
    /// Kafka's names.
    ///
    /// # Errors
    /// If there is no binary, if the process ends, or if it is not ready in time; with the end of its log.
    pub fn start(settings: &[(&str, &str)]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("taffrail-e2e-").tempdir().context("make a data folder")?;
        let settings: Vec<(String, String)> =
            settings.iter().map(|(name, value)| (variable(name), (*value).to_owned())).collect();
        let mut attempt = 1;
        loop {
            let (kafka, metrics) = (free_address()?, free_address()?);
            match launch(folder.path(), kafka, metrics, &settings) {
                Ok(child) => return Ok(Self { child, folder, kafka, metrics, settings }),
                Err(error) if attempt == START_ATTEMPTS => return Err(error),
                Err(_) => attempt += 1,
            }
        }
    }

    /// Where Kafka clients connect to, as `host:port`.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.kafka.to_string()
    }

    /// Where `/metrics`, `/healthz` and `/readyz` are served.
    #[must_use]
    pub fn metrics(&self) -> SocketAddr {
        self.metrics
    }

    /// The folder with the partitions and the metadata log.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        data_dir(self.folder.path())
    }

    /// The end of what the process has logged so far, over all its starts.
    #[must_use]
    pub fn log_tail(&self) -> String {
        log_tail(self.folder.path())
    }

    /// Sends SIGTERM and waits for the end of the process.
    ///
    /// # Errors
    /// If it does not end in time; it is killed then.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            sleep(POLL_INTERVAL);
        }
        self.kill()?;
        bail!("taffrail had not ended {} s after SIGTERM: {}", STOP_TIMEOUT.as_secs(), self.log_tail())
    }

    /// Sends SIGKILL and waits for the end of the process.
    ///
    /// # Errors
    /// If it had ended by itself before, or the signal cannot be sent.
    pub fn kill(&mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.child.wait().context("wait for the killed process")?;
        Ok(())
    }

    /// Starts a stopped or killed process again, on its data and at its addresses.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_again(&mut self) -> Result<()> {
        ensure!(self.child.try_wait()?.is_some(), "it runs");
        self.child = launch(self.folder.path(), self.kafka, self.metrics, &self.settings)?;
        Ok(())
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        // The pid is ours until we have waited for it, so nobody else can be hit.
        if let Some(status) = self.child.try_wait()? {
            bail!("taffrail had ended by itself with {status}: {}", self.log_tail());
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("a pid out of range")?;
        kill_process(pid, signal).context("send a signal")
    }
}

impl Drop for Server {
    /// A failed test leaves no process behind; the folder goes with its `TempDir`.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _gone = self.child.kill().and_then(|()| self.child.wait());
        }
    }
}

fn data_dir(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// The environment variable of a broker setting.
fn variable(name: &str) -> String {
    format!("TAFFRAIL_{}", name.to_uppercase().replace('.', "_"))
}

fn log_file(folder: &Path) -> PathBuf {
    folder.join("taffrail.log")
}

fn log_tail(folder: &Path) -> String {
    let log = std::fs::read(log_file(folder)).unwrap_or_default();
    String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
}

fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("look for a free port")?;
    Ok(listener.local_addr()?)
}

fn binary() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("TAFFRAIL_BIN") {
        return Ok(named.into());
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace's folder")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    ["release", "debug"]
        .map(|profile| target.join(profile).join("taffrail"))
        .into_iter()
        .filter_map(|path| Some((path.metadata().and_then(|m| m.modified()).ok()?, path)))
        .max()
        .map(|(_, path)| path)
        .with_context(|| format!("no binary in {} (make build, or set TAFFRAIL_BIN)", target.display()))
}

/// Starts one process and waits until it is ready; a process that is not is ended.
fn launch(folder: &Path, kafka: SocketAddr, metrics: SocketAddr, settings: &[(String, String)]) -> Result<Child> {
    let binary = binary()?;
    let log = File::options().create(true).append(true).open(log_file(folder)).context("open the log")?;
    // What this process was told (TAFFRAIL_BIN, for one) is not for the one it starts, which refuses unknown settings.
    let ours = std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("TAFFRAIL_"));
    let mut child = Command::new(&binary)
        .env_clear()
        .envs(ours)
        .envs(settings.iter().map(|(name, value)| (name, value)))
        .args(["up", "--listen", &kafka.to_string(), "--metrics", &metrics.to_string()])
        .arg("--data-dir")
        .arg(data_dir(folder))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("start {}", binary.display()))?;
    let ready = await_ready(&mut child, metrics);
    if ready.is_err() {
        let _gone = child.kill().and_then(|()| child.wait());
    }
    ready.with_context(|| log_tail(folder))?;
    Ok(child)
}

fn await_ready(child: &mut Child, metrics: SocketAddr) -> Result<()> {
    let deadline = Instant::now() + READY_TIMEOUT;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            bail!("taffrail ended with {status} before it was ready");
        }
        if is_ready(metrics)? {
            return Ok(());
        }
        sleep(POLL_INTERVAL);
    }
    bail!("taffrail was not ready within {} s", READY_TIMEOUT.as_secs())
}

/// Asks `/readyz` once.
fn is_ready(metrics: SocketAddr) -> Result<bool> {
    let mut stream = match TcpStream::connect(metrics) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(false),
        other => other.context("connect to /readyz")?,
    };
    stream.set_read_timeout(Some(READY_TIMEOUT))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer.starts_with(b"HTTP/1.1 200 "))
}
