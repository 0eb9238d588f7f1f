//! The load tool, `bench/load`: the neutral client that both sides get.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::results::{Figures, workspace};
use super::sides::{Endpoint, NodeId};

/// The built tool.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    program: PathBuf,
}

/// How a workload is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// Measured time.
    pub(crate) measured: Duration,
    /// Load before.
    pub(crate) warm_up: Duration,
    /// Pause after the topic was deleted.
    pub(crate) settle: Duration,
}

/// One run, as the tool writes it.
#[derive(Debug, Deserialize)]
struct ToolRun {
    workload: String,
    #[serde(default)]
    error: String,
    figures: Figures,
}

impl Tool {
    /// Builds the tool, or finds it built.
    ///
    /// # Errors
    /// Where there is no Go, or its modules cannot be had.
    pub(crate) fn build() -> Result<Self> {
        let output = Command::new("bash")
            .arg(workspace().join("bench/load/build"))
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("run bench/load/build")?;
        ensure!(output.status.success(), "bench/load/build: {} (it needs Go)", output.status);
        Ok(Self { program: String::from_utf8_lossy(&output.stdout).trim().into() })
    }

    /// Puts a mixed load on a broker for a while, so that a JVM has compiled its code.
    ///
    /// # Errors
    /// If the broker refuses anything.
    pub(crate) fn prime(&self, broker: &dyn Endpoint, time: Duration) -> Result<()> {
        let time = seconds(time);
        self.print("measure", broker, &["-prime", &time, "-repeat", "0"]).map(drop)
    }

    /// Runs one workload. `more` are further flags.
    ///
    /// # Errors
    /// If the broker refuses anything, or nothing comes through.
    pub(crate) fn measure(&self, broker: &dyn Endpoint, workload: &str, span: &Span, more: &[&str]) -> Result<Figures> {
        let folder = tempfile::tempdir()?;
        let json = folder.path().join("runs.json");
        let pids: Vec<String> = broker.brokers()?.iter().map(|process| process.pid.to_string()).collect();
        let pids = pids.join(",");
        let [measured, warm_up, settle] = [span.measured, span.warm_up, span.settle].map(seconds);
        let output = self
            .command("measure", broker)
            .args(["-prime", "0", "-only", workload, "-pids", &pids])
            .args(["-seconds", &measured, "-warm", &warm_up, "-settle", &settle])
            .args(more)
            .arg("-json")
            .arg(&json)
            .output()
            .context("run the load tool")?;
        let run = last_run(&json, workload);
        match run {
            Ok(run) if output.status.success() => Ok(run.figures),
            Ok(run) if !run.error.is_empty() => bail!("{workload}: {}", run.error),
            _ => bail!("{workload}: {}", String::from_utf8_lossy(&output.stderr).trim()),
        }
    }

    /// Begins to wait for a first acknowledgement by `brokers` brokers; [`Waiting::at_ns`] says when it came.
    ///
    /// # Errors
    /// If the tool cannot be started.
    pub(crate) fn await_ack_of(&self, brokers: usize, endpoint: &dyn Endpoint) -> Result<Waiting> {
        let mut command = self.command("ack", endpoint);
        command.args(["-brokers", &brokers.to_string()]);
        Waiting::start(command)
    }

    /// As [`Self::await_ack_of`], of one broker.
    ///
    /// # Errors
    /// If the tool cannot be started.
    pub(crate) fn await_ack(&self, broker: &dyn Endpoint) -> Result<Waiting> {
        Waiting::start(self.command("ack", broker))
    }

    /// Begins to wait until every partition of a topic answers.
    ///
    /// # Errors
    /// If the tool cannot be started.
    pub(crate) fn await_topic(&self, broker: &dyn Endpoint, topic: &str) -> Result<Waiting> {
        let mut command = self.command("ready", broker);
        command.args(["-topic", topic, "-timeout", "5m"]);
        Waiting::start(command)
    }

    /// Creates a topic and says how long it took until all its partitions answered, in seconds.
    ///
    /// # Errors
    /// If the broker refuses it.
    pub(crate) fn create(&self, broker: &dyn Endpoint, topic: &str, partitions: u32) -> Result<f64> {
        self.create_with(broker, topic, partitions, 0)
    }

