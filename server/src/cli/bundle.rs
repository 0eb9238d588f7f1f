//! `taffrail bundle`: what somebody who helps from afar needs to know of a cluster, in one archive. There are no records in it, and
//! nothing that is, or by its name may be, a secret.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use taffrail_client::kafka::{ClusterInfo, KafkaClient, TopicSetting};
use taffrail_runtime::{task, time};

use super::brokers::BrokersArgs;
use super::cluster::{describe, moves};
use super::group::Described;
use super::{metrics, print, quorum, tell};
use crate::exit::{Exit, told};
use crate::nodes;

/// Threads of a command that only asks.
const THREADS: usize = 1;

/// Groups that are looked at one by one.
const GROUPS_MAX: usize = 1_000;

/// How long a scrape may take.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(30);

/// Words in the names of settings whose values stay here.
const SECRETS: [&str; 6] = ["password", "secret", "jaas", "token", "credential", "private"];

const README: &str = "\
What `taffrail bundle` found. Each .json file is what the command of its name prints with -o json; metrics-*.txt are scrapes.
There are no records in here, and no values of settings that are secrets. errors.txt says what could not be asked.
";

/// Arguments of `bundle`.
#[derive(Args, Debug)]
pub(crate) struct BundleArgs {
    /// The archive [default: taffrail-bundle-TIME.tar.gz]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Addresses of the metrics of processes, whose scrapes are to be in it
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    metrics: Vec<String>,
    #[command(flatten)]
    brokers: BrokersArgs,
}

/// Carries out `bundle`.
pub(super) fn run(args: &BundleArgs) -> anyhow::Result<Exit> {
    nodes::check_addresses("--metrics", &args.metrics)?;
    let now_ms = time::unix_ms();
    let mut bundle = Bundle::default();
    task::block_on(THREADS, bundle.collect(args, now_ms))??;
    let time = jiff::Timestamp::from_millisecond(now_ms)?.strftime("%Y%m%dT%H%M%SZ");
    let path = args.to.clone().unwrap_or_else(|| format!("taffrail-bundle-{time}.tar.gz").into());
    let names: Vec<&String> = bundle.files.iter().map(|(name, _)| name).collect();
    let archive = bundle.archive(now_ms)?;
    std::fs::write(&path, &archive).with_context(|| path.display().to_string())?;
    bundle.problems.iter().for_each(|problem| tell(&format!("taffrail: {problem}")));
    let data = json!({ "file": path.display().to_string(), "bytes": archive.len(), "files": names });
    print(args.brokers.output, &data, || format!("{}\n", super::output::shown(&path.display().to_string())))?;
    Ok(if bundle.problems.is_empty() { Exit::Done } else { Exit::Failed })
}

/// What was found.
#[derive(Default)]
struct Bundle {
    /// Names and contents, in the order in which they were found.
    files: Vec<(String, Vec<u8>)>,
    problems: Vec<String>,
}

impl Bundle {
    async fn collect(&mut self, args: &BundleArgs, now_ms: i64) -> anyhow::Result<()> {
        self.files.push(("README.txt".to_owned(), README.into()));
        self.add("version", &json!({ "version": env!("CARGO_PKG_VERSION"), "takenMs": now_ms }))?;
        let mut client = args.brokers.connect().await?;
        let cluster = client.cluster().await?;
        self.cluster(&mut client, &cluster).await?;
        self.groups(&mut client).await?;
        match client.quorum().await {
            Ok(quorum) => {
                self.add("quorum-status", &quorum::status(&quorum, now_ms).0)?;
                self.add("quorum-replication", &quorum::replication(&quorum, false).0)?;
            }
            Err(error) => self.problems.push(told(&error.into())),
        }
        match client.moves().await {
            Ok(moving) => {
                let moving: Vec<Value> = moving.iter().map(moves::data).collect();
                self.add("cluster-moves", &json!({ "moves": moving }))?;
            }
            Err(error) => self.problems.push(told(&error.into())),
        }
        for address in &args.metrics {
            match metrics::scrape(address, "/metrics", SCRAPE_TIMEOUT).await {
                Ok(text) => self.files.push((format!("metrics-{}.txt", address.replace(':', "-")), text.into())),
                Err(error) => self.problems.push(error.to_string()),
            }
        }
        if !self.problems.is_empty() {
            self.files.push(("errors.txt".to_owned(), (self.problems.join("\n") + "\n").into()));
        }
        Ok(())
    }

