//! The first thing that people see.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use taffrail_core::event::ConfigResource;
use taffrail_core::ids::Uuid;
use taffrail_core::image::MetadataImage;
use taffrail_operator::local::Pass;

use crate::nodes;
use crate::roles::DataDir;

/// Topics that are named; the rest is counted.
const TOPICS_NAMED: usize = 4;

/// What runs, where the data are, and what to try next: at most eleven lines.
pub(super) struct Summary<'a> {
    pub(super) cluster_id: Uuid,
    /// Where the brokers are, in their order.
    pub(super) clients: &'a [(String, u16)],
    pub(super) controllers: i32,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) console: Option<SocketAddr>,
    pub(super) data: &'a DataDir,
    pub(super) files: &'a [PathBuf],
    pub(super) pass: &'a Pass,
    pub(super) image: &'a MetadataImage,
    pub(super) took: Duration,
}

impl Summary<'_> {
    /// Any broker is as good as another to begin with.
    fn bootstrap(&self) -> String {
        self.clients.first().map(address).unwrap_or_default()
    }

    /// How many there are, where that is worth a line.
    fn nodes(&self) -> Option<String> {
        let brokers = self.clients.len();
        if brokers <= 1 && self.controllers <= 1 {
            return None;
        }
        let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let addresses: Vec<String> = self.clients.iter().map(address).collect();
        let controllers = usize::try_from(self.controllers).unwrap_or(1);
        Some(format!(
            "{} at {}; {}",
            counted(brokers, "broker"),
            addresses.join(", "),
            counted(controllers, "controller")
        ))
    }

    fn data(&self) -> String {
        let path = self.data.path().display();
        if self.data.ephemeral {
            format!("{path} (removed at exit)")
        } else if self.data.fresh {
            format!("{path} (new)")
        } else {
            format!("{path} (found again)")
        }
    }

    fn topics(&self) -> (String, Option<String>) {
        let topics: Vec<_> = self.image.topics().iter().filter(|topic| !topic.name.starts_with("__")).collect();
        let described = topics.iter().take(TOPICS_NAMED).map(|topic| match topic.partition_count() {
            1 => format!("{} (1 partition)", topic.name),
            count => format!("{} ({count} partitions)", topic.name),
        });
        let mut text = described.collect::<Vec<_>>().join(", ");
        match topics.len().saturating_sub(TOPICS_NAMED) {
            _ if topics.is_empty() => text = "none yet; a client that writes to one creates it".to_owned(),
            0 => {}
            more => text.push_str(&format!(", and {more} more")),
        }
        // Compacted topics take no records without a key, which would make a poor first try.
        let compacted = |name: &str| {
            let overrides = self.image.overrides(&ConfigResource::topic(name));
            overrides.is_some_and(|own| own.get("cleanup.policy").is_some_and(|policy| policy.contains("compact")))
        };
        let first = topics.iter().find(|topic| !compacted(&topic.name));
        (text, first.map(|topic| topic.name.to_string()))
    }

    fn trouble(&self) -> Option<String> {
        let waiting = self.pass.topics.iter().filter(|topic| !topic.ready()).count();
        match waiting {
            _ if self.pass.cluster_refused.is_some() => {
                Some("settings of the Cluster were refused: see the log".to_owned())
            }
            0 => None,
            1 => Some("1 topic is not as its resource says: see the log".to_owned()),
            count => Some(format!("{count} topics are not as their resources say: see the log")),
        }
    }
}

/// Host and port as one word.
fn address((host, port): &(String, u16)) -> String {
    nodes::address(host, *port)
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = env!("CARGO_PKG_VERSION");
        let (topics, first) = self.topics();
        let topic = first.as_deref().unwrap_or("events");
        let bootstrap = self.bootstrap();
        writeln!(f, "Taffrail {version} is up, {:.2} s after its start", self.took.as_secs_f64())?;
        writeln!(f, "  clients  {bootstrap}   (bootstrap.servers of any Kafka client)")?;
        if let Some(nodes) = self.nodes() {
            writeln!(f, "  nodes    {nodes}")?;
        }
        if let Some(console) = self.console {
            writeln!(f, "  console  http://{console}/")?;
        }
        if let Some(metrics) = self.metrics {
            writeln!(f, "  metrics  http://{metrics}/metrics")?;
        }
        writeln!(f, "  data     {}, cluster {}", self.data(), self.cluster_id)?;
        writeln!(f, "  topics   {topics}")?;
        if let Some(trouble) = self.trouble() {
            writeln!(f, "  trouble  {trouble}")?;
        }
        if let Some(file) = self.files.first() {
            let more = if self.files.len() > 1 { format!(" and {} more", self.files.len() - 1) } else { String::new() };
            writeln!(f, "  file     {}{more}; edit it, and the cluster follows", file.display())?;
        }
        writeln!(
            f,
            "  try      echo hello | kcat -b {bootstrap} -t {topic} -P && kcat -b {bootstrap} -t {topic} -C -e"
        )?;
        writeln!(f, "Ctrl-C stops it.")
    }
}
