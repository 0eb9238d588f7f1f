//! `taffrail get`: topics as resources, ready for `apply`, `taffrail up` and Kubernetes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use taffrail_client::kafka::{KafkaClient, Topic, TopicSetting};
use taffrail_operator::crd::settings::TopicSettings;
use taffrail_operator::crd::{API_VERSION, Kind};

use super::compare::own;
use super::wanted;
use crate::cli::brokers::BrokersArgs;
use crate::cli::{Format, completion, print, table, write};
use crate::exit::Exit;

/// Longest name of a resource.
const NAME_CHARS_MAX: usize = 253;

/// Arguments of `get`.
#[derive(Args, Debug)]
#[command(
    after_help = "What -o yaml prints can be applied again, with `taffrail apply`, `taffrail up` and `kubectl apply`."
)]
pub(crate) struct GetArgs {
    /// Names of topics [default: those of the files, or all but what the cluster keeps for itself]
    #[arg(value_name = "TOPIC", add = completion::topics())]
    names: Vec<String>,
    /// Print the topics of this file of resources, as they are; may be repeated
    #[arg(short, long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Name of the Cluster that the resources refer to
    #[arg(long, value_name = "NAME", default_value = "taffrail")]
    cluster: String,
    #[command(flatten)]
    brokers: BrokersArgs,
}

pub(super) async fn run(args: &GetArgs) -> anyhow::Result<Exit> {
    let mut names: Vec<String> = args.names.clone();
    if !args.files.is_empty() {
        names.extend(wanted(&args.files)?.into_iter().map(|topic| topic.name));
    }
    let mut client = args.brokers.connect().await?;
    let topics = topics(&mut client, &names).await?;
    let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    let settings = client.topic_settings(&names).await?;
    let mut taken = BTreeSet::new();
    let mut resources = Vec::with_capacity(topics.len());
    for (topic, settings) in topics.iter().zip(&settings) {
        resources.push(resource(topic, settings, &args.cluster, &mut taken)?);
    }
    if args.brokers.output == Format::Yaml {
        for resource in &resources {
            write(&format!("---\n{}", serde_saphyr::to_string(resource)?))?;
        }
        return Ok(Exit::Done);
    }
    print(args.brokers.output, &json!({ "items": resources }), || {
        let row = |(topic, settings): (&Topic, &Vec<TopicSetting>)| {
            let own: Vec<String> = own(settings).iter().map(|(name, value)| format!("{name}={value}")).collect();
            let (partitions, replicas) = (topic.partitions.len(), replicas(topic));
            vec![topic.name.clone(), partitions.to_string(), replicas.to_string(), own.join(" ")]
        };
        let rows: Vec<Vec<String>> = topics.iter().zip(&settings).map(row).collect();
        table(&["TOPIC", "PARTITIONS", "REPLICAS", "SETTINGS"], &rows)
    })?;
    Ok(Exit::Done)
}

/// The topics of these names, or all.
async fn topics(client: &mut KafkaClient, names: &[String]) -> anyhow::Result<Vec<Topic>> {
    if !names.is_empty() {
        return Ok(client.topics(names).await?);
    }
    let mut topics = client.cluster().await?.topics;
    topics.retain(|topic| !topic.internal);
    Ok(topics)
}

fn replicas(topic: &Topic) -> usize {
    topic.partitions.first().map_or(0, |first| first.replicas.len())
}

/// A topic as a resource, under a name that is not `taken` yet.
fn resource(
    topic: &Topic,
    settings: &[TopicSetting],
    cluster: &str,
    taken: &mut BTreeSet<String>,
) -> anyhow::Result<Value> {
    let name = resource_name(&topic.name, taken);
    let mut spec = json!({
        "clusterRef": { "name": cluster },
        "partitions": topic.partitions.len(),
        "replicas": replicas(topic),
    });
    if name != topic.name {
        spec["topicName"] = json!(topic.name);
    }
    let own = own(settings);
    if !own.is_empty() {
        spec["config"] = serde_json::to_value(TopicSettings(own))?;
    }
    Ok(json!({ "apiVersion": API_VERSION, "kind": Kind::Topic.name(), "metadata": { "name": name }, "spec": spec }))
}

/// A name that Kubernetes takes: lower-case letters, digits, dashes and dots, which begins and ends with a letter or digit.
fn resource_name(topic: &str, taken: &mut BTreeSet<String>) -> String {
    let legal = |character: char| match character.to_ascii_lowercase() {
        legal if legal.is_ascii_alphanumeric() || legal == '.' => legal,
        _ => '-',
    };
    let name: String = topic.chars().map(legal).collect();
    // A dot needs a letter or digit on both sides.
    let parts: Vec<&str> = name.split('.').map(|part| part.trim_matches('-')).filter(|part| !part.is_empty()).collect();
    let mut name = parts.join(".");
    name.truncate(NAME_CHARS_MAX - 8);
    let name = if name.is_empty() { "topic".to_owned() } else { name };
    let numbered = (2..).map(|number: u32| format!("{name}-{number}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or_default();
    taken.insert(free.clone());
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_have_names_that_kubernetes_takes_each_its_own() {
        let mut taken = BTreeSet::new();
        let cases = [
            ("orders", "orders"),
            ("Orders", "orders-2"),
            ("_a_b.C_", "a-b.c"),
            ("orders", "orders-3"),
            ("a..b-", "a.b"),
            ("__", "topic"),
        ];
        for (topic, expected) in cases {
            assert_eq!(resource_name(topic, &mut taken), expected, "{topic}");
        }
    }
}