    async fn cluster(&mut self, client: &mut KafkaClient, cluster: &ClusterInfo) -> anyhow::Result<()> {
        self.add("cluster-info", &describe::info_data(cluster))?;
        let (brokers, problems) = describe::list(client, cluster).await;
        let brokers: Vec<Value> = brokers.iter().map(describe::Listed::data).collect();
        self.add("cluster-brokers", &json!({ "brokers": brokers }))?;
        self.problems.extend(problems);
        let all = cluster.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |it| (topic, it)));
        let partitions: Vec<Value> = all.map(|(topic, it)| describe::partition_data(topic, it)).collect();
        self.add("cluster-partitions", &json!({ "partitions": partitions }))?;
        let names: Vec<String> = cluster.topics.iter().map(|topic| topic.name.clone()).collect();
        match client.topic_settings(&names).await {
            Ok(settings) => {
                let topics = names.iter().zip(&settings);
                let topics: Vec<Value> =
                    topics.map(|(name, settings)| json!({ "name": name, "settings": own(settings) })).collect();
                self.add("topic-settings", &json!({ "topics": topics }))?;
            }
            Err(error) => self.problems.push(told(&error.into())),
        }
        Ok(())
    }

    async fn groups(&mut self, client: &mut KafkaClient) -> anyhow::Result<()> {
        let groups = match client.groups().await {
            Ok(groups) => groups,
            Err(error) => {
                self.problems.push(told(&error.into()));
                return Ok(());
            }
        };
        let mut described = Vec::new();
        for group in groups.iter().take(GROUPS_MAX) {
            match Described::read(client, &group.name).await {
                Ok(group) => described.push(group.data()),
                Err(error) => self.problems.push(told(&error.into())),
            }
        }
        if groups.len() > GROUPS_MAX {
            self.problems.push(format!("only {GROUPS_MAX} of {} groups were looked at", groups.len()));
        }
        self.add("group-describe", &json!({ "groups": described }))
    }

    fn add(&mut self, name: &str, data: &Value) -> anyhow::Result<()> {
        self.files.push((format!("{name}.json"), serde_json::to_vec_pretty(data)?));
        Ok(())
    }

    /// All of it as a compressed archive.
    fn archive(&self, now_ms: i64) -> anyhow::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
        for (name, content) in &self.files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(u64::try_from(now_ms / 1_000).unwrap_or(0));
            archive.append_data(&mut header, format!("taffrail-bundle/{name}"), content.as_slice())?;
        }
        let mut compressed = archive.into_inner()?;
        compressed.flush()?;
        Ok(compressed.finish()?)
    }
}

/// The settings that are a topic's own, without secrets.
fn own(settings: &[TopicSetting]) -> Value {
    let value = |setting: &TopicSetting| {
        let is_secret = setting.sensitive || SECRETS.iter().any(|word| setting.name.to_lowercase().contains(word));
        if is_secret { Value::Null } else { json!(setting.value) }
    };
    settings
        .iter()
        .filter(|it| it.is_own())
        .map(|it| (it.name.clone(), value(it)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stay_here() {
        let setting = |name: &str, source, sensitive| TopicSetting {
            name: name.to_owned(),
            value: Some("v".to_owned()),
            source,
            sensitive,
        };
        let settings = [
            setting("retention.ms", 1, false),
            setting("some.Password", 1, false),
            setting("hidden", 1, true),
            setting("segment.ms", 5, false),
        ];
        assert_eq!(own(&settings), json!({ "retention.ms": "v", "some.Password": null, "hidden": null }));
    }
}