    /// As [`Self::create`] with a replication factor of its own; 0 stands for three where there are three brokers.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub(crate) fn create_with(
        &self,
        broker: &dyn Endpoint,
        topic: &str,
        partitions: u32,
        replication: u32,
    ) -> Result<f64> {
        let (partitions, replication) = (partitions.to_string(), replication.to_string());
        let arguments = ["-topic", topic, "-partitions", &partitions, "-replication", &replication, "-timeout", "5m"];
        number(&self.print("create", broker, &arguments)?, "answers_s")
    }

    /// Starts the probe that watches while nodes are killed and halted.
    ///
    /// # Errors
    /// If the tool cannot be started.
    pub(crate) fn probe(&self, endpoint: &dyn Endpoint) -> Result<Probe> {
        Probe::start(self.command("faults", endpoint))
    }

    /// Creates a topic and fills it. `more` are the flags that say with what.
    ///
    /// # Errors
    /// If the broker refuses anything.
    pub(crate) fn fill(&self, broker: &dyn Endpoint, topic: &str, more: &[&str]) -> Result<()> {
        let arguments: Vec<&str> = ["-topic", topic].iter().chain(more).copied().collect();
        self.print("fill", broker, &arguments).map(drop)
    }

    fn command(&self, verb: &str, broker: &dyn Endpoint) -> Command {
        let mut command = Command::new(&self.program);
        command.args([verb, "-bootstrap", &broker.bootstrap()]).stdin(Stdio::null());
        command
    }

    fn print(&self, verb: &str, broker: &dyn Endpoint, arguments: &[&str]) -> Result<String> {
        let output = self.command(verb, broker).args(arguments).output().context("run the load tool")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "load {verb}: {}", said.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The tool's probe: it sends one record after the other to one partition, without back-off, and takes orders.
#[derive(Debug)]
pub(crate) struct Probe {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// Who does what in a cluster where all is in sync.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    /// Who leads the probe's partition.
    pub(crate) leader: NodeId,
    /// The active controller.
    pub(crate) controller: NodeId,
}

impl Probe {
    fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().context("run the load tool")?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let answers = BufReader::new(answers.context("the load tool's output is a pipe")?);
        Ok(Self { child, orders, answers })
    }

    /// Waits until every replica is in sync, every controller has caught up, and the leader has been the same for a while.
    ///
    /// # Errors
    /// If that does not happen.
    pub(crate) fn settle(&mut self) -> Result<Settled> {
        let answer = self.order("settle")?;
        Ok(Settled { leader: number(&answer, "leader")?, controller: number(&answer, "controller")? })
    }

    /// Milliseconds from `since_ns` (Unix time) to the first acknowledgement by another leader than the last settled one.
    ///
    /// # Errors
    /// If none comes.
    pub(crate) fn resumed_ms(&mut self, since_ns: i64) -> Result<f64> {
        number(&self.order(&format!("resumed {since_ns}"))?, "resumed_ms")
    }

    /// Has another replica lead; milliseconds that a record waited at most around that.
    ///
    /// # Errors
    /// If that is refused, or a real client was told of an error.
    pub(crate) fn moved_ms(&mut self) -> Result<f64> {
        number(&self.order("move")?, "longest_ms")
    }

    /// Milliseconds from `since_ns` (Unix time) until a change of the metadata has succeeded.
    ///
    /// # Errors
    /// If none succeeds.
    pub(crate) fn changed_ms(&mut self, since_ns: i64) -> Result<f64> {
        number(&self.order(&format!("change {since_ns}"))?, "changed_ms")
    }

    fn order(&mut self, order: &str) -> Result<String> {
        let orders = self.orders.as_mut().context("the probe has ended")?;
        writeln!(orders, "{order}").with_context(|| format!("the probe has ended before {order}"))?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        ensure!(!answer.is_empty(), "the probe has ended at {order}");
        Ok(answer)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // The end of its orders ends it, and it takes its topic away; it may have ended by itself.
        drop(self.orders.take());
        let _ended = self.child.wait();
    }
}

/// The tool while it waits for a broker.
#[derive(Debug)]
pub(crate) struct Waiting {
    child: Option<Child>,
}

impl Waiting {
    fn start(mut command: Command) -> Result<Self> {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("run the load tool")?;
        Ok(Self { child: Some(child) })
    }

    /// Waits, and says when it came, in nanoseconds of Unix time.
    ///
    /// # Errors
    /// If it did not come in time.
    pub(crate) fn at_ns(mut self) -> Result<i64> {
        let output = self.child.take().context("it was waited for")?.wait_with_output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        number(&String::from_utf8_lossy(&output.stdout), "at_ns")
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ended = child.kill().and_then(|()| child.wait());
        }
    }
}

/// The run of `workload` in what the tool wrote.
fn last_run(json: &Path, workload: &str) -> Result<ToolRun> {
    let runs: Vec<ToolRun> = serde_json::from_slice(&std::fs::read(json)?)?;
    runs.into_iter().rfind(|run| run.workload == workload).context("the load tool wrote no run")
}

/// The number after `name` in a line of names and numbers.
fn number<T: std::str::FromStr>(line: &str, name: &str) -> Result<T> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let pairs: BTreeMap<&str, &str> = words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let value = pairs.get(name).and_then(|value| value.parse().ok());
    value.with_context(|| format!("no {name} in what the load tool said: {line:?}"))
}

/// A time as Go's flags take it.
fn seconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_the_name_before_them() {
        let line = "partitions 2000 ready_s 0.250 at_ns 17000000000000000\n";
        assert_eq!(number::<i64>(line, "at_ns").unwrap(), 17_000_000_000_000_000);
        assert_eq!(number::<f64>(line, "ready_s").unwrap(), 0.25);
        assert!(number::<i64>(line, "absent").is_err());
    }
}
