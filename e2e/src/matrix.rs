//! The client matrix: runs the scenario of `e2e/clients` with one client against a broker.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// What a scenario said, for people, and the steps that failed.
#[derive(Debug)]
pub struct Outcome {
    /// Everything that was printed.
    pub output: String,
    /// The lines `step NAME FAIL DETAIL`, in order. The first is the one to read: later steps build on earlier ones.
    pub failures: Vec<String>,
    /// Whether the scenario came to its end and no step failed.
    pub passed: bool,
}

/// Every client of the matrix with the reason why it cannot be run here, if there is one.
///
/// # Errors
/// If `e2e/setup/install status` cannot be run.
pub fn clients() -> Result<Vec<(String, Option<String>)>> {
    let said =
        Command::new(e2e().join("setup/install")).arg("status").output().context("run e2e/setup/install status")?;
    ensure!(said.status.success(), "e2e/setup/install status: {}", String::from_utf8_lossy(&said.stderr));
    let client = |line: &str| {
        let (name, state) = line.split_once(' ')?;
        let missing = match state {
            "ok" => None,
            other => Some(other.strip_prefix("missing ")?.to_owned()),
        };
        Some((name.to_owned(), missing))
    };
    String::from_utf8_lossy(&said.stdout)
        .lines()
        .map(|line| client(line).with_context(|| format!("not a state of a client: {line}")))
        .collect()
}

/// Tells whether a client can be run here. If not, that is said where a test's captured output is not lost.
///
/// # Errors
/// If the client is missing while `CI=true`, where nothing may be skipped; if it is not in the matrix at all.
pub fn is_installed(client: &str) -> Result<bool> {
    let Some((_, missing)) = clients()?.into_iter().find(|(name, _)| name == client) else {
        bail!("{client} is not in the matrix");
    };
    let Some(reason) = missing else { return Ok(true) };
    ensure!(std::env::var("CI").as_deref() != Ok("true"), "{client} is missing, and CI may skip nothing: {reason}");
    // Not eprintln: the test harness would keep that to itself.
    writeln!(std::io::stderr(), "\n*** SKIPPED: {client}: {reason}")?;
    Ok(false)
}

/// Runs the scenario with one client. `prefix` names its topics and groups and must be new to the broker.
///
/// # Errors
/// If `e2e/clients/run` cannot be run.
pub fn run(client: &str, bootstrap: &str, prefix: &str) -> Result<Outcome> {
    let said = Command::new(e2e().join("clients/run"))
        .args([client, bootstrap, prefix])
        .stdin(Stdio::null())
        .output()
        .context("run e2e/clients/run")?;
    let output = [said.stdout, said.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    let failures: Vec<String> = output.lines().filter(|line| line.contains(" FAIL ")).map(str::to_owned).collect();
    let passed = said.status.success() && failures.is_empty() && output.contains(" ok ");
    Ok(Outcome { output: format!("{output}{}\n", said.status), failures, passed })
}

fn e2e() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}
