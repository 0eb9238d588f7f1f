//! What a fetch within a session looks at: partitions with news, and no others.

use std::collections::BTreeSet;

use taffrail_core::errors::ErrorCode;
use taffrail_protocol::message::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use taffrail_protocol::message::{DeleteTopicsRequest, FetchRequest, FetchResponse};
use taffrail_runtime::time;

use super::cluster::{Client, Cluster, FETCH_VERSION, SOON, batch, topic_name, values};

const PARTITIONS: i32 = 200;

/// A consumer with a session of all partitions of topic "t".
struct Session {
    client: Client,
    id: i32,
    epoch: i32,
}

impl Session {
    async fn start(cluster: &Cluster) -> Self {
        let mut session = Self { client: cluster.client().await, id: 0, epoch: 0 };
        let all: Vec<(i32, i64)> = (0..PARTITIONS).map(|partition| (partition, 0)).collect();
        let response = session.fetch(&all, 0).await;
        assert_eq!(response.responses[0].partitions.len(), all.len(), "the first answer tells of all");
        session.id = response.session_id;
        assert_ne!(session.id, 0);
        // The next one looks at all once more.
        assert_eq!(session.fetch(&[], 0).await.responses.len(), 0);
        session
    }

    fn request(&mut self, partitions: &[(i32, i64)], wait_ms: i32) -> FetchRequest {
        let partition = |(partition, offset): &(i32, i64)| {
            FetchPartition::default()
                .with_partition(*partition)
                .with_fetch_offset(*offset)
                .with_current_leader_epoch(-1)
                .with_partition_max_bytes(1 << 20)
        };
        let topics = vec![
            FetchTopic::default()
                .with_topic(topic_name("t"))
                .with_partitions(partitions.iter().map(partition).collect()),
        ];
        let request = FetchRequest::default()
            .with_max_wait_ms(wait_ms)
            .with_min_bytes(1)
            .with_max_bytes(50 << 20)
            .with_session_id(self.id)
            .with_session_epoch(self.epoch)
            .with_topics(if partitions.is_empty() { Vec::new() } else { topics });
        self.epoch += 1;
        request
    }

    async fn fetch(&mut self, partitions: &[(i32, i64)], wait_ms: i32) -> FetchResponse {
        let request = self.request(partitions, wait_ms);
        self.client.call(FETCH_VERSION, &request).await
    }
}

/// The partitions of an answer, with the number of records.
fn told(response: &FetchResponse) -> Vec<(i32, usize)> {
    assert_eq!(response.error_code, 0, "{response:?}");
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|it| (it.partition_index, it.records.as_ref().map_or(0, |it| values(it).len()))).collect()
}

