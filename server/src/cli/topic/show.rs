//! `taffrail topic list` and `taffrail topic describe`.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};
use taffrail_client::kafka::{Partition, PartitionKey, Topic, TopicSetting};

use crate::cli::brokers::{BrokersArgs, known, numbers};
use crate::cli::{completion, print, table};
use crate::exit::Exit;

/// Arguments of `topic list`.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Also what the cluster keeps for itself
    #[arg(long)]
    internal: bool,
    /// Only topics with partitions that lack replicas in sync
    #[arg(long)]
    under_replicated: bool,
    /// Only topics with partitions that nobody leads
    #[arg(long)]
    unavailable: bool,
    #[command(flatten)]
    brokers: BrokersArgs,
}

/// Arguments of `topic describe`.
#[derive(Args, Debug)]
pub(crate) struct DescribeArgs {
    /// Names of topics
    #[arg(value_name = "NAME", required = true, add = completion::topics())]
    names: Vec<String>,
    #[command(flatten)]
    brokers: BrokersArgs,
}

/// Where a partition begins and ends, if its leader tells.
type Bounds = BTreeMap<PartitionKey, (i64, i64)>;

fn under_replicated(topic: &Topic) -> usize {
    topic.partitions.iter().filter(|partition| partition.is_under_replicated()).count()
}

fn unavailable(topic: &Topic) -> usize {
    topic.partitions.iter().filter(|partition| partition.leader.is_none()).count()
}

fn replication_factor(topic: &Topic) -> usize {
    topic.partitions.iter().map(|partition| partition.replicas.len()).max().unwrap_or(0)
}

fn id(topic: &Topic) -> Option<String> {
    (!topic.id.is_zero()).then(|| topic.id.to_string())
}

pub(super) async fn list(args: &ListArgs) -> anyhow::Result<Exit> {
    let mut topics = args.brokers.connect().await?.cluster().await?.topics;
    topics.retain(|topic| {
        (args.internal || !topic.internal)
            && (!args.under_replicated || under_replicated(topic) > 0)
            && (!args.unavailable || unavailable(topic) > 0)
    });
    let data = |topic: &Topic| {
        json!({
            "name": topic.name,
            "id": id(topic),
            "internal": topic.internal,
            "partitions": topic.partitions.len(),
            "replicationFactor": replication_factor(topic),
            "underReplicated": under_replicated(topic),
            "unavailable": unavailable(topic),
        })
    };
    let wide = args.brokers.is_wide();
    let row = |topic: &Topic| {
        let (partitions, replicas) = (topic.partitions.len().to_string(), replication_factor(topic).to_string());
        let mut row = vec![topic.name.clone(), partitions, replicas];
        if wide {
            row.extend([under_replicated(topic).to_string(), unavailable(topic).to_string(), known(id(topic))]);
        }
        row
    };
    let headers = ["TOPIC", "PARTITIONS", "REPLICAS", "UNDER-REPLICATED", "UNAVAILABLE", "ID"];
    print(args.brokers.output, &json!({ "topics": topics.iter().map(data).collect::<Vec<_>>() }), || {
        table(&headers[..if wide { 6 } else { 3 }], &topics.iter().map(row).collect::<Vec<_>>())
    })?;
    Ok(Exit::Done)
}

pub(super) async fn describe(args: &DescribeArgs) -> anyhow::Result<Exit> {
    let mut client = args.brokers.connect().await?;
    let topics = client.topics(&args.names).await?;
    let key = |topic: &Topic, partition: &Partition| (topic.name.clone(), partition.partition);
    let keys: Vec<PartitionKey> =
        topics.iter().flat_map(|topic| topic.partitions.iter().map(move |partition| key(topic, partition))).collect();
    let bounds = client.bounds(&keys).await?;
    let settings = client.topic_settings(&args.names).await?;
    let described: Vec<(Topic, Vec<TopicSetting>)> = topics.into_iter().zip(settings).collect();
    let data = |(topic, settings): &(Topic, Vec<TopicSetting>)| topic_data(topic, settings, &bounds);
    let wide = args.brokers.is_wide();
    print(args.brokers.output, &json!({ "topics": described.iter().map(data).collect::<Vec<_>>() }), || {
        let texts: Vec<String> =
            described.iter().map(|(topic, settings)| topic_text(topic, settings, &bounds, wide)).collect();
        texts.join("\n")
    })?;
    Ok(Exit::Done)
}

