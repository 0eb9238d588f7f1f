//! `taffrail cluster info`, `brokers` and `partitions`: what there is, as brokers tell it over Kafka's protocol.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};
use taffrail_client::kafka::{ClusterBroker, ClusterInfo, KafkaClient, LogDir, Partition, Topic, TopicSetting};

use crate::cli::brokers::{BrokersArgs, known, numbers};
use crate::cli::{completion, print, table, tell};
use crate::exit::{Exit, told};

/// Setting that says how many replicas must be in sync.
const MIN_IN_SYNC: &str = "min.insync.replicas";

/// Arguments of `cluster info`.
#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    brokers: BrokersArgs,
}

/// Arguments of `cluster brokers`.
#[derive(Args, Debug)]
pub(crate) struct BrokerListArgs {
    #[command(flatten)]
    brokers: BrokersArgs,
}

/// Arguments of `cluster partitions`.
#[derive(Args, Debug)]
pub(crate) struct PartitionsArgs {
    /// Names of topics [default: all but what the cluster keeps for itself]
    #[arg(value_name = "TOPIC", add = completion::topics())]
    topics: Vec<String>,
    /// Also what the cluster keeps for itself
    #[arg(long)]
    internal: bool,
    /// Only partitions that lack replicas in sync
    #[arg(long)]
    under_replicated: bool,
    /// Only partitions with fewer replicas in sync than min.insync.replicas
    #[arg(long)]
    under_min_isr: bool,
    /// Only partitions with as many replicas in sync as min.insync.replicas, so that none may go
    #[arg(long)]
    at_min_isr: bool,
    /// Only partitions that nobody leads
    #[arg(long)]
    unavailable: bool,
    /// Only partitions that another broker leads than the first of their replicas
    #[arg(long)]
    not_preferred: bool,
    /// Only partitions that this broker keeps
    #[arg(long, value_name = "ID")]
    broker: Option<i32>,
    #[command(flatten)]
    brokers: BrokersArgs,
}

pub(super) async fn info(args: &InfoArgs) -> anyhow::Result<Exit> {
    let data = info_data(&args.brokers.connect().await?.cluster().await?);
    print(args.brokers.output, &data, || {
        let rows = [
            ("cluster id", "clusterId"),
            ("brokers", "brokers"),
            ("topics", "topics"),
            ("partitions", "partitions"),
            ("replicas", "replicas"),
            ("partitions under-replicated", "underReplicated"),
            ("partitions without a leader", "unavailable"),
        ];
        let text = |value: &Value| match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let rows: Vec<Vec<String>> =
            rows.iter().map(|(what, name)| vec![(*what).to_owned(), text(&data[*name])]).collect();
        table(&["WHAT", "VALUE"], &rows)
    })?;
    Ok(Exit::Done)
}

/// What there is, for programs.
pub(in crate::cli) fn info_data(cluster: &ClusterInfo) -> Value {
    let count = |is: fn(&Partition) -> bool| {
        cluster.topics.iter().flat_map(|topic| &topic.partitions).filter(|partition| is(partition)).count()
    };
    json!({
        "clusterId": cluster.cluster_id,
        "brokers": cluster.brokers.len(),
        "topics": cluster.topics.len(),
        "partitions": count(|_| true),
        "replicas": cluster.topics.iter().map(replicas).sum::<usize>(),
        "underReplicated": count(Partition::is_under_replicated),
        "unavailable": count(|it| it.leader.is_none()),
    })
}

fn replicas(topic: &Topic) -> usize {
    topic.partitions.iter().map(|partition| partition.replicas.len()).sum()
}

pub(super) async fn brokers(args: &BrokerListArgs) -> anyhow::Result<Exit> {
    let mut client = args.brokers.connect().await?;
    let cluster = client.cluster().await?;
    let (listed, problems) = list(&mut client, &cluster).await;
    problems.iter().for_each(|problem| tell(&format!("taffrail: {problem}")));
    let data: Vec<Value> = listed.iter().map(Listed::data).collect();
    let wide = args.brokers.is_wide();
    print(args.brokers.output, &json!({ "brokers": data }), || {
        let headers = ["BROKER", "HOST", "PORT", "RACK", "LEADS", "KEEPS", "BYTES", "DISK", "FREE", "DIRECTORIES"];
        let rows: Vec<Vec<String>> = listed.iter().map(|listed| listed.row(wide)).collect();
        table(&headers[..if wide { 10 } else { 7 }], &rows)
    })?;
    Ok(if problems.is_empty() { Exit::Done } else { Exit::Failed })
}