/// How many partitions fetches have looked at.
fn looked_at(cluster: &Cluster) -> u64 {
    let metrics = cluster.metrics();
    let line = metrics.lines().find(|line| line.contains("totalfetchrequests_total{topic=\"t\"}")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

async fn start() -> (Cluster, Client, Session) {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", PARTITIONS, &[]).await;
    let session = Session::start(&cluster).await;
    (cluster, client, session)
}

#[tokio::test]
async fn partitions_without_news_are_not_looked_at() {
    let (cluster, mut client, mut session) = start().await;
    let before = looked_at(&cluster);
    assert_eq!(told(&session.fetch(&[], 0).await), []);
    assert_eq!(looked_at(&cluster), before, "nothing has happened");
    client.produce("t", 7, batch(&[b"a", b"b"])).await;
    assert_eq!(told(&session.fetch(&[], 0).await), [(7, 2)]);
    assert_eq!(looked_at(&cluster) - before, 1);
    assert_eq!(told(&session.fetch(&[], 0).await), [(7, 2)], "until the client asks for what comes after");
    assert_eq!(told(&session.fetch(&[(7, 2)], 0).await), []);
    assert_eq!(told(&session.fetch(&[], 0).await), []);
    assert_eq!(looked_at(&cluster) - before, 3);
}

#[tokio::test]
async fn a_waiting_fetch_is_woken_by_any_of_them_and_looks_at_that_one() {
    let (cluster, mut client, mut session) = start().await;
    let before = looked_at(&cluster);
    let request = session.request(&[], 60_000);
    session.client.send(FETCH_VERSION, &request).await;
    assert!(!session.client.is_answered().await);
    client.produce("t", PARTITIONS - 1, batch(&[b"a"])).await;
    let response = session.client.receive::<FetchRequest>(FETCH_VERSION, 0).await;
    assert_eq!(told(&response), [(PARTITIONS - 1, 1)]);
    assert_eq!(looked_at(&cluster) - before, 1);
}

#[tokio::test]
async fn what_does_not_fit_comes_next_and_others_get_their_turn() {
    let (_cluster, mut client, mut session) = start().await;
    for partition in [3, 5] {
        for _ in 0..2 {
            client.produce("t", partition, batch(&[&[0; 1000]])).await;
        }
    }
    let mut turns = Vec::new();
    let mut next: Vec<(i32, i64)> = Vec::new();
    for _ in 0..4 {
        let request = session.request(&next, 0).with_max_bytes(1);
        let response = session.client.call(FETCH_VERSION, &request).await;
        let given: Vec<_> = told(&response).into_iter().filter(|(_, records)| *records > 0).collect();
        assert_eq!(given.len(), 1, "room for one batch");
        let offset = turns.iter().filter(|partition| **partition == given[0].0).count() as i64 + 1;
        next = vec![(given[0].0, offset)];
        turns.push(given[0].0);
    }
    assert_eq!(turns, [3, 5, 3, 5]);
    assert_eq!(told(&session.fetch(&next, 0).await), []);
}

#[tokio::test]
async fn news_that_came_before_a_partition_was_forgotten_are_not_told() {
    let (cluster, mut client, mut session) = start().await;
    client.produce("t", 7, batch(&[b"a"])).await;
    let forgotten = ForgottenTopic::default().with_topic(topic_name("t")).with_partitions(vec![7]);
    let request = session.request(&[], 0).with_forgotten_topics_data(vec![forgotten]);
    assert_eq!(told(&session.client.call(FETCH_VERSION, &request).await), []);
    let before = looked_at(&cluster);
    client.produce("t", 7, batch(&[b"a"])).await;
    assert_eq!(told(&session.fetch(&[], 0).await), []);
    assert_eq!(looked_at(&cluster), before);
}

#[tokio::test]
async fn the_end_of_a_partition_is_told_and_so_is_its_next_life() {
    let (_cluster, mut client, mut session) = start().await;
    let request = session.request(&[], 60_000);
    session.client.send(FETCH_VERSION, &request).await;
    assert!(!session.client.is_answered().await);
    let delete = DeleteTopicsRequest::default().with_topic_names(vec![topic_name("t")]).with_timeout_ms(10_000);
    client.call(5, &delete).await;
    let response = session.client.receive::<FetchRequest>(FETCH_VERSION, 0).await;
    let errors: Vec<i16> = response.responses[0].partitions.iter().map(|it| it.error_code).collect();
    assert!(errors.iter().all(|error| *error == ErrorCode::UnknownTopicOrPartition.code()), "{errors:?}");
    client.create_topic("t", PARTITIONS, &[]).await;
    // The first answer may have come before all of them had ended; those are told of that first.
    let mut served = BTreeSet::new();
    let all_served = async {
        while served.len() < PARTITIONS as usize {
            let again = session.fetch(&[], 0).await;
            let partitions = again.responses.iter().flat_map(|topic| &topic.partitions);
            served.extend(partitions.filter(|it| it.error_code == 0).map(|it| it.partition_index));
        }
    };
    time::timeout(SOON, all_served).await.expect("all are served again");
    client.produce("t", 3, batch(&[b"a"])).await;
    assert_eq!(told(&session.fetch(&[], 0).await), [(3, 1)]);
}

#[tokio::test]
async fn a_new_beginning_of_a_partition_is_told_without_records() {
    let (cluster, mut client, mut session) = start().await;
    client.produce("t", 7, batch(&[b"a"])).await;
    session.fetch(&[], 0).await;
    assert_eq!(told(&session.fetch(&[(7, 1)], 0).await), []);
    let before = looked_at(&cluster);
    cluster.delete_records("t", 7, 1).await;
    let response = session.fetch(&[], 0).await;
    assert_eq!(told(&response), [(7, 0)]);
    assert_eq!(response.responses[0].partitions[0].log_start_offset, 1);
    assert_eq!(looked_at(&cluster) - before, 1);
}
