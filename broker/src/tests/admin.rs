//! Metadata and administration, as clients see it.

use taffrail_core::errors::ErrorCode;
use taffrail_protocol::message::create_partitions_request::CreatePartitionsTopic;
use taffrail_protocol::message::describe_configs_request::DescribeConfigsResource;
use taffrail_protocol::message::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use taffrail_protocol::message::metadata_request::MetadataRequestTopic;
use taffrail_protocol::message::{
    AddRaftVoterRequest, ApiVersionsRequest, CreatePartitionsRequest, DescribeConfigsRequest, DescribeLogDirsRequest,
    DescribeQuorumRequest, DescribeTopicPartitionsRequest, IncrementalAlterConfigsRequest, InitProducerIdRequest,
    MetadataRequest, RemoveRaftVoterRequest, SaslHandshakeRequest, add_raft_voter_request, describe_quorum_request,
};

use super::cluster::{Client, Cluster, batch, topic_name};

async fn metadata(client: &mut Client, name: &str, create: bool) -> (i16, usize) {
    let topic = MetadataRequestTopic::default().with_name(Some(topic_name(name)));
    let request = MetadataRequest::default().with_topics(Some(vec![topic])).with_allow_auto_topic_creation(create);
    let response = client.call(12, &request).await;
    (response.topics[0].error_code, response.topics[0].partitions.len())
}

#[tokio::test]
async fn versions_and_the_refusal_of_sasl_are_told_before_anything_else() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    let request = ApiVersionsRequest::default()
        .with_client_software_name("tests".into())
        .with_client_software_version("1".into());
    let response = client.call(3, &request).await;
    assert_eq!(response.error_code, 0);
    assert!(response.api_keys.iter().any(|key| (key.api_key, key.min_version, key.max_version) == (0, 0, 13)));
    let handshake = client.call(1, &SaslHandshakeRequest::default().with_mechanism("PLAIN".into())).await;
    assert_eq!(handshake.error_code, ErrorCode::IllegalSaslState.code());
}

#[tokio::test]
async fn the_quorum_is_described_and_changed_as_kafkas_tools_expect() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    let describe = |topic: &str| {
        let partition = describe_quorum_request::PartitionData::default();
        let topic = describe_quorum_request::TopicData::default()
            .with_topic_name(topic_name(topic))
            .with_partitions(vec![partition]);
        DescribeQuorumRequest::default().with_topics(vec![topic])
    };
    let answer = client.call(2, &describe("__cluster_metadata")).await;
    let partition = &answer.topics[0].partitions[0];
    assert_eq!((answer.error_code, partition.leader_id.0, partition.leader_epoch), (0, 1, 3));
    assert_eq!((partition.high_watermark, partition.current_voters[0].log_end_offset), (5, 5));
    assert_eq!((&*answer.nodes[0].listeners[0].host, answer.nodes[0].listeners[0].port), ("localhost", 9093));
    let unknown = client.call(2, &describe("other")).await;
    assert_eq!(unknown.topics[0].partitions[0].error_code, ErrorCode::UnknownTopicOrPartition.code());

    let add = |id: i32| {
        let listener = add_raft_voter_request::Listener::default().with_host("localhost".into()).with_port(9094);
        AddRaftVoterRequest::default().with_voter_id(id).with_listeners(vec![listener])
    };
    assert_eq!(client.call(1, &add(2)).await.error_code, 0);
    assert_eq!(client.call(0, &add(1)).await.error_code, ErrorCode::DuplicateVoter.code());
    let nowhere = add(2).with_listeners(Vec::new());
    assert_eq!(client.call(1, &nowhere).await.error_code, ErrorCode::InvalidRequest.code());
    let foreign = add(2).with_cluster_id(Some("another".into()));
    assert_eq!(client.call(1, &foreign).await.error_code, ErrorCode::InconsistentClusterId.code());
    let remove = |id: i32| RemoveRaftVoterRequest::default().with_cluster_id(None).with_voter_id(id);
    assert_eq!(client.call(0, &remove(1)).await.error_code, 0);
    assert_eq!(client.call(0, &remove(7)).await.error_code, ErrorCode::VoterNotFound.code());
}