/// The brokers, those too that do not tell what they have, and why they do not.
pub(in crate::cli) async fn list(client: &mut KafkaClient, cluster: &ClusterInfo) -> (Vec<Listed>, Vec<String>) {
    let (mut listed, mut problems) = (Vec::with_capacity(cluster.brokers.len()), Vec::new());
    for broker in &cluster.brokers {
        let directories = client.log_dirs(broker.id, None).await;
        let directories = directories.map_err(|error| problems.push(told(&error.into())));
        listed.push(Listed::of(broker, cluster, directories.ok().as_deref()));
    }
    (listed, problems)
}

/// A broker with what it has to do. What it does not tell is unknown.
pub(in crate::cli) struct Listed {
    broker: ClusterBroker,
    leads: usize,
    keeps: usize,
    bytes: Option<i64>,
    disk_bytes: Option<i64>,
    free_bytes: Option<i64>,
    /// Paths, and why one cannot be used.
    directories: Vec<(String, Option<String>)>,
}

impl Listed {
    fn of(broker: &ClusterBroker, cluster: &ClusterInfo, directories: Option<&[LogDir]>) -> Self {
        let partitions = || cluster.topics.iter().flat_map(|topic| &topic.partitions);
        let sum =
            |bytes: fn(&LogDir) -> Option<i64>| directories.and_then(|all| all.iter().map(bytes).sum::<Option<i64>>());
        let paths = directories.unwrap_or_default().iter().map(|it| (it.path.clone(), it.error.clone()));
        Self {
            broker: broker.clone(),
            leads: partitions().filter(|partition| partition.leader == Some(broker.id)).count(),
            keeps: partitions().filter(|partition| partition.replicas.contains(&broker.id)).count(),
            bytes: sum(|directory| Some(directory.sizes.values().sum())),
            disk_bytes: sum(|directory| directory.total_bytes),
            free_bytes: sum(|directory| directory.usable_bytes),
            directories: paths.collect(),
        }
    }

    /// The broker for programs.
    pub(in crate::cli) fn data(&self) -> Value {
        let directory = |(path, error): &(String, Option<String>)| json!({ "path": path, "error": error });
        json!({
            "id": self.broker.id,
            "host": self.broker.host,
            "port": self.broker.port,
            "rack": self.broker.rack,
            "leads": self.leads,
            "keeps": self.keeps,
            "bytes": self.bytes,
            "diskBytes": self.disk_bytes,
            "diskFreeBytes": self.free_bytes,
            "directories": self.directories.iter().map(directory).collect::<Vec<_>>(),
        })
    }

    fn row(&self, wide: bool) -> Vec<String> {
        let ClusterBroker { id, host, port, rack } = &self.broker;
        let mut row = vec![id.to_string(), host.clone(), port.to_string(), known(rack.clone())];
        row.extend([self.leads.to_string(), self.keeps.to_string(), known(self.bytes)]);
        if wide {
            let directories = self.directories.iter().map(|(path, error)| match error {
                Some(_) => format!("{path} (offline)"),
                None => path.clone(),
            });
            row.extend([known(self.disk_bytes), known(self.free_bytes), directories.collect::<Vec<_>>().join(",")]);
        }
        row
    }
}

