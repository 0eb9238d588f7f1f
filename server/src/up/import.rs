//! `taffrail log import`: adopts the partitions of a stopped Kafka.
//!
//! First the folders come in, then the metadata learn of their topics, under the ids that they have. What is interrupted
//! in between leaves folders that the next start sets aside, and no topic without its records.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::json;
use taffrail_client::controller::ControllerClient;
use taffrail_core::control::{BrokerIdentity, Command, CreateTopics, NewTopic, RegisterBroker, Reply};
use taffrail_core::event::{Listener, SecurityProtocol};
use taffrail_core::ids::{BrokerId, TopicId};
use taffrail_core::topic_name::{CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{random, task};
use taffrail_storage::disk::real::RealDisk;
use taffrail_storage::{ImportMode, ImportedPartition, inspect};

use super::CONTROL_THREADS;
use super::brokers::ROLES;
use crate::cli::{ImportArgs, print, table};
use crate::exit::Exit;
use crate::options::Options;
use crate::roles::{self, BrokerFiles, BrokerPlace, DataDir, QuorumRole};

/// How long the controller may take for one command.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The broker that adopts them: the first of `up`.
const BROKER: BrokerId = BrokerId(1);

/// A topic whose partitions are adopted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Topic {
    id: TopicId,
    partitions: i32,
    records: i64,
    bytes: u64,
}

/// Adopts what the arguments name, and prints it.
pub(crate) fn import(args: &ImportArgs) -> anyhow::Result<Exit> {
    let mut given = args.settings.collect()?;
    given.set_for_brokers(1)?;
    let options = Options::resolve(&given)?;
    crate::telemetry::start(&options)?;
    if options.ephemeral {
        bail!("--ephemeral would throw away what is adopted");
    }
    // Looked at before anything is touched, and once more by the storage.
    let topics = topics(&inspect(&RealDisk::new(), &args.source)?)?;
    let dir = DataDir::take(&options)?;
    let mode = if args.move_folders { ImportMode::Move } else { ImportMode::Copy };
    task::block_on(CONTROL_THREADS, adopt(&options, &dir, &args.source, mode, &topics))??;
    let data: serde_json::Value = topics
        .iter()
        .map(|(name, topic)| {
            json!({
                "topic": name, "topicId": topic.id.to_string(), "partitions": topic.partitions,
                "records": topic.records, "bytes": topic.bytes,
            })
        })
        .collect();
    print(args.output, &data, || {
        let row = |(name, topic): (&String, &Topic)| {
            vec![name.clone(), topic.partitions.to_string(), topic.records.to_string(), topic.bytes.to_string()]
        };
        let rows: Vec<Vec<String>> = topics.iter().map(row).collect();
        let headers = ["TOPIC", "PARTITIONS", "OFFSETS", "BYTES"];
        table(&headers, &rows)
            + "Kafka keeps settings of topics elsewhere: these keep everything until told otherwise.\n"
    })?;
    Ok(Exit::Done)
}

/// The topics of these partitions, by name. All partitions of a topic must be there: a hole would be an empty one.
fn topics(partitions: &[ImportedPartition]) -> anyhow::Result<BTreeMap<String, Topic>> {
    let mut topics: BTreeMap<String, Topic> = BTreeMap::new();
    for found in partitions {
        let name = found.partition.topic.to_string();
        let topic = topics.entry(name.clone()).or_insert_with(|| Topic { id: found.topic_id, ..Topic::default() });
        if topic.id != found.topic_id {
            bail!("partitions of {name} belong to two topics of this name, {} and {}", topic.id, found.topic_id);
        }
        // They come sorted by name and number.
        if found.partition.partition != topic.partitions {
            bail!("partition {} of {name} is missing: give a directory that has all of them", topic.partitions);
        }
        topic.partitions += 1;
        topic.records += found.end_offset - found.log_start_offset;
        topic.bytes += found.bytes;
    }
    Ok(topics)
}

