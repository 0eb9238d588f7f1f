//! Replication that is held back (KIP-73), between whole brokers. A rate of 0 makes "slower" a thing that shows.

use taffrail_core::control::{
    AlterConfigs, Command, ConfigAlteration, ConfigChanges, ReassignPartitions, Reassignment, Reply,
};
use taffrail_core::event::ConfigResource;
use taffrail_core::ids::BrokerId;
use taffrail_protocol::message::ProduceRequest;

use super::brokers::Brokers;
use super::cluster::{Client, Cluster, PRODUCE_VERSION, batch, produce_request};
use super::followers::Follower;
use super::replication::until;

/// The command that gives `resource` these settings and no others.
fn set(resource: ConfigResource, settings: &[(&str, &str)]) -> Command {
    let settings = settings.iter().map(|(name, value)| ((*name).into(), Some((*value).into()))).collect();
    let alteration = ConfigAlteration { resource, changes: ConfigChanges::Replace(settings) };
    Command::AlterConfigs(AlterConfigs { resources: vec![alteration], validate_only: false })
}

/// Checks that settings were taken.
fn taken(reply: Reply) {
    let Reply::ConfigsAltered(altered) = reply else { panic!("{reply:?}") };
    assert_eq!(altered[0].outcome, Ok(()));
}

/// The command that puts partition 0 of `topic` on these brokers.
fn on(topic: &str, replicas: &[i32]) -> Command {
    let replicas = Some(replicas.iter().map(|id| BrokerId(*id)).collect());
    let partitions = vec![Reassignment { topic: topic.into(), partition: 0, replicas }];
    Command::ReassignPartitions(ReassignPartitions { partitions, allow_replication_factor_change: true })
}

async fn produce(client: &mut Client, topic: &str, acks: i16) -> i16 {
    let request = produce_request(topic, 0, acks, batch(&[b"a"]));
    let response = client.call::<ProduceRequest>(PRODUCE_VERSION, &request).await;
    response.responses[0].partition_responses[0].error_code
}

#[tokio::test]
async fn a_leader_withholds_records_from_followers_out_of_sync_and_from_no_others() {
    let cluster = Cluster::start().await;
    let (mut second, mut third) = (Follower::join(&cluster, 2).await, Follower::join(&cluster, 3).await);
    let mut client = cluster.client().await;
    client.create_topic_on("t", &[&[1, 2]], &[("leader.replication.throttled.replicas", "0:1")]).await;
    second.follow(&cluster, "t");
    third.follow(&cluster, "t");
    let rate = |rate| set(ConfigResource::broker(BrokerId(1)), &[("leader.replication.throttled.rate", rate)]);
    taken(cluster.control(rate("0")).await);
    cluster.control(on("t", &[1, 2, 3])).await;
    assert_eq!(produce(&mut client, "t", 1).await, 0);

    assert!(second.has(0).await.records.is_some_and(|records| !records.is_empty()), "it is in sync");
    assert_eq!(second.has(1).await.high_watermark, 1, "so who has nothing is not in sync");
    let given = third.has(0).await;
    assert_eq!((given.error_code, given.records.unwrap_or_default().len()), (0, 0));

    taken(
        cluster.control(set(ConfigResource::topic("t"), &[("leader.replication.throttled.replicas", "0:2,1:1")])).await,
    );
    assert!(third.has(0).await.records.is_some_and(|records| !records.is_empty()), "neither is this replica");
    taken(cluster.control(set(ConfigResource::topic("t"), &[("leader.replication.throttled.replicas", "*")])).await);
    assert!(third.has(0).await.records.is_none_or(|records| records.is_empty()));
    taken(cluster.control(rate("1000000")).await);
    // What went to the replica in sync was taken from the rate too, and is paid back within a millisecond.
    while third.has(0).await.records.is_none_or(|records| records.is_empty()) {
        tokio::task::yield_now().await;
    }
    let metrics = cluster.metrics();
    assert!(metrics.contains("bytesout_total{topic=\"t\"} 0"), "that is for clients: {metrics}");
    assert!(!metrics.contains("reassignmentbytesout_total 0"), "{metrics}");
}

#[tokio::test]
async fn a_follower_that_is_being_added_rests_and_others_of_the_same_leader_do_not() {
    let rate = ("follower.replication.throttled.rate", "0");
    let brokers = Brokers::start(2, &[]).await;
    taken(brokers.control(set(ConfigResource::broker(BrokerId(2)), &[rate])).await);
    let mut client = brokers.client(1).await;
    let throttled = [("follower.replication.throttled.replicas", "0:2")];
    client.create_topic_on("t", &[&[1]], &throttled).await;
    client.create_topic_on("u", &[&[1, 2]], &throttled).await;
    assert_eq!(produce(&mut client, "t", -1).await, 0);
    brokers.control(on("t", &[1, 2])).await;
    for _ in 0..5 {
        assert_eq!(produce(&mut client, "u", -1).await, 0, "a replica in sync is not held back");
    }
    assert_eq!(brokers.end(2), 0);
    assert_eq!(brokers.state("t", 0).await.isr, [BrokerId(1)]);

    taken(
        brokers
            .control(set(ConfigResource::broker(BrokerId(2)), &[("follower.replication.throttled.rate", "1000")]))
            .await,
    );
    until(|| brokers.end(2) == 1).await;
    while brokers.state("t", 0).await.isr.len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_ne!(brokers.metric(2, "kafka_server_brokertopicmetrics_reassignmentbytesin_total"), 0);
    assert_eq!(produce(&mut client, "t", -1).await, 0, "it is in sync by now");
}