#[tokio::test]
async fn asking_for_a_topic_creates_it_only_where_both_sides_agree() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(metadata(&mut client, "asked", false).await, (unknown, 0));
    assert_eq!(metadata(&mut client, "asked", true).await, (unknown, 0), "as in Kafka, the client asks again");
    assert_eq!(metadata(&mut client, "asked", true).await, (0, 1));
    assert_eq!(client.produce("asked", 0, batch(&[b"a"])).await.error_code, 0);
    assert_eq!(metadata(&mut client, "bad name", true).await, (ErrorCode::InvalidTopicException.code(), 0));

    let cluster = Cluster::start_with(&[("auto.create.topics.enable", "false")]).await;
    assert_eq!(metadata(&mut cluster.client().await, "asked", true).await, (unknown, 0));
}

#[tokio::test]
async fn new_partitions_serve_when_they_are_shown() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 1, &[]).await;
    let topic = CreatePartitionsTopic::default().with_name(topic_name("t")).with_count(3).with_assignments(None);
    let request = CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
    assert_eq!(client.call(3, &request).await.results[0].error_code, 0);
    assert_eq!(metadata(&mut client, "t", false).await, (0, 3));
    assert_eq!(client.produce("t", 2, batch(&[b"a"])).await.error_code, 0);
}

#[tokio::test]
async fn a_changed_setting_is_described_and_counts_at_once() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 1, &[]).await;
    let config = AlterableConfig::default().with_name("max.message.bytes".into()).with_value(Some("1000".into()));
    let resource =
        AlterConfigsResource::default().with_resource_type(2).with_resource_name("t".into()).with_configs(vec![config]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    assert_eq!(client.call(1, &request).await.responses[0].error_code, 0);
    let resource = DescribeConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name("t".into())
        .with_configuration_keys(Some(vec!["max.message.bytes".into()]));
    let described = client.call(4, &DescribeConfigsRequest::default().with_resources(vec![resource])).await;
    let configs = &described.results[0].configs;
    assert_eq!(configs.len(), 1);
    assert_eq!((configs[0].value.as_deref(), configs[0].config_source), (Some("1000"), 1));
    let refused = client.produce("t", 0, batch(&[&[0; 2000]])).await;
    assert_eq!(refused.error_code, ErrorCode::MessageTooLarge.code());
}

#[tokio::test]
async fn producers_get_ids_that_nobody_else_has() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let response = client.call(4, &InitProducerIdRequest::default().with_transactional_id(None)).await;
        assert_eq!((response.error_code, response.producer_epoch), (0, 0));
        ids.push(*response.producer_id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn topics_are_described_in_pages_and_with_their_size() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("a", 2, &[]).await;
    client.create_topic("b", 2, &[]).await;
    client.produce("b", 1, batch(&[&[0; 1000]])).await;
    let request = DescribeTopicPartitionsRequest::default().with_response_partition_limit(3);
    let page = client.call(0, &request).await;
    let counts: Vec<usize> = page.topics.iter().map(|topic| topic.partitions.len()).collect();
    assert_eq!(counts, [2, 1]);
    let cursor = page.next_cursor.unwrap();
    assert_eq!((&**cursor.topic_name, cursor.partition_index), ("b", 1));
    let logs = client.call(4, &DescribeLogDirsRequest::default().with_topics(None)).await;
    let sizes = logs.results[0].topics.iter().flat_map(|topic| &topic.partitions);
    assert!(sizes.map(|partition| partition.partition_size).sum::<i64>() > 1000);
    assert!(logs.results[0].total_bytes > 0);
}

#[tokio::test]
async fn traffic_and_partitions_are_counted_under_kafkas_names() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("counted", 2, &[]).await;
    client.produce("counted", 1, batch(&[b"a", b"b"])).await;
    client.fetch("counted", 1, 0, 0).await;
    let printed = cluster.metrics() + &cluster.scraped().await;
    for line in [
        "kafka_server_brokertopicmetrics_messagesin_total{topic=\"counted\"} 2",
        "kafka_server_brokertopicmetrics_totalfetchrequests_total{topic=\"counted\"} 1",
        "kafka_log_log_logendoffset{topic=\"counted\",partition=\"1\"} 2",
        "kafka_cluster_partition_insyncreplicascount{topic=\"counted\",partition=\"0\"} 1",
        "kafka_server_replicamanager_leadercount 2",
        "kafka_server_replicamanager_isrshrinks_total 0",
        "kafka_network_requestmetrics_requests_total{request=\"Produce\"} 1",
        "kafka_server_socket_server_metrics_connection_count{listener=\"PLAINTEXT\"} 1",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line} is not in\n{printed}");
    }
}
