//! Lag of groups as a scrape shows it, over real logs.

use std::sync::Arc;

use taffrail_core::control::Command;
use taffrail_core::ids::BrokerId;
use taffrail_protocol::message::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use taffrail_protocol::message::{DeleteTopicsRequest, FindCoordinatorRequest, GroupId, OffsetCommitRequest, StrBytes};
use taffrail_runtime::time;

use super::cluster::{Client, Cluster, SOON, batch, topic_name};
use crate::{Granularity, Scrape, ScrapeOptions};

const COMMIT_VERSION: i16 = 9;

async fn cluster() -> Cluster {
    let settings = [("offsets.topic.replication.factor", "1"), ("offsets.topic.num.partitions", "2")];
    Cluster::start_with(&settings).await
}

/// Commits for a group without members; waits until there is a coordinator.
async fn commit(client: &mut Client, group: &str, topic: &str, partition: i32, offset: i64) {
    let group_id = StrBytes::from(group.to_owned());
    client.call(4, &FindCoordinatorRequest::default().with_coordinator_keys(vec![group_id.clone()])).await;
    let of_partition =
        OffsetCommitRequestPartition::default().with_partition_index(partition).with_committed_offset(offset);
    let of_topic = OffsetCommitRequestTopic::default().with_name(topic_name(topic)).with_partitions(vec![of_partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(GroupId(group_id))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![of_topic]);
    let committed = async {
        while client.call(COMMIT_VERSION, &request).await.topics[0].partitions[0].error_code != 0 {
            time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    time::timeout(SOON, committed).await.expect("the coordinator serves");
}

/// The lines of a metric, with all its labels.
async fn shown(cluster: &Cluster, name: &str, options: ScrapeOptions) -> Vec<String> {
    // A moment later, as who asks at once is given the answer before.
    time::sleep(crate::lag::FRESH_FOR).await;
    let scrape: Scrape = cluster.broker().scrape(&Arc::new(options)).await;
    let mut out = String::new();
    scrape.write(name, None, &mut out);
    out.lines().map(str::to_owned).collect()
}

async fn lags(cluster: &Cluster) -> Vec<String> {
    shown(cluster, "kafka_consumergroup_lag", ScrapeOptions::default()).await
}

#[tokio::test]
async fn a_group_lags_by_what_it_has_not_committed_and_can_still_read() {
    let cluster = cluster().await;
    let mut client = cluster.client().await;
    client.create_topic("orders", 2, &[]).await;
    for _ in 0..10 {
        client.produce("orders", 0, batch(&[b"a"])).await;
    }
    commit(&mut client, "g", "orders", 0, 4).await;
    commit(&mut client, "g", "orders", 1, 0).await;
    let line = |partition: i32, lag: i64| {
        format!("kafka_consumergroup_lag{{consumergroup=\"g\",topic=\"orders\",partition=\"{partition}\"}} {lag}")
    };
    assert_eq!(lags(&cluster).await, [line(0, 6), line(1, 0)]);
    let seconds = shown(&cluster, "kafka_consumergroup_group_lag_seconds", ScrapeOptions::default()).await;
    let seconds: Vec<f64> = seconds.iter().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert!(seconds[0] > 0.0 && seconds[0] < SOON.as_secs_f64() && seconds[1] == 0.0, "{seconds:?}");
    // Deleted before they were read: no backlog, and shown for what they are.
    cluster.delete_records("orders", 0, 10).await;
    assert_eq!(lags(&cluster).await, [line(0, 0), line(1, 0)]);
    let deleted = shown(&cluster, "taffrail_consumer_group_unread_deleted_records", ScrapeOptions::default()).await;
    assert!(deleted[0].ends_with(" 6") && deleted[1].ends_with(" 0"), "{deleted:?}");
}

#[tokio::test]
async fn offsets_of_a_topic_that_was_deleted_and_made_anew_are_no_lag() {
    let cluster = cluster().await;
    let mut client = cluster.client().await;
    client.create_topic("orders", 1, &[]).await;
    client.produce("orders", 0, batch(&[b"a", b"b", b"c"])).await;
    commit(&mut client, "g", "orders", 0, 2).await;
    assert_eq!(lags(&cluster).await.len(), 1);
    client.call(5, &DeleteTopicsRequest::default().with_topic_names(vec![topic_name("orders")])).await;
    client.create_topic("orders", 1, &[]).await;
    assert_eq!(lags(&cluster).await, Vec::<String>::new());
}

#[tokio::test]
async fn partitions_whose_leader_is_away_are_left_out_and_counted() {
    let cluster = cluster().await;
    let mut client = cluster.client().await;
    client.create_topic("early", 1, &[]).await;
    commit(&mut client, "h", "early", 0, 0).await;
    // A broker of which nobody answers: its port is closed. It coordinates no group, as it came late.
    cluster.join(BrokerId(2), 1, None).await;
    client.create_topic_on("orders", &[&[1], &[2]], &[]).await;
    commit(&mut client, "g", "orders", 0, 0).await;
    commit(&mut client, "g", "orders", 1, 0).await;
    assert_eq!(lags(&cluster).await.iter().filter(|line| line.contains("orders")).count(), 1);
    let unknown = shown(&cluster, "taffrail_consumer_group_unknown_partitions", ScrapeOptions::default()).await;
    let line = |group: &str, count| format!("taffrail_consumer_group_unknown_partitions{{group=\"{group}\"}} {count}");
    assert_eq!(unknown, [line("g", 1), line("h", 0)]);
}

#[tokio::test]
async fn a_scrape_shows_what_its_options_say() {
    let cluster = cluster().await;
    let mut client = cluster.client().await;
    client.create_topic("orders", 3, &[]).await;
    for group in ["g", "h"] {
        for partition in 0..3 {
            commit(&mut client, group, "orders", partition, 0).await;
        }
    }
    client.produce("orders", 1, batch(&[b"a"])).await;
    let with = |change: fn(&mut ScrapeOptions)| {
        let mut options = ScrapeOptions::default();
        change(&mut options);
        options
    };
    let per_partition = "kafka_consumergroup_lag";
    let per_topic = "kafka_consumergroup_lag_sum";
    let cases: [(&str, ScrapeOptions, usize); 8] = [
        (per_partition, ScrapeOptions::default(), 6),
        (per_partition, with(|it| it.granularity = Granularity::Topic), 0),
        (per_topic, with(|it| it.granularity = Granularity::Topic), 2),
        (per_topic, with(|it| it.granularity = Granularity::Group), 0),
        (per_partition, with(|it| it.groups = ScrapeOptions::filter("h").ok()), 3),
        (per_partition, with(|it| it.topics = ScrapeOptions::filter("other").ok()), 0),
        (per_partition, with(|it| it.series_max = 60), 3),
        ("kafka_consumergroup_members", with(|it| it.series_max = 0), 2),
    ];
    for (name, options, expected) in cases {
        let lines = shown(&cluster, name, options.clone()).await;
        assert_eq!(lines.len(), expected, "{name} with {options:?}: {lines:?}");
    }
    // The partitions that are shown where there are too many are the largest ones.
    let few = with(|it| it.series_max = 60);
    let sizes = shown(&cluster, "kafka_log_log_size", few.clone()).await;
    assert!(sizes.len() == 1 && sizes[0].contains("offsets"), "{sizes:?}");
    let omitted = shown(&cluster, "taffrail_metrics_partitions_omitted", few).await;
    assert_eq!(omitted, ["taffrail_metrics_partitions_omitted 4"]);
}

#[tokio::test]
async fn whoever_lags_less_than_a_roll_takes_is_told_of_the_roll() {
    let cluster = cluster().await;
    let other = cluster.join(BrokerId(2), 1, None).await;
    let name = "taffrail_rolling_restart_in_progress";
    assert_eq!(shown(&cluster, name, ScrapeOptions::default()).await, [format!("{name} 0")]);
    cluster.control(Command::BeginShutdown(other)).await;
    assert_eq!(shown(&cluster, name, ScrapeOptions::default()).await, [format!("{name} 1")]);
}
