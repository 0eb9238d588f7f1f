//! The consumer groups of a cluster, as the reconcilers see them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use taffrail_client::groups::{
    GroupClient, GroupDescription, GroupOffsets, GroupsError, PartitionEnds, TopicPartition,
};
use taffrail_core::ids::Offset;

/// What can be asked and done about groups; [`GroupClient`] says what each gives and refuses.
pub trait GroupAdmin: Send {
    /// See [`GroupClient::describe`].
    fn describe(&mut self, group: &str) -> impl Future<Output = Result<GroupDescription, GroupsError>> + Send;

    /// See [`GroupClient::offsets`].
    fn offsets(&mut self, group: &str) -> impl Future<Output = Result<GroupOffsets, GroupsError>> + Send;

    /// See [`GroupClient::partitions`].
    fn partitions(
        &mut self,
        topics: &BTreeSet<String>,
    ) -> impl Future<Output = Result<BTreeSet<TopicPartition>, GroupsError>> + Send;

    /// See [`GroupClient::ends`].
    fn ends(
        &mut self,
        asked: &BTreeMap<TopicPartition, Option<Offset>>,
    ) -> impl Future<Output = Result<BTreeMap<TopicPartition, PartitionEnds>, GroupsError>> + Send;

    /// See [`GroupClient::at_time`].
    fn at_time(
        &mut self,
        timestamp_ms: i64,
        partitions: &BTreeSet<TopicPartition>,
    ) -> impl Future<Output = Result<BTreeMap<TopicPartition, Option<Offset>>, GroupsError>> + Send;

    /// See [`GroupClient::reset`].
    fn reset(
        &mut self,
        group: &str,
        id: &str,
        resets: &[String],
        offsets: &BTreeMap<TopicPartition, Offset>,
    ) -> impl Future<Output = Result<(), GroupsError>> + Send;

    /// See [`GroupClient::set_places`]; whoever asks nobody by address has nothing to do.
    fn set_places(&mut self, _places: BTreeMap<i32, String>) {}

    /// See [`GroupClient::delete`].
    fn delete(&mut self, group: &str) -> impl Future<Output = Result<(), GroupsError>> + Send;
}

impl GroupAdmin for GroupClient {
    fn set_places(&mut self, places: BTreeMap<i32, String>) {
        Self::set_places(self, places);
    }

    async fn describe(&mut self, group: &str) -> Result<GroupDescription, GroupsError> {
        Self::describe(self, group).await
    }

    async fn offsets(&mut self, group: &str) -> Result<GroupOffsets, GroupsError> {
        Self::offsets(self, group).await
    }

    async fn partitions(&mut self, topics: &BTreeSet<String>) -> Result<BTreeSet<TopicPartition>, GroupsError> {
        Self::partitions(self, topics).await
    }

    async fn ends(
        &mut self,
        asked: &BTreeMap<TopicPartition, Option<Offset>>,
    ) -> Result<BTreeMap<TopicPartition, PartitionEnds>, GroupsError> {
        Self::ends(self, asked).await
    }

    async fn at_time(
        &mut self,
        timestamp_ms: i64,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, Option<Offset>>, GroupsError> {
        Self::at_time(self, timestamp_ms, partitions).await
    }

    async fn reset(
        &mut self,
        group: &str,
        id: &str,
        resets: &[String],
        offsets: &BTreeMap<TopicPartition, Offset>,
    ) -> Result<(), GroupsError> {
        Self::reset(self, group, id, resets, offsets).await
    }

    async fn delete(&mut self, group: &str) -> Result<(), GroupsError> {
        Self::delete(self, group).await
    }
}
