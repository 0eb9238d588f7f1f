//! A follower that a test plays: it fetches like another broker, and has what the test says that it has.

use taffrail_core::control::BrokerIdentity;
use taffrail_core::ids::BrokerId;
use taffrail_protocol::message::fetch_request::{FetchPartition, FetchTopic, ReplicaState};
use taffrail_protocol::message::fetch_response::PartitionData;
use taffrail_protocol::message::{BrokerId as WireBrokerId, FetchRequest, FetchResponse, WireUuid};

use super::cluster::{Client, Cluster};

/// Version in which followers fetch.
pub(super) const VERSION: i16 = 17;

/// Another broker's fetcher.
pub(super) struct Follower {
    pub(super) identity: BrokerIdentity,
    client: Client,
    topic: WireUuid,
}

impl Follower {
    /// Broker `id` joins the cluster.
    pub(super) async fn join(cluster: &Cluster, id: i32) -> Self {
        Self::join_in(cluster, id, None).await
    }

    /// Broker `id` joins the cluster, in a rack.
    pub(super) async fn join_in(cluster: &Cluster, id: i32, rack: Option<&str>) -> Self {
        let identity = cluster.join(BrokerId(id), 1, rack).await;
        Self { identity, client: cluster.client().await, topic: WireUuid::nil() }
    }

    /// From now on it follows the partitions of this topic.
    pub(super) fn follow(&mut self, cluster: &Cluster, topic: &str) {
        self.topic = WireUuid::from_bytes(cluster.topic(topic).id.0);
    }

    /// What it asks of one partition: it has everything before `offset`.
    pub(super) fn asks(&self, offset: i64) -> FetchPartition {
        FetchPartition::default()
            .with_fetch_offset(offset)
            .with_log_start_offset(0)
            .with_current_leader_epoch(-1)
            .with_last_fetched_epoch(-1)
            .with_partition_max_bytes(1 << 20)
    }

    /// Its fetch of partitions, outside of a session.
    pub(super) fn request(&self, partitions: Vec<FetchPartition>, wait_ms: i32) -> FetchRequest {
        let BrokerIdentity { id, epoch } = self.identity;
        let topic = FetchTopic::default().with_topic_id(self.topic).with_partitions(partitions);
        FetchRequest::default()
            .with_replica_state(ReplicaState::default().with_replica_id(WireBrokerId(id.0)).with_replica_epoch(epoch))
            .with_max_wait_ms(wait_ms)
            .with_min_bytes(1)
            .with_max_bytes(10 << 20)
            .with_session_epoch(-1)
            .with_topics(vec![topic])
    }

    pub(super) async fn send(&mut self, request: &FetchRequest) {
        self.client.send(VERSION, request).await;
    }

    pub(super) async fn receive(&mut self) -> FetchResponse {
        self.client.receive::<FetchRequest>(VERSION, 0).await
    }

    /// Whether an answer is there.
    pub(super) async fn is_answered(&mut self) -> bool {
        self.client.is_answered().await
    }

    /// Fetches partition 0 and gives the answer.
    pub(super) async fn ask(&mut self, partition: FetchPartition) -> PartitionData {
        let request = self.request(vec![partition], 0);
        self.send(&request).await;
        self.receive().await.responses[0].partitions[0].clone()
    }

    /// Says that it has everything before `offset` of partition 0; gives the answer.
    pub(super) async fn has(&mut self, offset: i64) -> PartitionData {
        self.ask(self.asks(offset)).await
    }
}
