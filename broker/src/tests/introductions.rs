//! Who is taken for a broker of the cluster.

use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::BrokerId;
use taffrail_protocol::message::fetch_request::{FetchPartition, FetchTopic, ReplicaState};
use taffrail_protocol::message::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use taffrail_protocol::message::{
    BrokerId as WireBrokerId, FetchRequest, ListOffsetsRequest, ProduceRequest, SaslAuthenticateRequest,
    SaslHandshakeRequest, WireUuid,
};

use super::brokers::Brokers;
use super::cluster::{PRODUCE_VERSION, batch, produce_request, topic_name};
use super::followers::VERSION;
use super::replication::until;

#[tokio::test]
async fn whoever_does_not_know_the_secret_is_no_follower_whatever_it_says() {
    let mut brokers = Brokers::start(2, &[]).await;
    let mut client = brokers.client(1).await;
    client.create_topic_on("t", &[&[1, 2]], &[]).await;
    let topic_id = brokers.topic_id("t").await;
    let forged = brokers.stop(2).await;
    client.call::<ProduceRequest>(PRODUCE_VERSION, &produce_request("t", 0, 1, batch(&[b"a"]))).await;
    until(|| brokers.end(1) == 1).await;

    let partition = FetchPartition::default()
        .with_fetch_offset(1)
        .with_log_start_offset(0)
        .with_current_leader_epoch(-1)
        .with_last_fetched_epoch(-1)
        .with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic_id(WireUuid::from_bytes(topic_id.0)).with_partitions(vec![partition]);
    let state = ReplicaState::default().with_replica_id(WireBrokerId(2)).with_replica_epoch(forged.epoch);
    let request = FetchRequest::default().with_replica_state(state).with_session_epoch(-1).with_topics(vec![topic]);
    let answer = client.call(VERSION, &request).await;
    assert_eq!(answer.error_code, ErrorCode::ClusterAuthorizationFailed.code());
    assert_eq!(brokers.log(1, "t", 0).high_watermark(), 0, "nobody has it but the leader");
    assert_eq!(brokers.state("t", 0).await.isr, [BrokerId(1), BrokerId(2)]);

    let partition = ListOffsetsPartition::default().with_timestamp(-1);
    let topic = ListOffsetsTopic::default().with_name(topic_name("t")).with_partitions(vec![partition]);
    let request = ListOffsetsRequest::default().with_replica_id(WireBrokerId(2)).with_topics(vec![topic]);
    let answer = client.call(7, &request).await;
    assert_eq!(answer.topics[0].partitions[0].error_code, ErrorCode::ClusterAuthorizationFailed.code());

    let guessed = client.call(2, &SaslAuthenticateRequest::default().with_auth_bytes(vec![7; 32].into())).await;
    assert_eq!(guessed.error_code, ErrorCode::IllegalSaslState.code(), "without a handshake");
    let chosen = SaslHandshakeRequest::default().with_mechanism("TAFFRAIL-CLUSTER-SECRET-1".into());
    assert_eq!(client.call(1, &chosen).await.error_code, 0);
    for expected in [ErrorCode::None, ErrorCode::SaslAuthenticationFailed] {
        let said = client.call(2, &SaslAuthenticateRequest::default().with_auth_bytes(vec![7; 32].into())).await;
        assert_eq!(said.error_code, expected.code());
    }
    let answer = client
        .call(
            VERSION,
            &FetchRequest::default().with_session_epoch(-1).with_replica_state(
                ReplicaState::default().with_replica_id(WireBrokerId(2)).with_replica_epoch(forged.epoch),
            ),
        )
        .await;
    assert_eq!(answer.error_code, ErrorCode::ClusterAuthorizationFailed.code());

    assert_eq!(brokers.log(1, "t", 0).high_watermark(), 0);

    brokers.fence(forged).await;
    brokers.start_one(2).await;
    until(|| brokers.end(2) == 1).await;
    while brokers.state("t", 0).await.isr.len() < 2 {
        tokio::task::yield_now().await;
    }
}