/// A topic for programs.
fn topic_data(topic: &Topic, settings: &[TopicSetting], bounds: &Bounds) -> Value {
    let partition = |partition: &Partition| {
        let bounds = bounds.get(&(topic.name.clone(), partition.partition));
        json!({
            "partition": partition.partition,
            "leader": partition.leader,
            "leaderEpoch": partition.leader_epoch,
            "replicas": partition.replicas,
            "isr": partition.isr,
            "offline": partition.offline,
            "startOffset": bounds.map(|(start, _)| start),
            "endOffset": bounds.map(|(_, end)| end),
        })
    };
    let setting = |setting: &TopicSetting| {
        json!({
            "name": setting.name,
            "value": setting.value,
            "own": setting.is_own(),
            "sensitive": setting.sensitive,
        })
    };
    json!({
        "name": topic.name,
        "id": id(topic),
        "internal": topic.internal,
        "partitions": topic.partitions.iter().map(partition).collect::<Vec<_>>(),
        "settings": settings.iter().map(setting).collect::<Vec<_>>(),
    })
}

/// A topic for people: its partitions, then the settings that are its own, or all of them.
fn topic_text(topic: &Topic, settings: &[TopicSetting], bounds: &Bounds, wide: bool) -> String {
    let row = |partition: &Partition| {
        let bounds = bounds.get(&(topic.name.clone(), partition.partition));
        let mut row = vec![
            topic.name.clone(),
            partition.partition.to_string(),
            known(partition.leader),
            numbers(&partition.replicas),
            numbers(&partition.isr),
            known(bounds.map(|(start, _)| start)),
            known(bounds.map(|(_, end)| end)),
        ];
        if wide {
            row.extend([partition.leader_epoch.to_string(), numbers(&partition.offline)]);
        }
        row
    };
    let headers = ["TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "START", "END", "EPOCH", "OFFLINE"];
    let rows: Vec<Vec<String>> = topic.partitions.iter().map(row).collect();
    let mut text = table(&headers[..if wide { 9 } else { 7 }], &rows);
    let shown = settings.iter().filter(|setting| wide || setting.is_own());
    let rows: Vec<Vec<String>> = shown
        .map(|setting| {
            let value = if setting.sensitive { "(secret)".to_owned() } else { known(setting.value.as_ref()) };
            vec![topic.name.clone(), setting.name.clone(), value]
        })
        .collect();
    if !rows.is_empty() {
        text += "\n";
        text += &table(&["TOPIC", "SETTING", "VALUE"], &rows);
    }
    text
}

#[cfg(test)]
mod tests {
    use taffrail_core::ids::Uuid;

    use super::*;

    #[test]
    fn a_topic_is_shown_with_its_partitions_and_its_own_settings() {
        let partition = |partition, leader| Partition {
            partition,
            leader,
            leader_epoch: 4,
            replicas: vec![1, 2],
            isr: vec![1],
            offline: vec![2],
        };
        let topic = Topic {
            name: "t".to_owned(),
            id: Uuid::default(),
            internal: false,
            partitions: vec![partition(0, Some(1)), partition(1, None)],
        };
        let setting = |name: &str, source| TopicSetting {
            name: name.to_owned(),
            value: Some("1".to_owned()),
            source,
            sensitive: false,
        };
        let settings = [setting("a", 1), setting("b", 5)];
        let bounds = Bounds::from([(("t".to_owned(), 0), (3, 17))]);
        let text = topic_text(&topic, &settings, &bounds, false);
        let expected = "\
TOPIC  PARTITION  LEADER  REPLICAS  ISR  START  END
t      0          1       1,2       1    3      17
t      1          -       1,2       1    -      -

TOPIC  SETTING  VALUE
t      a        1
";
        assert_eq!(text, expected);
        let wide = topic_text(&topic, &settings, &bounds, true);
        assert!(wide.contains("EPOCH  OFFLINE") && wide.contains("t      b        1"), "{wide}");
        let data = topic_data(&topic, &settings, &bounds);
        assert_eq!(data["partitions"][0]["endOffset"], 17);
        assert_eq!(data["partitions"][1]["leader"], Value::Null);
        assert_eq!((&data["settings"][0]["own"], &data["settings"][1]["own"]), (&json!(true), &json!(false)));
        assert_eq!((under_replicated(&topic), unavailable(&topic), replication_factor(&topic)), (2, 1, 2));
    }
}
