//! Elections, moves of partitions and brokers that go for good, as clients see them.

use taffrail_core::control::Command;
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::BrokerId;
use taffrail_protocol::message::alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};
use taffrail_protocol::message::describe_topic_partitions_request::TopicRequest;
use taffrail_protocol::message::elect_leaders_request::TopicPartitions;
use taffrail_protocol::message::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use taffrail_protocol::message::{
    AlterPartitionReassignmentsRequest, BrokerId as WireBrokerId, DescribeClusterRequest,
    DescribeTopicPartitionsRequest, ElectLeadersRequest, ListPartitionReassignmentsRequest, UnregisterBrokerRequest,
};

use super::cluster::{Client, Cluster, topic_name};

/// Asks to move partition 0 of `topic`; gives the codes of the whole and of the partition.
async fn reassign(client: &mut Client, version: i16, topic: &str, replicas: Option<&[i32]>) -> (i16, i16) {
    let replicas = replicas.map(|ids| ids.iter().map(|id| WireBrokerId(*id)).collect());
    let partition = ReassignablePartition::default().with_replicas(replicas);
    let topic = ReassignableTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
    let request = AlterPartitionReassignmentsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
    let answer = client.call(version, &request).await;
    (answer.error_code, answer.responses[0].partitions[0].error_code)
}

/// Replicas, added and removed ones of what is moving.
async fn moving(client: &mut Client, topics: Option<&[&str]>) -> Vec<(String, Vec<i32>, Vec<i32>, Vec<i32>)> {
    let topics = topics.map(|names| {
        let topic = |name: &&str| {
            ListPartitionReassignmentsTopics::default().with_name(topic_name(name)).with_partition_indexes(vec![0, 7])
        };
        names.iter().map(topic).collect()
    });
    let answer = client.call(0, &ListPartitionReassignmentsRequest::default().with_topics(topics)).await;
    assert_eq!((answer.error_code, answer.error_message), (0, None));
    let ids = |ids: &[WireBrokerId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
    let topics = answer.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|it| {
            let (replicas, adding, removing) = (&it.replicas, &it.adding_replicas, &it.removing_replicas);
            (topic.name.0.to_string(), ids(replicas), ids(adding), ids(removing))
        })
    });
    topics.collect()
}

#[tokio::test]
async fn a_move_is_listed_until_it_is_cancelled() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 1, &[]).await;
    cluster.join(BrokerId(2), 1, None).await;
    assert_eq!(moving(&mut client, None).await, []);
    for version in [0, 1] {
        assert_eq!(reassign(&mut client, version, "t", Some(&[2, 1])).await, (0, 0));
        let expected = [("t".to_owned(), vec![2, 1], vec![2], vec![])];
        assert_eq!(moving(&mut client, None).await, expected);
        assert_eq!(moving(&mut client, Some(&["t", "unknown"])).await, expected);
        assert_eq!(moving(&mut client, Some(&[])).await, []);
        assert_eq!(reassign(&mut client, version, "t", None).await, (0, 0));
        assert_eq!(moving(&mut client, None).await, []);
    }
}

#[tokio::test]
async fn what_cannot_be_moved_is_refused_by_kafkas_codes() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 1, &[]).await;
    let cases: [(&str, Option<&[i32]>, ErrorCode); 5] = [
        ("t", None, ErrorCode::NoReassignmentInProgress),
        ("t", Some(&[1, 9]), ErrorCode::InvalidReplicaAssignment),
        ("t", Some(&[1, 1]), ErrorCode::InvalidReplicaAssignment),
        ("t", Some(&[]), ErrorCode::InvalidReplicaAssignment),
        ("unknown", Some(&[1]), ErrorCode::UnknownTopicOrPartition),
    ];
    for (topic, replicas, expected) in cases {
        assert_eq!(reassign(&mut client, 1, topic, replicas).await, (0, expected.code()), "{topic} {replicas:?}");
    }
}

#[tokio::test]
async fn elections_answer_partition_by_partition_and_only_for_those_that_needed_one_if_all_are_meant() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 2, &[]).await;
    let request = |kind: i8, partitions: &[i32]| {
        let topic = TopicPartitions::default().with_topic(topic_name("t")).with_partitions(partitions.to_vec());
        ElectLeadersRequest::default()
            .with_election_type(kind)
            .with_topic_partitions(Some(vec![topic]))
            .with_timeout_ms(10_000)
    };
    let codes = |answer: &taffrail_protocol::message::ElectLeadersResponse| {
        let results = answer.replica_election_results.iter().flat_map(|topic| &topic.partition_result);
        results.map(|result| (result.partition_id, result.error_code)).collect::<Vec<_>>()
    };
    let needless = ErrorCode::ElectionNotNeeded.code();
    for version in 0..=2 {
        let answer = client.call(version, &request(0, &[0, 1, 5])).await;
        let unknown = ErrorCode::UnknownTopicOrPartition.code();
        assert_eq!((answer.error_code, codes(&answer)), (0, vec![(0, needless), (1, needless), (5, unknown)]));
    }
    let unclean = client.call(2, &request(1, &[0])).await;
    assert_eq!(codes(&unclean), [(0, needless)]);
    let invalid = ErrorCode::InvalidRequest.code();
    let strange = client.call(1, &request(7, &[0])).await;
    assert_eq!((strange.error_code, codes(&strange)), (invalid, vec![(0, invalid)]));
    let all = client.call(2, &ElectLeadersRequest::default().with_topic_partitions(None)).await;
    assert_eq!((all.error_code, codes(&all)), (0, vec![]));
}

#[tokio::test]
async fn brokers_that_are_fenced_or_gone_for_good_are_shown_as_such() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 1, &[]).await;
    let second = cluster.join(BrokerId(2), 1, None).await;
    assert_eq!(reassign(&mut client, 1, "t", Some(&[1, 2])).await, (0, 0));
    cluster.control(Command::FenceBroker(second)).await;
    let listed = async |client: &mut Client, fenced: bool| {
        let answer = client.call(2, &DescribeClusterRequest::default().with_include_fenced_brokers(fenced)).await;
        answer.brokers.iter().map(|broker| (broker.broker_id.0, broker.is_fenced)).collect::<Vec<_>>()
    };
    assert_eq!(listed(&mut client, false).await, [(1, false)]);
    assert_eq!(listed(&mut client, true).await, [(1, false), (2, true)]);
    let topic = TopicRequest::default().with_name(topic_name("t"));
    let request = DescribeTopicPartitionsRequest::default().with_topics(vec![topic]).with_cursor(None);
    let answer = client.call(0, &request).await;
    let partition = &answer.topics[0].partitions[0];
    assert_eq!(partition.offline_replicas, [WireBrokerId(2)]);
    assert_eq!(partition.isr_nodes, [WireBrokerId(1)]);

    let unregister = async |client: &mut Client, id: i32| {
        let answer = client.call(0, &UnregisterBrokerRequest::default().with_broker_id(WireBrokerId(id))).await;
        (answer.error_code, answer.error_message.map(|text| text.to_string()))
    };
    assert_eq!(unregister(&mut client, 2).await, (0, None));
    assert_eq!(listed(&mut client, true).await, [(1, false)]);
    let again = (ErrorCode::BrokerIdNotRegistered.code(), Some("Broker ID 2 is not currently registered".to_owned()));
    assert_eq!(unregister(&mut client, 2).await, again);
}