async fn adopt(
    options: &Options,
    dir: &DataDir,
    source: &Path,
    mode: ImportMode,
    topics: &BTreeMap<String, Topic>,
) -> anyhow::Result<()> {
    let (logs, advertised) = (dir.logs(), options.advertised(options.listen));
    let place = BrokerPlace {
        id: BROKER,
        roles: ROLES,
        bound: options.listen,
        advertised: &advertised,
        extra: &[],
        logs: &logs,
        rack: None,
    };
    let static_config = roles::static_config(options, &place);
    let config = roles::config(&static_config)?;
    let session_timeout = roles::session_timeout(&config);
    let stop = Shutdown::new();
    let quorum = QuorumRole::start(1, options, dir, &static_config, session_timeout, &stop).await?;
    let known = quorum.image();
    if let Some(name) = topics.keys().find(|name| known.topic(name).is_some()) {
        bail!("there is a topic {name} here already");
    }
    let files = BrokerFiles::open(logs, BROKER, &config, 1).await?;
    let storage = Arc::clone(&files.storage);
    let cluster_id = quorum.cluster_id().await;
    let directory_id = files.claim(cluster_id)?;
    let importing = {
        let (storage, source) = (Arc::clone(&storage), source.to_owned());
        storage.pool().clone().run(move || storage.import(&source, mode)).await
    };
    importing?.with_context(|| format!("{} cannot be adopted", source.display()))?;
    storage.close().await;

    let client = ControllerClient::new(quorum.members())?;
    let (host, port) = advertised;
    let register = RegisterBroker {
        id: BROKER,
        cluster_id: Some(cluster_id),
        incarnation: random::uuid(),
        rack: None,
        listeners: vec![Listener {
            name: roles::LISTENER.into(),
            host: host.into(),
            port,
            security: SecurityProtocol::Plaintext,
        }],
        log_dirs: vec![directory_id],
        features: BTreeMap::new(),
        unclean_shutdown: false,
        min_in_sync: None,
    };
    let Reply::BrokerRegistered { epoch } = client.propose(&Command::RegisterBroker(register), TIMEOUT).await?.reply
    else {
        bail!("the controller did not register the broker");
    };
    // Topics are placed on brokers that serve. This one does for a moment; the next start registers it anew.
    let identity = BrokerIdentity { id: BROKER, epoch };
    client.propose(&Command::UnfenceBroker(identity), TIMEOUT).await?;
    for (name, topic) in
        topics.iter().filter(|(name, _)| ![TRANSACTION_STATE, SHARE_GROUP_STATE].contains(&name.as_str()))
    {
        let request = CreateTopics { topics: vec![new_topic(name, topic)], validate_only: false };
        match client.propose(&Command::CreateTopics(request), TIMEOUT).await?.reply {
            Reply::TopicsCreated(outcomes) => {
                outcomes.into_iter().try_for_each(|(_, outcome)| outcome.map(|_| ()))?;
            }
            _ => bail!("the controller gave no answer about {name}"),
        }
    }
    client.propose(&Command::FenceBroker(identity), TIMEOUT).await?;
    drop(client);
    stop.trigger();
    quorum.stop().await
}

/// A topic with the id that it has, and with settings under which nothing of it is lost: Kafka's own settings of the topic
/// are in its metadata, which are not adopted.
fn new_topic(name: &str, topic: &Topic) -> NewTopic {
    let configs: &[(&str, &str)] = if name == CONSUMER_OFFSETS {
        &[("cleanup.policy", "compact"), ("compression.type", "producer"), ("segment.bytes", "104857600")]
    } else {
        &[("retention.ms", "-1"), ("retention.bytes", "-1")]
    };
    NewTopic {
        configs: configs.iter().map(|(name, value)| (Arc::from(*name), Some(Arc::from(*value)))).collect(),
        id: Some(topic.id),
        ..NewTopic::sized(name, topic.partitions, 1)
    }
}

#[cfg(test)]
mod tests {
    use taffrail_core::ids::{TopicPartition, Uuid};

    use super::*;

    fn found(name: &str, partition: i32, id: u8) -> ImportedPartition {
        ImportedPartition {
            partition: TopicPartition::new(name, partition),
            topic_id: Uuid([id; 16]),
            source: format!("/k/{name}-{partition}").into(),
            log_start_offset: 2,
            end_offset: 5,
            bytes: 10,
            gaps_to: 0,
        }
    }

    #[test]
    fn partitions_are_gathered_into_whole_topics() {
        let whole = topics(&[found("a", 0, 1), found("a", 1, 1), found("b", 0, 2)]).unwrap();
        assert_eq!(whole["a"], Topic { id: Uuid([1; 16]), partitions: 2, records: 6, bytes: 20 });
        let hole = topics(&[found("a", 0, 1), found("a", 2, 1)]).unwrap_err().to_string();
        assert!(hole.starts_with("partition 1 of a is missing"), "{hole}");
        let two = topics(&[found("a", 0, 1), found("a", 1, 2)]).unwrap_err().to_string();
        assert!(two.contains("belong to two topics"), "{two}");
    }
}