pub(super) async fn partitions(args: &PartitionsArgs) -> anyhow::Result<Exit> {
    let mut client = args.brokers.connect().await?;
    let mut topics = match args.topics.as_slice() {
        [] => client.cluster().await?.topics,
        named => client.topics(named).await?,
    };
    topics.retain(|topic| args.internal || !topic.internal || !args.topics.is_empty());
    let least = least_in_sync(&mut client, args, &topics).await?;
    let listed: Vec<(&Topic, &Partition)> = topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(move |partition| (topic, partition)))
        .filter(|(topic, partition)| args.wants(partition, least.get(&topic.name).copied()))
        .collect();
    let data = |(topic, partition): &(&Topic, &Partition)| partition_data(topic, partition);
    let row = |(topic, partition): &(&Topic, &Partition)| {
        vec![
            topic.name.clone(),
            partition.partition.to_string(),
            known(partition.leader),
            numbers(&partition.replicas),
            numbers(&partition.isr),
            numbers(&partition.offline),
            partition.leader_epoch.to_string(),
        ]
    };
    let wide = args.brokers.is_wide();
    print(args.brokers.output, &json!({ "partitions": listed.iter().map(data).collect::<Vec<_>>() }), || {
        let headers = ["TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "OFFLINE", "EPOCH"];
        let columns = if wide { 7 } else { 5 };
        let cut = |it: &(&Topic, &Partition)| row(it).into_iter().take(columns).collect::<Vec<_>>();
        table(&headers[..columns], &listed.iter().map(cut).collect::<Vec<_>>())
    })?;
    Ok(Exit::Done)
}

/// How many replicas of each topic must be in sync, if it is asked for what depends on that.
async fn least_in_sync(
    client: &mut KafkaClient,
    args: &PartitionsArgs,
    topics: &[Topic],
) -> anyhow::Result<BTreeMap<String, usize>> {
    if !args.under_min_isr && !args.at_min_isr {
        return Ok(BTreeMap::new());
    }
    let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    let settings = client.topic_settings(&names).await?;
    let least = |settings: Vec<TopicSetting>| {
        settings.into_iter().find(|setting| setting.name == MIN_IN_SYNC).and_then(|it| it.value?.parse().ok())
    };
    Ok(names.into_iter().zip(settings).filter_map(|(name, settings)| Some((name, least(settings)?))).collect())
}

/// A partition for programs.
pub(in crate::cli) fn partition_data(topic: &Topic, partition: &Partition) -> Value {
    json!({
        "topic": topic.name,
        "partition": partition.partition,
        "leader": partition.leader,
        "leaderEpoch": partition.leader_epoch,
        "replicas": partition.replicas,
        "isr": partition.isr,
        "offline": partition.offline,
    })
}

impl PartitionsArgs {
    /// Whether it is to be listed; `least` is how many replicas must be in sync, where that matters.
    fn wants(&self, partition: &Partition, least: Option<usize>) -> bool {
        let in_sync = partition.isr.len();
        (!self.under_replicated || partition.is_under_replicated())
            && (!self.under_min_isr || least.is_some_and(|least| in_sync < least))
            && (!self.at_min_isr || least == Some(in_sync))
            && (!self.unavailable || partition.leader.is_none())
            && (!self.not_preferred || partition.leader != partition.replicas.first().copied())
            && self.broker.is_none_or(|broker| partition.replicas.contains(&broker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_is_listed_with_what_it_has_to_do_also_when_it_tells_nothing() {
        let broker = ClusterBroker { id: 1, host: "h".to_owned(), port: 9092, rack: None };
        let partition = |leader| Partition {
            partition: 0,
            leader,
            leader_epoch: 0,
            replicas: vec![1, 2],
            isr: vec![1, 2],
            offline: Vec::new(),
        };
        let topic = |name: &str, leader| Topic {
            name: name.to_owned(),
            id: taffrail_core::ids::Uuid::default(),
            internal: false,
            partitions: vec![partition(leader)],
        };
        let cluster = ClusterInfo {
            cluster_id: None,
            brokers: vec![broker.clone()],
            topics: vec![topic("a", Some(1)), topic("b", Some(2))],
        };
        let directory = LogDir {
            path: "/d".to_owned(),
            error: None,
            sizes: [(("a".to_owned(), 0), 10), (("b".to_owned(), 0), 5)].into(),
            total_bytes: Some(100),
            usable_bytes: None,
        };
        let listed = Listed::of(&broker, &cluster, Some(&[directory]));
        assert_eq!(listed.row(true), ["1", "h", "9092", "", "1", "2", "15", "100", "", "/d"]);
        let silent = Listed::of(&broker, &cluster, None);
        assert_eq!((silent.data()["bytes"].clone(), silent.row(false).len()), (Value::Null, 7));
    }
}
