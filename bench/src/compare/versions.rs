//! Which programs were measured.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::results::workspace;
use super::sides::binary;

/// Programs and their versions.
///
/// # Errors
/// If one of them cannot be run.
pub(crate) fn all() -> Result<BTreeMap<String, String>> {
    let taffrail = output(Command::new(binary()).arg("version"))?;
    let commit = output(Command::new("git").args(["-C"]).arg(workspace()).args(["rev-parse", "--short", "HEAD"]));
    let kafka =
        output(Command::new("bash").arg(workspace().join("e2e/peer/kafka")).args(["kafka-topics", "--version"]))?;
    let java = output(
        Command::new("bash")
            .arg("-c")
            .arg(format!(". '{}' && \"$(peer_java)\" -version 2>&1", workspace().join("e2e/peer/lib.sh").display())),
    )?;
    let go = output(Command::new("go").arg("version"))?;
    Ok(BTreeMap::from([
        ("Taffrail".to_owned(), format!("{taffrail}, commit {}", commit.unwrap_or_else(|_| "unknown".to_owned()))),
        ("Apache Kafka".to_owned(), kafka),
        ("Java".to_owned(), java),
        ("load tool".to_owned(), go),
    ]))
}

/// Today, as year-month-day.
///
/// # Errors
/// Where there is no `date`.
pub(crate) fn today() -> Result<String> {
    output(Command::new("date").args(["-u", "+%Y-%m-%d"]))
}

/// The first line that a program prints.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}
